"""What Gemini's servers answer 400 to."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from treadle.values import is_array, is_object

Json = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_UNDERLINED = re.compile(r"_([a-z0-9])")
_FREE = {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "partMetadata"}
_REQUEST = {
    *("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "model"),
    *("safetySettings", "cachedContent", "labels", "modelArmorConfig", "serviceTier", "store"),
}
_KINDS = {
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
}
_PART = _KINDS | {
    *("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"),
    *("audioTranscription", "mediaProcessing", "speechMetadata", "documentMetadata"),
}
_CALL = {"id", "name", "args", "partialArgs", "willContinue"}
_RESULT = {"id", "name", "response", "parts", "willContinue", "scheduling"}
_GENERATION = {
    *("temperature", "topP", "topK", "candidateCount", "maxOutputTokens", "stopSequences", "seed"),
    *("presencePenalty", "frequencyPenalty", "responseMimeType", "responseSchema", "logprobs"),
    *("responseJsonSchema", "responseFormat", "responseModalities", "responseLogprobs"),
    *("thinkingConfig", "speechConfig", "mediaResolution", "imageConfig", "audioTimestamp"),
    *("routingConfig", "modelSelectionConfig", "enableAffectiveDialog", "translationConfig"),
    *("enableEnhancedCivicAnswers", "audioTranscriptionConfig", "modelConfig"),
}
_READ = {
    *("$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "default"),
    *("description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties"),
    *("maximum", "minItems", "minLength", "minProperties", "minimum", "nullable", "oneOf"),
    *("pattern", "prefixItems", "properties", "propertyOrdering", "required", "title", "type"),
    *("uniqueItems", "example"),
}


def gemini_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a decoded request, whatever the model."""
    request: Json = _spelled(dict(body))
    contents = request.get("contents")
    problems = _unknown(request, _REQUEST, "the request")
    if not is_array(contents) or not contents:
        return [*problems, "contents: a list with at least one content is wanted"]
    for place, content in enumerate(contents):
        problems += _content_problems(content, f"contents[{place}]")
    known = [content for content in contents if is_object(content)]
    problems += _turn_problems(known)
    system = request.get("systemInstruction")
    if system is not None:
        problems += _content_problems(system, "systemInstruction")
    problems += _tool_problems(request)
    return problems + _generation_problems(_object(request.get("generationConfig")))


def gemini3_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a decoded request to a model of the third generation.

    It also wants the first call of every step since the user spoke to be signed.
    """
    request: Json = _spelled(dict(body))
    contents = request.get("contents")
    known = [each for each in contents if is_object(each)] if is_array(contents) else []
    return [*gemini_problems(body), *_signature_problems(known)]


def _content_problems(content: Any, place: str) -> list[str]:
    if not is_object(content):
        return [f"{place}: an object is wanted"]
    problems = _unknown(content, {"parts", "role"}, place)
    if content.get("role", "user") not in ("user", "model", "function", "system"):
        problems.append(f"{place}: no role {content['role']!r}; there are user and model")
    parts = _list(content.get("parts"))
    if not parts:
        return [*problems, f"{place}: it has no parts"]
    for number, part in enumerate(parts):
        problems += _part_problems(part, f"{place}.parts[{number}]")
    return problems


def _part_problems(part: Any, place: str) -> list[str]:
    if not is_object(part):
        return [f"{place}: an object is wanted"]
    problems = _unknown(part, _PART, place)
    kinds = _KINDS & part.keys()
    if len(kinds) != 1:
        return [*problems, f"{place}: one of {', '.join(sorted(_KINDS))} is wanted"]
    kind = kinds.pop()
    inner = part[kind]
    if kind == "text":
        problems += [] if isinstance(inner, str) else [f"{place}: text is no text"]
    elif not is_object(inner):
        problems.append(f"{place}: {kind} is no object")
    elif kind in ("functionCall", "functionResponse"):
        problems += _function_problems(inner, kind, f"{place}.{kind}")
    elif kind == "inlineData" and not _holds_bytes(inner):
        problems.append(f"{place}: inlineData wants a mimeType and data in base64")
    elif kind == "fileData" and not inner.get("fileUri"):
        problems.append(f"{place}: fileData wants a fileUri")
    signature = part.get("thoughtSignature", "")
    if not isinstance(signature, str) or not _is_base64(signature):
        problems.append(f"{place}: thoughtSignature is no base64")
    return problems


def _function_problems(inner: Json, kind: str, place: str) -> list[str]:
    is_call = kind == "functionCall"
    problems = _unknown(inner, _CALL if is_call else _RESULT, place)
    if not _NAME.fullmatch(str(inner.get("name", ""))):
        problems.append(f"{place}: name {inner.get('name')!r} is not {_NAME.pattern}")
    field = "args" if is_call else "response"
    if not is_object(inner.get(field, {} if is_call else None)):
        problems.append(f"{place}: {field} is no object")
    return problems


def _turn_problems(contents: list[Json]) -> list[str]:
    """Return what is wrong between calls and results, which are matched by order and name."""
    problems: list[str] = []
    open_calls: list[Json] = []
    for place, content in _turns(contents):
        where = f"contents[{place}]"
        calls, results = _inner(content, "functionCall"), _inner(content, "functionResponse")
        if results and len(results) != len(_list(content.get("parts"))):
            problems.append(f"{where}: results of functions share it with other parts")
        if results and len(results) != len(open_calls):
            problems.append(
                f"{where}: {len(results)} results, but there are {len(open_calls)} calls before it"
            )
        elif not results and open_calls:
            problems.append(f"{where}: the calls before it have no results")
        problems += _match_problems(open_calls, results, where)
        open_calls = calls
        if calls and content.get("role") != "model":
            problems.append(f"{where}: only the model calls functions")
        if calls and not place:
            problems.append(f"{where}: calls come right after a user's turn or after results")
    return [*problems, "the last calls have no results"] if open_calls else problems


def _turns(contents: list[Json]) -> list[tuple[int, Json]]:
    """Return the turns, each with its place: contents of one role are one, results are apart."""
    turns: list[tuple[int, Json]] = []
    last: tuple[str, bool] | None = None
    for place, content in enumerate(contents):
        kind = (str(content.get("role")), bool(_inner(content, "functionResponse")))
        parts = _list(content.get("parts"))
        if kind == last:
            begin, turn = turns[-1]
            turns[-1] = (begin, {**turn, "parts": [*turn["parts"], *parts]})
        else:
            turns.append((place, {**content, "parts": parts}))
        last = kind
    return turns


def _match_problems(calls: list[Json], results: list[Json], where: str) -> Iterator[str]:
    for call, result in zip(calls, results, strict=False):
        if call.get("name") != result.get("name"):
            yield f"{where}: {result.get('name')!r} answers a call of {call.get('name')!r}"
        if call.get("id") != result.get("id"):
            yield f"{where}: ID {result.get('id')!r} answers the call {call.get('id')!r}"


def _signature_problems(contents: list[Json]) -> list[str]:
    """Return the steps of the current turn whose first call is not signed."""
    begin = 0
    for place, content in enumerate(contents):
        if content.get("role") != "model" and not _inner(content, "functionResponse"):
            begin = place
    problems: list[str] = []
    for place, content in _turns(contents):
        if place < begin:
            continue
        calls = [part for part in _list(content.get("parts")) if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            name = calls[0]["functionCall"].get("name")
            problems.append(f"contents[{place}]: call of {name!r} is missing a thought_signature")
    return problems


def _tool_problems(request: Json) -> list[str]:
    problems: list[str] = []
    names: list[str] = []
    for place, tool in enumerate(_list(request.get("tools"))):
        if not is_object(tool) or not tool:
            problems.append(f"tools[{place}]: an object with a tool is wanted")
            continue
        for function in _list(tool.get("functionDeclarations")):
            names.append(str(function.get("name", "")))
            problems += _declaration_problems(function, f"tools[{place}]")
    problems += [f"tools: two are called {one!r}" for one in set(names) if names.count(one) > 1]
    calling = _object(_object(request.get("toolConfig")).get("functionCallingConfig"))
    mode, allowed = calling.get("mode", "AUTO"), _list(calling.get("allowedFunctionNames"))
    if mode not in ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"):
        problems.append(f"toolConfig: no mode {mode!r}")
    if allowed and mode not in ("ANY", "VALIDATED"):
        problems.append("toolConfig: allowedFunctionNames are only allowed when mode is ANY")
    problems += [f"toolConfig: no function {one!r}" for one in allowed if one not in names]
    if request.get("cachedContent"):
        wrong = {"systemInstruction", "tools", "toolConfig"} & request.keys()
        problems += [f"{one}: it belongs into the cached content" for one in sorted(wrong)]
    return problems


def _declaration_problems(function: Json, place: str) -> list[str]:
    name = function.get("name")
    problems: list[str] = []
    if not _NAME.fullmatch(str(name or "")):
        problems.append(f"{place}: name {name!r} is not {_NAME.pattern}")
    if "parameters" in function and "parametersJsonSchema" in function:
        problems.append(f"{place}: parameters and parametersJsonSchema exclude each other")
    schema = function.get("parametersJsonSchema")
    if schema is None:
        return problems
    if not is_object(schema) or schema.get("type") not in ("object", None):
        problems.append(f"{place}: the parameters of {name!r} are no object schema")
    return problems + list(_schema_problems(schema, f"{place}.{name}"))


def _generation_problems(config: Json) -> list[str]:
    problems = _unknown(config, _GENERATION, "generationConfig")
    schemas = {"responseSchema", "responseJsonSchema"} & config.keys()
    if len(schemas) > 1:
        problems.append(
            "generationConfig: responseSchema and responseJsonSchema exclude each other"
        )
    if schemas and config.get("responseMimeType") not in ("application/json", "text/x.enum"):
        problems.append("generationConfig: a schema wants responseMimeType application/json")
    problems += _schema_problems(config.get("responseJsonSchema"), "responseJsonSchema")
    thinking = _object(config.get("thinkingConfig"))
    if {"thinkingBudget", "thinkingLevel"} <= thinking.keys():
        problems.append("thinkingConfig: thinkingBudget and thinkingLevel exclude each other")
    if len(config.get("stopSequences") or ()) > 5:
        problems.append("generationConfig: at most 5 stopSequences")
    ranges = {"temperature": (0, 2), "topP": (0, 1), "maxOutputTokens": (1, float("inf"))}
    for name, (least, most) in ranges.items():
        value = config.get(name)
        if value is not None and not least <= value <= most:
            problems.append(f"generationConfig: {name} {value} is out of its range")
    return problems


def _schema_problems(schema: Any, place: str) -> Iterator[str]:
    """Yield what of a JSON Schema is outside the subset that is read."""
    if is_array(schema):
        for item in schema:
            yield from _schema_problems(item, place)
    if not is_object(schema):
        return
    for name in schema.keys() - _READ:
        yield f"{place}: {name!r} is not read in a schema"
    beside = {name for name in schema if not name.startswith("$") and name != "title"}
    if "$ref" in schema and beside:
        yield f"{place}: {sorted(beside)} may not stand beside a $ref"
    for name in ("properties", "$defs"):
        for key, inner in _object(schema.get(name)).items():
            yield from _schema_problems(inner, f"{place}.{key}")
    for name in ("items", "prefixItems", "anyOf", "oneOf", "additionalProperties"):
        yield from _schema_problems(schema.get(name), f"{place}.{name}")


def _spelled(value: Any) -> Any:
    """Return a request with the names of its fields in camelCase; both are taken."""
    if is_array(value):
        return [_spelled(item) for item in value]
    if not is_object(value):
        return value
    wire: Json = {}
    for name, item in value.items():
        camel = _UNDERLINED.sub(lambda found: found[1].upper(), name)
        wire[camel] = item if camel in _FREE or camel == "properties" else _spelled(item)
    return wire


def _unknown(wire: Json, known: set[str], place: str) -> list[str]:
    return [f"{place}: unknown name {name!r}" for name in wire if name not in known]


def _inner(content: Json, kind: str) -> list[Json]:
    parts = _list(content.get("parts"))
    return [part[kind] for part in parts if is_object(part) and is_object(part.get(kind))]


def _object(value: Any) -> Json:
    return value if is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_array(value) else [] if value is None else [value]


def _holds_bytes(inner: Json) -> bool:
    data = inner.get("data")
    return bool(inner.get("mimeType")) and isinstance(data, str) and _is_base64(data)


def _is_base64(text: str) -> bool:
    try:
        padded = text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4)
        base64.b64decode(padded, validate=True)
    except ValueError:
        return False
    return True
