"""Gemini's contents as our messages: what `pieces` makes of ours, the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.errors import InvalidInput
from treadle.messages import Audio, File, Image, Message, Part, Text, ToolCall, ToolResult
from treadle.providers._json import encode
from treadle.providers.gemini.dialect import PROTOCOL, TURN, GeminiDialect, Wire
from treadle.providers.gemini.part_reader import read_call, read_part
from treadle.values import is_array, is_object


def read_contents(contents: Iterable[Any], dialect: GeminiDialect) -> list[Message]:
    """Return the messages; results and words that share a content are messages of their own."""
    messages: list[Message] = []
    before = ""
    reader = _Calls()
    for content in contents:
        wire: Any = {"parts": [{"text": content}]} if isinstance(content, str) else content
        if not is_object(wire):
            raise InvalidInput(f"A content is a JSON object, not {str(content)[:60]!r}.")
        if wire.get("role") == "model" and before != "assistant":
            reader.begin()
        runs = _runs(wire, dialect, reader)
        for place, (role, parts) in enumerate(runs):
            extra = _extra(wire) if not place else {TURN: "joined"}
            if not place and not extra and role == before:
                extra = {TURN: "apart"}
            if not messages and role == "assistant":
                extra = {TURN: "apart", **extra}
            provider = {PROTOCOL: extra} if extra else None
            messages.append(Message(role, tuple(parts), provider))
        before = runs[0][0] if len(runs) == 1 else "both"
    return messages


class _Calls:
    """Calls that wait for their results, which name an ID or else come in the same order."""

    __slots__ = ("_count", "_open")

    def __init__(self) -> None:
        self._count = 0
        self._open: list[ToolCall] = []

    def begin(self) -> None:
        """Forget the calls that came before: only those of the last turn are answered."""
        self._open = []

    def made(self, wire: Wire) -> ToolCall:
        """Return a call, and expect its result."""
        self._count += 1
        arguments = wire["functionCall"].get("args")
        raw = encode(arguments if arguments is not None else {}).decode()
        call = read_call(wire, raw, f"call_{self._count}")
        self._open.append(call)
        return call

    def answered(self, name: str, given: object) -> str:
        """Return the ID of the call that a result is for."""
        for call in self._open:
            if call.provider_id == given if given else call.name == name:
                self._open.remove(call)
                return call.id
        self._count += 1
        return str(given or f"call_{self._count}")


def _runs(wire: Wire, dialect: GeminiDialect, calls: _Calls) -> list[tuple[Any, list[Part]]]:
    """Return the parts of a content, in runs of one role."""
    model = wire.get("role") == "model"
    parts: object = wire.get("parts")
    runs: list[tuple[Any, list[Part]]] = []
    parts = [parts] if is_object(parts) else parts or []
    if not is_array(parts):
        raise InvalidInput(f"The parts of a content are a list, not {str(parts)[:60]!r}.")
    for part in parts:
        if not is_object(part):
            raise InvalidInput(f"A part is a JSON object, not {str(part)[:60]!r}.")
        role, ours = _read(part, dialect, calls, model=model)
        if not runs or runs[-1][0] != role:
            runs.append((role, []))
        runs[-1][1].append(ours)
    return runs or [("assistant" if model else "user", [])]


def _read(wire: Wire, dialect: GeminiDialect, calls: _Calls, *, model: bool) -> tuple[str, Part]:
    if is_object(wire.get("functionCall")) and model:
        return "assistant", calls.made(wire)
    if is_object(wire.get("functionResponse")) and not model:
        return "tool", _result(wire, dialect, calls)
    return "assistant" if model else "user", _owned(read_part(wire, dialect), model=model)


def _owned(part: Part, *, model: bool) -> Part:
    """Return a part that is sent back to its server: a medium of the model's, too."""
    if model and isinstance(part, Image | Audio | File) and part.provider is None:
        return replace(part, provider={PROTOCOL: {}})
    return part


def _result(wire: Wire, dialect: GeminiDialect, calls: _Calls) -> ToolResult:
    function: Wire = wire["functionResponse"]
    name, response = str(function.get("name") or ""), function.get("response")
    call_id = calls.answered(name, function.get("id"))
    kept: Wire = {key: value for key, value in wire.items() if key != "functionResponse"}
    words = _words(response)
    parts: list[Any] = [Text(words if words is not None else encode(response).decode())]
    media = function.get("parts")
    for item in media if is_array(media) else ():
        medium = read_part(item, dialect) if is_object(item) else None
        if isinstance(medium, Image | Audio | File):
            parts.append(medium)
    inner = {key: function[key] for key in function if key not in ("name", "response", "parts")}
    if words is None:
        inner["response"] = response
    if media:
        inner["parts"] = media
    if inner:
        kept["functionResponse"] = inner
    return ToolResult(
        call_id,
        name,
        tuple(part for part in parts if part != Text("")),
        is_error=is_object(response) and "error" in response and words is not None,
        packed=UNSET,
        provider={PROTOCOL: kept} if kept else None,
    )


def _words(response: object) -> str | None:
    """Return the text of a response that we would send the same way."""
    if not is_object(response) or len(response) != 1:
        return None
    words = response.get("output", response.get("error"))
    return words if isinstance(words, str) else None


def _extra(wire: Wire) -> Wire:
    """Return the fields of a content that it would not be sent with."""
    extra = {key: value for key, value in wire.items() if key not in ("parts", "role")}
    if wire.get("role") not in ("user", "model", None):
        extra["role"] = wire["role"]
    return {key: value for key, value in extra.items() if value is not None}
