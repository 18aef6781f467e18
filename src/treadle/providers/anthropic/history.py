"""Their messages as ours: what `turns` makes of ours, the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from treadle.errors import InvalidInput
from treadle.messages import (
    File,
    Hosted,
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
from treadle.providers._json import encode
from treadle.providers.anthropic.blocks import (
    Wire,
    assistant_blocks,
    result_blocks,
    text_block,
    user_blocks,
)
from treadle.providers.anthropic.dialect import PAUSED, PROTOCOL, MessagesDialect
from treadle.providers.anthropic.objects import text_in
from treadle.providers.anthropic.reply import read_text
from treadle.values import is_array, is_object

PartT = TypeVar("PartT", bound=Part)
_OWN: Opaque = {PROTOCOL: {}}
"""Opaque data of a thought that has no more to it than that it is this protocol's."""


def read_messages(wires: Iterable[Any], dialect: MessagesDialect) -> list[Message]:
    """Return the messages; the results in a user's turn are a message of their own before it.

    An assistant's turn at the end is one that goes on.
    """
    messages: list[Message] = []
    names: dict[str, str] = {}
    for wire in wires:
        if not is_object(wire):
            raise InvalidInput(f"A message is a JSON object, not {str(wire)[:60]!r}.")
        match wire.get("role"):
            case "assistant":
                message = _assistant(wire, dialect)
                names.update((call.id, call.name) for call in message.tool_calls)
                messages.append(message)
            case "system":
                messages.append(_system(wire, dialect))
            case _:
                messages += _user(wire, names, dialect)
    if messages and messages[-1].role == "assistant":
        messages[-1] = replace(messages[-1], provider={PROTOCOL: {PAUSED: True}})
    return messages


def _user(wire: Wire, names: dict[str, str], dialect: MessagesDialect) -> list[Message]:
    blocks = _blocks(wire)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    said = [block for block in blocks if block.get("type") != "tool_result"]
    messages: list[Message] = []
    if results:
        parts = tuple(_result(block, names, dialect) for block in results)
        messages.append(Message("tool", parts))
    if said or not results:
        messages.append(Message("user", tuple(_user_part(block, dialect) for block in said)))
    return messages


def _system(wire: Wire, dialect: MessagesDialect) -> Message:
    """Return an instruction within a conversation; it goes back as one."""
    parts = tuple(_user_part(block, dialect) for block in _blocks(wire))
    rest = {name: value for name, value in wire.items() if name != "content"}
    return Message("system", parts, {PROTOCOL: rest})


def _assistant(wire: Wire, dialect: MessagesDialect) -> Message:
    def build(part: Part) -> list[Wire]:
        return assistant_blocks(part, dialect)

    parts = (_completed(_spoken(block), block, build) for block in _blocks(wire))
    return Message("assistant", tuple(parts))


def _spoken(block: Wire) -> Part:
    """Return the part that we would send as this block, but for fields of it."""
    match block.get("type"):
        case "text":
            return read_text(text_in(block, "text") or "", block)
        case "thinking":
            signature = text_in(block, "signature")
            return Reasoning(text_in(block, "thinking") or "", signature, provider=_OWN)
        case "redacted_thinking":
            return Reasoning(redacted=text_in(block, "data") or "", provider=_OWN)
        case "tool_use":
            call_id = text_in(block, "id") or ""
            raw = encode(block.get("input") or {}).decode()
            return ToolCall(call_id, text_in(block, "name") or "", raw, call_id)
        case kind:
            named = text_in(block, "name") if str(kind).endswith("_tool_use") else None
            return Hosted(named or str(kind).removesuffix("_tool_result"), {PROTOCOL: block})


def _result(block: Wire, names: dict[str, str], dialect: MessagesDialect) -> ToolResult:
    call_id = text_in(block, "tool_use_id") or ""
    result = ToolResult(
        call_id,
        names.get(call_id, ""),
        tuple(_user_part(inner, dialect) for inner in _blocks(block)),
        is_error=block.get("is_error") is True,
    )
    built, _ = result_blocks(result, dialect)
    extra = {
        name: value
        for name, value in _bare(block).items()
        if not _same(name, value, built.get(name))
    }
    return replace(result, provider={PROTOCOL: extra}) if extra else result


def _user_part(block: Wire, dialect: MessagesDialect) -> UserPart:
    """Return a block as the part that we would send as this block, else as opaque text."""

    def build(part: Part) -> list[Wire]:
        return user_blocks(part, dialect)

    try:
        part = _medium(block)
    except InvalidInput:
        part = None
    if part is None:
        part = Text(text_in(block, "text") or f"[{block.get('type')}]")
    return _completed(part, block, build)


def _medium(block: Wire) -> Image | File | None:
    """Return a block's picture or document, None when it has none that we know."""
    kind, source = block.get("type"), block.get("source")
    if kind not in ("image", "document") or not is_object(source):
        return None
    data, media_type = text_in(source, "data") or "", text_in(source, "media_type") or ""
    url, title = text_in(source, "url") or "", text_in(block, "title")
    form = source.get("type")
    if kind == "image":
        if form == "file":
            return Image()  # the address of it rides along
        return Image.from_base64(data, media_type) if form == "base64" else Image.from_url(url)
    match form:
        case "base64":
            return File.from_base64(data, media_type, name=title)
        case "url":
            return File.from_url(url, name=title)
        case "text":
            return File.from_bytes(data.encode(), "text/plain", name=title)
        case "file":
            return File(file_id=text_in(source, "file_id"), name=title)
        case _:
            return None


def _completed(part: PartT, block: Wire, build: Callable[[Part], list[Wire]]) -> PartT:
    """Return the part with what it would not be sent with as opaque data."""
    bare = _bare(block)
    made = build(part)
    built = made[0] if made else Wire()
    extra = {name: value for name, value in bare.items() if built.get(name) != value}
    if not extra or isinstance(part, Hosted):
        return part
    return replace(part, provider={PROTOCOL: extra if extra.keys().isdisjoint(built) else bare})


def _blocks(wire: Wire) -> list[Wire]:
    """Return a content as blocks, whatever form it has."""
    content = wire.get("content")
    items = content if is_array(content) else [content] if content else []
    return [item if is_object(item) else text_block(str(item)) for item in items]


def _bare(wire: Wire) -> Wire:
    return {name: value for name, value in wire.items() if value is not None}


def _same(name: str, given: object, built: object) -> bool:
    if name == "content":
        return _plain(given) == _plain(built)
    return given == built or (name == "is_error" and not given)


def _plain(content: object) -> object:
    """Return content in the one of its equivalent forms that is a list of blocks."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    return (
        [_bare(block) if is_object(block) else block for block in content]
        if is_array(content)
        else []
    )
