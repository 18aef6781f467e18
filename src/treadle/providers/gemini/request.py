"""Gemini requests as our values: what `body` makes of ours, the other way round."""

from __future__ import annotations

import re
from typing import Any

from treadle.errors import InvalidInput
from treadle.messages import Thread
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import decode
from treadle.providers.gemini.dialect import PROTOCOL, GeminiDialect, Wire
from treadle.providers.gemini.history import read_contents
from treadle.providers.gemini.wire import FUNCTIONS, GeminiTool, wire_function, wire_output
from treadle.values import is_array, is_object

_FREE = frozenset(
    {"args", "response", "default", "example", "labels", "partMetadata"}
    | {"parametersJsonSchema", "responseJsonSchema", "schema"}
)
"""Fields whose content is the user's own: its names are left as they are."""
_MAPS = frozenset({"properties", "defs"})
_UNDERLINED = re.compile(r"_([a-z0-9])")


def decode_request(body: bytes, dialect: GeminiDialect) -> ModelRequest:
    """Return what a Gemini request says; the model is in its address, not in its body.

    Both spellings of its fields are read, `functionCall` and `function_call`. What our values have
    no field for rides along as opaque data or in `extra_body`, so that encoding the result gives an
    equivalent request: the same but for spelling, and fields that are null, empty or a default.

    Raises:
        InvalidInput: it is no Gemini request.
    """
    try:
        wire: object = camel(decode(body))
    except ValueError as error:
        raise InvalidInput(f"The request is not JSON: {error}.") from error
    contents = wire.get("contents") if is_object(wire) else None
    if is_object(contents):
        contents = [contents]
    if not is_object(wire) or not is_array(contents):
        raise InvalidInput('A Gemini request is a JSON object with a list of "contents".')
    left = {name: value for name, value in wire.items() if value is not None}
    del left["contents"]
    system = _system(left)
    tools = _tools(left.pop("tools", None) or [])
    settings: Wire = {}
    if any(_is_function(tool) for tool in tools):
        _take_choice(left, settings)
    output = _take_generation(left, settings)
    for name in ("generationConfig", "toolConfig"):
        if left.get(name) == {}:
            del left[name]
    if left:
        settings["extra_body"] = left
    return ModelRequest(
        messages=Thread(read_contents(contents, dialect)),
        system=system,
        tools=tools,
        settings=ModelSettings(**settings),
        output=output,
    )


def camel(value: Any) -> Any:
    """Return a request with the documented spelling of its fields."""
    if is_array(value):
        return [camel(item) for item in value]
    if not is_object(value):
        return value
    wire: Wire = {}
    for name, item in value.items():
        spelled = _UNDERLINED.sub(lambda found: found[1].upper(), name)
        if spelled in _MAPS and is_object(item):
            wire[spelled] = {key: camel(inner) for key, inner in item.items()}
        else:
            wire[spelled] = item if spelled in _FREE else camel(item)
    return wire


def _system(left: Wire) -> str:
    """Take a system prompt that is nothing but one text."""
    wire: object = left.get("systemInstruction")
    parts = wire.get("parts") if is_object(wire) else None
    parts = [parts] if is_object(parts) else parts
    if not is_object(wire) or not is_array(parts) or len(parts) != 1:
        return ""
    part: object = parts[0]
    text = part.get("text") if is_object(part) and len(part) == 1 else None
    if not isinstance(text, str) or not wire.keys() <= {"parts", "role"}:
        return ""
    del left["systemInstruction"]
    return text


def _tools(wires: object) -> tuple[ToolSpec, ...]:
    wires = [wires] if is_object(wires) else wires
    if not is_array(wires):
        raise InvalidInput(f'"tools" is a list of objects, not {str(wires)[:60]!r}.')
    tools: list[ToolSpec] = []
    for wire in wires:
        if not is_object(wire):
            raise InvalidInput(f"A tool is a JSON object, not {str(wire)[:60]!r}.")
        declared = wire.get(FUNCTIONS)
        tools += map(_function, declared if is_array(declared) else ())
        rest = {name: value for name, value in wire.items() if name != FUNCTIONS}
        if rest:
            tools.append(GeminiTool(next(iter(rest)), "", {}, {PROTOCOL: rest}))
    return tuple(tools)


def _function(wire: object) -> ToolSpec:
    """Return a function; one that we would declare otherwise rides along as it is."""
    if not is_object(wire):
        raise InvalidInput(f"A function is a JSON object, not {str(wire)[:60]!r}.")
    schema = wire.get("parametersJsonSchema") or wire.get("parameters")
    spec = ToolSpec(
        str(wire.get("name", "")),
        str(wire.get("description") or ""),
        schema if is_object(schema) else {},
    )
    given = {name: value for name, value in wire.items() if value not in (None, "")}
    if wire_function(spec) == given:
        return spec
    return GeminiTool(
        spec.name, spec.description, spec.parameters, {PROTOCOL: {FUNCTIONS: [given]}}
    )


def _is_function(tool: ToolSpec) -> bool:
    return not isinstance(tool, GeminiTool) or FUNCTIONS in (tool.provider or {})[PROTOCOL]


def _take_choice(left: Wire, settings: Wire) -> None:
    """Take a choice of tools that we would send the same way."""
    config = left.get("toolConfig")
    calling: object = config.get("functionCallingConfig") if is_object(config) else None
    if not is_object(config) or not is_object(calling):
        return
    modes = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
    choice = modes.get(str(calling.get("mode"))) if calling.keys() == {"mode"} else None
    names = calling.get("allowedFunctionNames")
    if calling == {"mode": "ANY", "allowedFunctionNames": names} and is_array(names):
        one = len(names) == 1 and isinstance(names[0], str) and names[0]
        choice = names[0] if one and names[0] not in modes.values() else None
    if choice:
        settings["tool_choice"] = choice
        rest = {key: value for key, value in config.items() if key != "functionCallingConfig"}
        left["toolConfig"] = rest


def _take_generation(left: Wire, settings: Wire) -> OutputSchema | None:
    """Take what our settings have fields for, and a schema that we would send the same way."""
    config: object = left.get("generationConfig")
    if not is_object(config):
        return None
    rest = {name: value for name, value in config.items() if value is not None}
    for name, (ours, wanted) in _NUMBERS.items():
        value: Any = rest.get(name)
        if isinstance(value, wanted) and not isinstance(value, bool) and _in_range(ours, value):
            settings[ours] = rest.pop(name)
    stop = rest.get("stopSequences")
    if is_array(stop) and stop and all(isinstance(text, str) and text for text in stop):
        settings["stop"] = tuple(rest.pop("stopSequences"))
    output = None
    schema = rest.get("responseJsonSchema")
    if is_object(schema):
        output = OutputSchema(str(schema.get("title") or "output"), schema)
        if any(rest.get(name) != value for name, value in wire_output(output).items()):
            output = None
        else:
            del rest["responseJsonSchema"], rest["responseMimeType"]
    left["generationConfig"] = rest
    return output


_NUMBERS: dict[str, tuple[str, Any]] = {
    "temperature": ("temperature", (int, float)),
    "topP": ("top_p", (int, float)),
    "maxOutputTokens": ("max_output_tokens", int),
    "seed": ("seed", int),
    "presencePenalty": ("presence_penalty", (int, float)),
    "frequencyPenalty": ("frequency_penalty", (int, float)),
}


def _in_range(name: str, value: float) -> bool:
    least = {"temperature": 0, "top_p": 0, "max_output_tokens": 1}.get(name, value)
    return least <= value <= (1 if name == "top_p" else value) and abs(value) < 2**63
