"""Their input items as our messages: what `responses_wire` makes of ours, the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from treadle.errors import InvalidInput
from treadle.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    UserPart,
)
from treadle.providers._json import arguments_json
from treadle.providers.openai.responses_calls import is_ours
from treadle.providers.openai.responses_dialect import PROTOCOL, ResponsesDialect
from treadle.providers.openai.responses_items import (
    citations_in,
    hosted,
    reasoning_part,
    special_call,
)
from treadle.providers.openai.responses_objects import Wire, objects_in, text_in
from treadle.providers.openai.responses_wire import ITEM, wire_items, wire_part
from treadle.values import is_array, is_object

_CALL = ("type", "call_id", "name", "arguments")
_RESULTS = {
    "function_call_output",
    "custom_tool_call_output",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
}


def read_items(items: Iterable[Any], dialect: ResponsesDialect) -> list[Message]:
    """Return the messages: what the model said on end is one, and so are results on end."""
    reading = _Reading(dialect)
    for item in items:
        if not is_object(item):
            raise InvalidInput(f"An input item is a JSON object, not {str(item)[:60]!r}.")
        reading.take(item)
    return reading.messages()


class _Reading:
    """The messages as far as the items were read."""

    __slots__ = ("_dialect", "_messages", "_names", "_parts", "_role")

    def __init__(self, dialect: ResponsesDialect) -> None:
        self._dialect = dialect
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._role: str | None = None  # of the message that is open
        self._parts: list[Part] = []

    def messages(self) -> list[Message]:
        self._close()
        return self._messages

    def take(self, item: Wire) -> None:
        kind, role = text_in(item.get("type", "message")), text_in(item.get("role"))
        call_id = text_in(item.get("call_id"))
        if kind == "message" and role == "assistant":
            parts = _said(item)
            if not parts:
                return
            if self._parts and type(self._parts[-1]) is Text:
                self._close()  # two message items on end stay two
            self._add("assistant", *parts)
        elif kind == "message":
            self._close()
            self._messages.append(_spoken(item, self._dialect))
        elif kind in _RESULTS and call_id:
            self._add("tool", _result(item, call_id, self._names.get(call_id, ""), self._dialect))
        else:
            part = _step(item)
            if isinstance(part, ToolCall):
                self._names[part.id] = part.name
            self._add("assistant", part)

    def _add(self, role: str, *parts: Part) -> None:
        if self._role != role:
            self._close()
            self._role = role
        self._parts += parts

    def _close(self) -> None:
        """Close the message that is open; its reasoning stays only where something follows it."""
        if self._role == "tool":
            self._messages.append(Message("tool", tuple(self._parts)))
        elif self._role == "assistant":
            self._messages.append(Message("assistant", tuple(self._parts)))
        self._role, self._parts = None, []


def _spoken(item: Wire, dialect: ResponsesDialect) -> Message:
    role = "system" if item.get("role") in ("system", "developer") else "user"
    parts = tuple(_part(block, dialect) for block in _blocks(item.get("content"), "input_text"))
    message = Message(role, parts)
    built = next(iter(wire_items(message, dialect, {})), {"role": role})
    extra = {
        name: value
        for name, value in item.items()
        if value is not None and not _same(name, value, built.get(name))
    }
    if extra == {"type": "message"}:
        return message
    return replace(message, provider={PROTOCOL: extra}) if extra else message


def _said(item: Wire) -> list[Part]:
    """Return the texts of a message of the model; its further fields go with each."""
    fields = {
        name: value
        for name, value in item.items()
        if name not in ("role", "content") and value is not None
    }
    if fields == {"type": "message"}:
        fields = {}
    origin: Wire = {ITEM: fields} if fields else {}
    parts: list[Part] = []
    for block in _blocks(item.get("content"), "output_text"):
        text, annotations = block.get("text"), objects_in(block.get("annotations"))
        if block.get("type") != "output_text" or not isinstance(text, str):
            words = text_in(block.get("refusal")) or text_in(text)
            parts.append(Text(words or f"[{block.get('type')}]", {PROTOCOL: {**origin, **block}}))
            continue
        kept = {name: value for name, value in block.items() if name not in ("type", "text")}
        if not annotations:
            kept.pop("annotations", None)
        kept = {**origin, **kept}
        provider: Opaque | None = {PROTOCOL: kept} if kept else None
        if text.strip() or provider:
            parts.append(Text(text, provider, citations_in(annotations)))
    return parts


def _step(item: Wire) -> Part:
    """Return anything else: a call, reasoning, or what only the server has a use for."""
    kind, call_id = item.get("type"), text_in(item.get("call_id"))
    if kind == "reasoning":
        return _reasoning(item)
    if kind == "function_call" and call_id:
        name, raw = text_in(item.get("name")), text_in(item.get("arguments"))
        kept = {key: value for key, value in item.items() if key not in _CALL}
        if item.get("arguments") != arguments_json(raw):
            kept = item
        return ToolCall(call_id, name, raw, call_id, {PROTOCOL: kept} if kept else None)
    return special_call(item, {}) if is_ours(item, set()) else hosted(item, {})


def _reasoning(item: Wire) -> Reasoning:
    return reasoning_part(item, {})


def _result(item: Wire, call_id: str, name: str, dialect: ResponsesDialect) -> ToolResult:
    blocks = _blocks(item.get("output"), "input_text")
    parts = tuple(_part(block, dialect) for block in blocks)
    result = ToolResult(call_id, name, parts)
    if item.get("type") != "function_call_output":
        return replace(result, provider={PROTOCOL: item})
    built = wire_items(Message("tool", (result,)), dialect, {})[0]
    extra = {
        key: value
        for key, value in item.items()
        if value is not None and not _same(key, value, built.get(key))
    }
    return replace(result, provider={PROTOCOL: extra}) if extra else result


def _blocks(content: object, kind: str) -> list[Wire]:
    """Return content as blocks, whatever form it has."""
    items = content if is_array(content) else [content] if content else []
    return [item if is_object(item) else {"type": kind, "text": str(item)} for item in items]


def _part(block: Wire, dialect: ResponsesDialect) -> UserPart:
    """Return a block as the part that we would send as this block, else as opaque text."""
    bare = {name: value for name, value in block.items() if value is not None}
    text = text_in(bare.get("text"))
    try:
        part = _medium(bare)
    except InvalidInput:
        part = None
    if part is None and bare.get("type") == "input_text":
        part = Text(text)
    if part is None:
        return Text(text or f"[{bare.get('type')}]", {PROTOCOL: bare})
    built = wire_part(part, dialect)
    extra = {name: value for name, value in bare.items() if built.get(name) != value}
    if not extra and built.keys() <= bare.keys() | {"detail"}:
        return part
    opaque = extra if extra.keys().isdisjoint(built) and extra else bare
    return replace(part, provider={PROTOCOL: opaque})


def _medium(block: Wire) -> Image | File | None:
    """Return a block's picture or document, None when it has none that we know."""
    match block:
        case {"type": "input_image", "image_url": str() as url}:
            detail = block.get("detail")
            return Image.from_url(url, detail=None if detail == "auto" else detail)
        case {"type": "input_file", "file_id": str() as file_id}:
            return File(file_id=file_id)
        case {"type": "input_file", "file_url": str() as url}:
            return File(url=url)
        case {"type": "input_file", "file_data": str() as content}:
            return File.from_url(content, name=block.get("filename"))
        case _:
            return None


def _same(name: str, given: object, built: object) -> bool:
    if name in ("content", "output"):
        return _plain(given) == _plain(built)
    return given == built


def _plain(content: object) -> object:
    """Return content in one of its equivalent forms: a lone block of text is that text."""
    if not is_array(content):
        return content or None
    if len(content) == 1 and is_object(content[0]) and content[0].keys() == {"type", "text"}:
        return content[0]["text"] or None
    return content or None
