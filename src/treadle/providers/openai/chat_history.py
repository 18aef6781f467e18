"""Their messages as ours: what `chat_wire` makes of ours, the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from treadle.errors import InvalidInput
from treadle.messages import (
    Audio,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.providers._json import arguments_json
from treadle.providers.openai.chat_reply import block_text
from treadle.providers.openai.chat_wire import Wire, wire_messages, wire_part
from treadle.providers.openai.dialect import PROTOCOL, ChatDialect
from treadle.values import is_array, is_object


def read_messages(wires: Iterable[Any], dialect: ChatDialect) -> list[Message]:
    """Return the messages; the results that follow each other are one message."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    results: list[Part] = []
    for wire in wires:
        if not is_object(wire):
            raise InvalidInput(f"A message is a JSON object, not {str(wire)[:60]!r}.")
        if wire.get("role") == "tool":
            results.append(_result(wire, names, dialect))
            continue
        if results:
            messages.append(Message("tool", tuple(results)))
            results = []
        message = _assistant(wire) if wire.get("role") == "assistant" else _spoken(wire, dialect)
        names.update((call.id, call.name) for call in message.tool_calls)
        messages.append(_completed(message, wire, dialect))
    return [*messages, Message("tool", tuple(results))] if results else messages


def _completed(message: Message, wire: Wire, dialect: ChatDialect) -> Message:
    """Return the message with what it would not be sent with as opaque data."""
    built = next(iter(wire_messages(message, dialect)), {"role": message.role})
    extra = _differences(wire, built)
    return replace(message, provider={PROTOCOL: extra}) if extra else message


def _spoken(wire: Wire, dialect: ChatDialect) -> Message:
    role = "system" if wire.get("role") in ("system", "developer") else "user"
    return Message(role, tuple(_part(block, dialect) for block in _blocks(wire)))


def _assistant(wire: Wire) -> Message:
    parts: list[Part] = [
        Reasoning(wire[field], provider={PROTOCOL: {"field": field}})
        for field in ("reasoning_content", "reasoning")
        if isinstance(wire.get(field), str)
    ]
    if wire.get("reasoning_details"):
        details = {"reasoning_details": wire["reasoning_details"]}
        parts.append(Reasoning(provider={PROTOCOL: details}))
    for block in _blocks(wire):
        if block.get("type") == "thinking":
            opaque: Opaque = {PROTOCOL: {"block": block}}
            parts.append(Reasoning(block_text(block.get("thinking")), provider=opaque))
        else:
            parts.append(_text(block))
    calls = wire.get("tool_calls")
    parts += [_call(call) for call in (calls if is_array(calls) else ()) if is_object(call)]
    return Message("assistant", tuple(parts))


def _call(wire: Wire) -> ToolCall:
    function, call_id = wire.get("function"), str(wire.get("id", ""))
    rest = {name: value for name, value in wire.items() if name != "id"}
    if not is_object(function) or wire.get("type", "function") != "function":
        custom = wire.get("custom")
        name = str(custom.get("name", "")) if is_object(custom) else ""
        return ToolCall(call_id, name, provider_id=call_id, provider={PROTOCOL: rest})
    name, raw = str(function.get("name", "")), str(function.get("arguments") or "")
    extra = {name: value for name, value in rest.items() if name not in ("type", "function")}
    if function != {"name": name, "arguments": arguments_json(raw)}:
        extra = {"type": "function", **rest}
    return ToolCall(call_id, name, raw, call_id, {PROTOCOL: extra} if extra else None)


def _result(wire: Wire, names: dict[str, str], dialect: ChatDialect) -> ToolResult:
    call_id = str(wire.get("tool_call_id", ""))
    parts = tuple(_text(block) for block in _blocks(wire))
    result = ToolResult(call_id, names.get(call_id, ""), parts)
    built = wire_messages(Message("tool", (result,)), dialect)[0]
    extra = _differences(wire, built)
    return replace(result, provider={PROTOCOL: extra}) if extra else result


def _blocks(wire: Wire) -> list[Wire]:
    """Return a message's content as blocks, whatever form it has."""
    content = wire.get("content")
    items = content if is_array(content) else [content] if content else []
    return [item if is_object(item) else {"type": "text", "text": str(item)} for item in items]


def _text(block: Wire) -> Text:
    """Return a block as text: with its further fields, or whole when it is no text."""
    bare = _without_nulls(block)
    text, kind = bare.get("text"), bare.get("type")
    wants_text = kind == "text" or "text" in bare
    if not isinstance(kind, str) or (wants_text and not isinstance(text, str)):
        raise InvalidInput(
            f"A content block has a type and what it names, not {str(block)[:60]!r}."
        )
    if kind != "text" or not isinstance(text, str):
        return Text(text if isinstance(text, str) else f"[{kind}]", {PROTOCOL: bare})
    extra = {name: value for name, value in bare.items() if name not in ("type", "text")}
    return Text(text, {PROTOCOL: extra} if extra else None)


def _part(block: Wire, dialect: ChatDialect) -> Part:
    """Return a block as the part that we would send as this block, else as opaque text."""
    bare = _without_nulls(block)
    try:
        part = _medium(bare)
    except InvalidInput:
        part = None
    if part is None:
        return _text(bare)
    built = wire_part(part, dialect)
    extra = {name: value for name, value in bare.items() if built.get(name) != value}
    if not extra:
        return part
    return replace(part, provider={PROTOCOL: extra if extra.keys().isdisjoint(built) else bare})


def _medium(block: Wire) -> Image | Audio | File | None:
    """Return a block's picture, sound or document, None when it has none that we know."""
    kind = str(block.get("type"))
    inner: object = block.get(kind)
    fields: Wire = inner if is_object(inner) else {"url": inner}
    match kind:
        case "image_url":
            return Image.from_url(_string(fields, "url"), detail=fields.get("detail"))
        case "input_audio":
            return Audio.from_base64(_string(fields, "data"), f"audio/{fields.get('format')}")
        case "file" if fields.get("file_id"):
            return File(file_id=_string(fields, "file_id"))
        case "file":
            return File.from_url(_string(fields, "file_data"), name=fields.get("filename"))
        case "document_url" | "video_url":
            return File.from_url(_string(fields, "url"))
        case _:
            return None


def _string(fields: Wire, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is not a text.")
    return value


def _without_nulls(wire: Wire) -> Wire:
    return {name: value for name, value in wire.items() if value is not None}


def _plain(content: object) -> object:
    """Return content in one of its equivalent forms: a lone block of text is that text."""
    if not is_array(content):
        return content or None
    blocks = [_without_nulls(block) if is_object(block) else block for block in content]
    if len(blocks) == 1 and is_object(blocks[0]) and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"] or None
    return blocks or None


def _differences(given: Wire, built: Wire) -> Wire:
    """Return the fields of a message that it would not be sent with as it was built."""
    return {name: value for name, value in given.items() if not _same(name, value, built.get(name))}


def _same(name: str, given: object, built: object) -> bool:
    if name == "content":
        return _plain(given) == _plain(built)
    return given is None or given == built or (name == "tool_calls" and not given)
