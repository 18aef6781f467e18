"""What the Gemini codec must make of recorded exchanges.

Each check compares with the plain JSON of the recording, never with what our own code said.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tools.recorded import errors_of, first_difference, splits_check
from tools.recording import Json, Recording, Tally
from treadle.errors import AuthenticationFailed, ModelError
from treadle.ports.model import ModelReply, ModelRequest
from treadle.providers._failure import failure
from treadle.providers._sse import SseReader
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.dialect import GeminiDialect, dialect_of
from treadle.providers.gemini.reply import decode_reply
from treadle.providers.gemini.request import decode_request
from treadle.providers.gemini.stream import GeminiFold
from treadle.usage import Usage
from treadle.values import is_array, is_object


def check_replies(recordings: list[Recording]) -> Tally:
    """Every answer of 2xx decodes to what its JSON says; an error in one is a typed error."""
    tally = Tally("2xx decodes")
    for recording in recordings:
        if recording.status >= 300:
            continue
        objects = _objects(recording)
        failed = any("error" in item for item in objects)
        try:
            reply = _reply(recording)
        except ModelError as error:
            problem = None if failed else f"{type(error).__name__}: {error}"
            tally.count(problem, recording, "error inside a 200")
            continue
        problem = "an error was taken for an answer" if failed else _difference(reply, objects)
        tally.count(problem, recording, "stream" if recording.is_stream else "whole")
    return tally


def check_errors(recordings: list[Recording]) -> Tally:
    """Every other answer becomes the right error, which is not retried unless that may help."""
    tally = Tally("errors typed")
    for recording in recordings:
        if recording.status < 300:
            continue
        error = failure(
            recording.status, {}, recording.body, recording.asked, now=datetime.now(UTC)
        )
        body = json.loads(recording.body)
        inner = (body[0] if is_array(body) else body).get("error", {})
        tally.count(_error_problem(error, recording.status, inner), recording, type(error).__name__)
    return tally


def check_requests(recordings: list[Recording]) -> Tally:
    """Every request survives the way to our values and back."""
    tally = Tally("requests there and back")
    for recording in recordings:
        dialect = _dialect(recording)
        request = decode_request(json.dumps(recording.request).encode(), dialect)
        encoder = GeminiEncoder(dialect)
        body = json.loads(encoder.body(request))
        again = json.loads(encoder.body(request))  # from what was kept
        there, back = normal(recording.request), normal(body)
        problem = None if there == back else first_difference(there, back)
        tally.count(problem or (None if again == body else "the kept bytes differ"), recording)
    return tally


def check_usage(recordings: list[Recording]) -> Tally:
    """The tokens of every reply are those that its server counted."""
    tally = Tally("usage totals")
    total = Usage()
    for recording in recordings:
        counts = [item["usageMetadata"] for item in _objects(recording) if "usageMetadata" in item]
        if recording.status >= 300 or not counts:
            continue
        usage = _reply(recording).usage
        total += usage
        tally.count(_usage_problem(usage, counts[-1]), recording)
    tally.notes["tokens"] = total.total_tokens
    return tally


def exchange(recording: Recording) -> tuple[ModelRequest, ModelReply]:
    """Return what was asked and what was answered, in our values."""
    request = decode_request(json.dumps(recording.request).encode(), _dialect(recording))
    return request, _reply(recording)


def normal(request: Json) -> Json:
    """Return a request in the one form that stands for all equivalent ones.

    Names of fields are spelled in one way, functions are declared in one list, bytes are in one
    alphabet of base64. Dropped are fields that are null, empty lists and objects of options, empty
    descriptions, contents that say nothing, and the role of a system prompt; a content without a
    role is the user's.
    """
    wire = _spelled(request)
    contents = [_normal_content(content) for content in _list(wire["contents"])]
    wire["contents"] = [content for content in contents if content["parts"]]
    wire.get("systemInstruction", {}).pop("role", None)
    tools: list[Json] = []
    for tool in _list(wire.pop("tools", [])):
        tools += [
            {"function": each} for each in map(_described, tool.pop("functionDeclarations", []))
        ]
        tools += [{name: value} for name, value in tool.items()]
    wire["tools"] = sorted(tools, key=lambda tool: "function" not in tool)
    return {name: value for name, value in wire.items() if value not in ([], {})}


def _dialect(recording: Recording) -> GeminiDialect:
    return dialect_of(f"https://{recording.host}/v1beta", recording.path)


def _reply(recording: Recording) -> ModelReply:
    if not recording.is_stream:
        headers = {"content-type": recording.content_type}
        return decode_reply(recording.body, _dialect(recording), recording.asked, headers)
    reader = SseReader()
    return _folded(recording, [*reader.feed(recording.body), *reader.end()])


def _folded(recording: Recording, payloads: list[bytes]) -> ModelReply:
    fold = GeminiFold(_dialect(recording), recording.asked)
    fold.feed(payloads)
    return fold.finish()


def _objects(recording: Recording) -> list[Json]:
    """Return the JSON objects of an answer, found by the simplest means."""
    text = recording.body.decode()
    if not recording.is_stream:
        decoded: Any = json.loads(text)
        return decoded if is_array(decoded) else [decoded]
    lines = text.replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def _error_problem(error: ModelError, status: int, inner: Json) -> str | None:
    refused = "API key not valid" in inner.get("message", "")
    wanted = (AuthenticationFailed,) if refused else errors_of(status)
    delay = next((one["retryDelay"] for one in inner.get("details", ()) if "retryDelay" in one), "")
    if type(error) not in wanted:
        return f"{status} became {type(error).__name__}"
    if error.retryable and status != 429 and status < 500:
        return f"{status} is tried again"
    if inner.get("message", "") not in str(error):
        return f"the server's words are not in {error}"
    if error.status != status:
        return f"status {error.status} instead of {status}"
    if delay and error.retry_after != float(delay.removesuffix("s")):
        return f"a wait of {error.retry_after} instead of {delay}"
    return None


def _difference(reply: ModelReply, objects: list[Json]) -> str | None:
    """Return how a reply differs from the plain JSON: in what it says, and in why it ended."""
    found = [item["candidates"][0] for item in objects if item.get("candidates")]
    parts: list[Json] = [part for one in found for part in one.get("content", {}).get("parts", [])]
    message = reply.message
    told: dict[str, tuple[object, object]] = {
        "text": (message.text, _joined(parts, thought=False)),
        "reasoning": (message.reasoning, _joined(parts, thought=True)),
        "calls": (
            [(call.name, json.loads(call.raw)) for call in message.tool_calls],
            [(c["name"], c.get("args", {})) for p in parts if (c := p.get("functionCall"))],
        ),
        "signatures": (
            sorted(re.findall(r"[A-Za-z0-9+/=_-]{40,}", " ".join(_signatures(reply)))),
            sorted(part["thoughtSignature"] for part in parts if "thoughtSignature" in part),
        ),
        "end": (reply.provider_finish, _end(found, objects)),
        "sources": (
            {one.url or one.text for one in message.citations if one.url or one.text},
            _sources(found) if message.text else set[str](),
        ),
    }
    for name, (got, wanted) in told.items():
        if got != wanted:
            return f"{name} {str(got)[:80]!r} instead of {str(wanted)[:80]!r}"
    return None


def _joined(parts: list[Json], *, thought: bool) -> str:
    return "".join(p["text"] for p in parts if "text" in p and p.get("thought", False) is thought)


def _signatures(reply: ModelReply) -> list[str]:
    """Return the signatures that will go back, wherever they are."""
    found: list[str] = []
    for part in reply.message.parts:
        signature = getattr(part, "signature", None)
        kept = (part.provider or {}).get("gemini", {})
        found += [each for each in (signature, kept.get("thoughtSignature")) if each]
    return found


def _end(found: list[Json], objects: list[Json]) -> str | None:
    blocked = [item["promptFeedback"] for item in objects if "promptFeedback" in item]
    if blocked:
        return blocked[-1]["blockReason"]
    ends = [one["finishReason"] for one in found if one.get("finishReason")]
    return ends[-1] if ends else None


def _sources(found: list[Json]) -> set[str]:
    """Return the addresses, else the passages, of what an answer was grounded in."""
    sources: set[str] = set()
    for one in found:
        for chunk in one.get("groundingMetadata", {}).get("groundingChunks", []):
            inner = next(iter(chunk.values()))
            sources |= {inner.get("uri") or inner.get("text")}
        for source in one.get("citationMetadata", {}).get("citations", []):
            sources |= {source["uri"]} if "uri" in source else set()
        for fetched in one.get("urlContextMetadata", {}).get("urlMetadata", []):
            if fetched.get("urlRetrievalStatus") == "URL_RETRIEVAL_STATUS_SUCCESS":
                sources.add(fetched["retrievedUrl"])
    return sources - {None}


def _usage_problem(usage: Usage, counts: Json) -> str | None:
    prompt = counts.get("promptTokenCount", 0) + counts.get("toolUsePromptTokenCount", 0)
    thought = counts.get("thoughtsTokenCount", 0)
    wanted: Json = {
        "input_tokens": prompt,
        "output_tokens": counts.get("candidatesTokenCount", 0) + thought,
        "total_tokens": counts.get("totalTokenCount", 0),
        "cache_read_tokens": counts.get("cachedContentTokenCount", 0),
        "cache_write_tokens": 0,
        "reasoning_tokens": thought,
        "requests": 1,
    }
    for name, value in wanted.items():
        if getattr(usage, name) != value:
            return f"{name} is {getattr(usage, name)}, not {value}"
    return None


def _spelled(value: Any, inside: str = "") -> Any:
    """Return JSON with the names of fields in camelCase, but for those that are the user's."""
    if is_array(value):
        return [_spelled(item, inside) for item in value]
    if not is_object(value) or inside in _FREE:
        return value
    wire: Json = {}
    for name, item in value.items():
        first, *rest = name.split("_")
        camel = name if inside == "properties" else first + "".join(map(str.capitalize, rest))
        if item is not None:
            wire[camel] = _spelled(item, "" if inside == "properties" else camel)
    return wire


_FREE = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "default", "labels")


def _normal_content(content: Json) -> Json:
    parts = [_normal_part(part) for part in _list(content.get("parts", []))]
    return {"role": "user", **content, "parts": parts}


def _normal_part(part: Json) -> Json:
    inner, function = part.get("inlineData"), part.get("functionResponse")
    if inner:
        part = {**part, "inlineData": {**inner, "data": _alphabet(inner["data"])}}
    if function and "parts" in function:
        parts = [_normal_part(item) for item in function["parts"]]
        part = {**part, "functionResponse": {**function, "parts": parts}}
    if "functionCall" in part:
        part = {**part, "functionCall": {"args": {}, **part["functionCall"]}}
    return part


def _described(function: Json) -> Json:
    return {name: value for name, value in function.items() if value != ""}


def _alphabet(data: str) -> str:
    return base64.b64encode(base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))).decode()


def _list(value: Any) -> list[Json]:
    return value if is_array(value) else [value]


CHECKS: tuple[Callable[[list[Recording]], Tally], ...] = (
    check_replies,
    check_errors,
    splits_check(_folded),
    check_requests,
    check_usage,
)
