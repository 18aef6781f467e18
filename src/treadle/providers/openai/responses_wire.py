"""Our messages as input items of the Responses API."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import assert_never

from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    UserPart,
)
from treadle.providers._json import arguments_json
from treadle.providers.openai.chat_wire import HOST, NAMELESS, Wire
from treadle.providers.openai.responses_calls import Calls, result_item
from treadle.providers.openai.responses_dialect import PROTOCOL, ResponsesDialect
from treadle.values import is_object

ITEM = "@item"
"""In opaque data of a content block: the fields of the message item around it."""
PAIRED_ID = "@id"
"""In opaque data: the item's ID, which the server pairs with the reasoning before the item.

The two only go back together: either one without the other is refused.
"""
LONGEST_ID = 64
"""Characters of a call's ID that every server takes."""


def wire_items(message: Message, dialect: ResponsesDialect, calls: Calls) -> list[Wire]:
    """Return what one message becomes: nothing when it is empty, mostly several for a reply.

    `calls` are the items of calls before it that want a result of their own kind.
    """
    match message.role:
        case "user" | "system":
            return _spoken(message, dialect)
        case "assistant":
            return _said(message, dialect)
        case "tool":
            return _results(message, dialect, calls)
        case _:
            assert_never(message.role)


def special_calls(message: Message, dialect: ResponsesDialect) -> dict[str, Wire]:
    """Return the items of this message's calls that want a result of their own kind, by ID."""
    found: dict[str, Wire] = {}
    for call in message.tool_calls:
        kept = kept_for(call.provider, dialect) if call.provider else None
        if kept and "type" in kept:
            found[call.id] = kept
    return found


def wire_part(part: UserPart, dialect: ResponsesDialect) -> Wire:
    """Return one block that a user may send; what the server cannot take becomes words."""
    kept = kept_for(part.provider, dialect) or {}
    if "type" in kept:
        return kept
    match part:
        case Text():
            wire = _text(part.text)
        case Image():
            wire = _image(part, dialect)
        case Audio():
            wire = _audio(part)
        case File():
            wire = _file(part)
        case _:
            assert_never(part)
    return {**wire, **kept} if kept else wire


def kept_for(provider: Opaque | None, dialect: ResponsesDialect) -> Wire | None:
    """Return the opaque fields that go to this server, None when this is not from it."""
    if provider is None:
        return None
    kept: object = provider.get(PROTOCOL)
    if not is_object(kept) or kept.get(HOST, dialect.host) != dialect.host:
        return None
    return {name: value for name, value in kept.items() if name != HOST}


def sent_id(call_id: str) -> str:
    """Return a call's ID in a form that the server takes; the same for the call and its result."""
    if 0 < len(call_id) <= LONGEST_ID:
        return call_id
    digest = hashlib.blake2b(call_id.encode("utf-8", "replace"), digest_size=16)
    return f"call_{digest.hexdigest()}"


def reasoning_summary(text: str) -> list[Wire]:
    """Return the summary that says no more than this text."""
    return [{"type": "summary_text", "text": text}] if text else []


def _spoken(message: Message, dialect: ResponsesDialect) -> list[Wire]:
    items: list[Wire] = []
    blocks: list[Wire] = []
    for part in message.parts:
        if isinstance(part, Hosted):
            kept = kept_for(part.provider, dialect)
            items += [kept] if kept else []
        elif isinstance(part, UserPart) and not _is_empty(part):
            blocks.append(wire_part(part, dialect))
    is_text = all(block.keys() == {"type", "text"} for block in blocks)
    content: str | list[Wire] = blocks
    if is_text and (len(blocks) == 1 or not dialect.vision):
        content = "\n\n".join(block["text"] for block in blocks)
    kept = kept_for(message.provider, dialect) or {}
    if content or kept:
        items.insert(0, {"role": message.role, "content": content, **kept})
    return items


def _said(message: Message, dialect: ResponsesDialect) -> list[Wire]:
    """Return the items of a reply in their order; reasoning that nothing follows is left out."""
    said = _Said(paired=False)
    for part in message.parts:
        kept = kept_for(part.provider, dialect)
        match part:
            case Text():
                said.add_text(part.text, kept or {})
            case ToolCall():
                said.add(_call(part, kept or {}))
            case Reasoning():
                said.add_reasoning(part.text, kept, dialect)
            case Hosted():
                said.add_hosted(kept)
            case Image():
                if kept:  # one that the model made
                    said.add({**kept, "result": part.base64})
            case Audio() | File() | ToolResult():
                continue  # only a user may show something
            case _:
                assert_never(part)
    return said.items()


class _Said:
    """The items of one reply, as far as they are made."""

    __slots__ = ("_fields", "_items", "_paired")

    def __init__(self, *, paired: bool) -> None:
        self._items: list[Wire] = []
        self._fields: Wire | None = None  # of the message item at the end that may get more blocks
        self._paired = paired  # the reasoning is there that the IDs after it want

    def add(self, item: Wire) -> None:
        self._fields = None
        self._items.append(self._placed(item))

    def add_hosted(self, kept: Wire | None) -> None:
        if kept and ITEM in kept:
            self._add_block(kept.pop(ITEM), kept)
        elif kept:
            self.add(kept)

    def add_text(self, text: str, kept: Wire) -> None:
        fields = kept.pop(ITEM, {})
        if "type" not in kept:
            if not text.strip():
                return
            kept = {"type": "output_text", "text": text, "annotations": [], **kept}
        self._add_block(fields, kept)

    def add_reasoning(self, text: str, kept: Wire | None, dialect: ResponsesDialect) -> None:
        if not kept:
            return  # another server's
        if dialect.store is False and "encrypted_content" not in kept:
            return  # the server has not kept it and cannot read it
        self.add({"type": "reasoning", "summary": reasoning_summary(text), **kept})
        self._paired = True

    def items(self) -> list[Wire]:
        items = self._items
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        for item in items:
            if item.get("role") == "assistant" and "id" not in item:
                item["content"] = _shortened(item["content"])
        return items

    def _add_block(self, fields: Wire, block: Wire) -> None:
        if self._fields is not None and self._fields == fields:
            self._items[-1]["content"].append(block)
            return
        self.add({"role": "assistant", "content": [block], **fields})
        self._fields = fields

    def _placed(self, item: Wire) -> Wire:
        """Return the item with its ID when the reasoning is there that it belongs to."""
        paired_id = item.pop(PAIRED_ID, None)
        if not paired_id or not self._paired:
            return item
        if item.get("role") == "assistant":
            return {"type": "message", "id": paired_id, "status": "completed", **item}
        return {"id": paired_id, **item}


def _shortened(blocks: list[Wire]) -> str | list[Wire]:
    """Return a lone block of nothing but text as that text."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text", "annotations"}:
        block = blocks[0]
        if block["type"] == "output_text" and not block["annotations"]:
            return block["text"]
    return blocks


def _call(call: ToolCall, kept: Wire) -> Wire:
    call_id = sent_id(call.id)
    if "type" in kept:
        return {**kept, "call_id": call_id}
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": call.name or NAMELESS,
        "arguments": arguments_json(call.raw),
        **kept,
    }


def _results(message: Message, dialect: ResponsesDialect, calls: Calls) -> list[Wire]:
    """Return one item per result; then what they show, where only a user may show something."""
    items: list[Wire] = []
    shown: list[Wire] = []
    for part in message.parts:
        if type(part) is not ToolResult:
            continue
        kept = kept_for(part.provider, dialect) or {}
        call_id = sent_id(part.call_id)
        if "type" in kept:
            items.append({**kept, "call_id": call_id})
            continue
        output = _output(part, dialect, shown)
        item = result_item(part, calls.get(part.call_id), call_id, output)
        items.append({**item, **kept})
    if shown:
        items.append({"role": "user", "content": shown})
    return items


def _output(part: ToolResult, dialect: ResponsesDialect, shown: list[Wire]) -> str | list[Wire]:
    """Return what a tool returned; `shown` gets what the server only takes from a user."""
    blocks: list[Wire] = []
    for item in part.parts:
        block = wire_part(item, dialect)
        if block["type"] == "input_text" or dialect.media_results:
            blocks.append(block)
            continue
        label = f"{type(item).__name__} {len(shown) // 2 + 1}"
        blocks.append(_text(f"[{label}: shown after the tool results]"))
        shown += (_text(f"{label}, returned by {part.name or 'the tool'}:"), block)
    return _joined(blocks)


def _joined(blocks: Sequence[Wire]) -> str | list[Wire]:
    if any(block.keys() != {"type", "text"} for block in blocks):
        return list(blocks)
    return "\n".join(block["text"] for block in blocks)


def _text(text: str) -> Wire:
    return {"type": "input_text", "text": text}


def _image(image: Image, dialect: ResponsesDialect) -> Wire:
    if not dialect.vision:
        return _text("[Image: left out, this model takes no images]")
    if not image.url and not image.content:
        return _text("[Image: its content is gone]")
    return {"type": "input_image", "image_url": image.data_url, "detail": image.detail or "auto"}


def _audio(audio: Audio) -> Wire:
    """Return a sound as words: this protocol has no block for it."""
    said = f", which says: {audio.transcript}" if audio.transcript else ""
    return _text(f"[Audio: left out, this API takes no sound{said}]")


def _file(file: File) -> Wire:
    if file.file_id:
        return {"type": "input_file", "file_id": file.file_id}
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    media_type = file.media_type or ""
    name = file.name or f"file.{media_type.rpartition('/')[2] or 'bin'}"
    if not file.content:
        return _text(f"[File {name}: its content is gone]")
    if media_type.startswith("text/") or media_type == "application/json":
        return _text(f"File {name}:\n{file.content.decode('utf-8', 'replace')}")
    return {"type": "input_file", "filename": name, "file_data": file.data_url}


def _is_empty(part: UserPart) -> bool:
    return type(part) is Text and not part.text and part.provider is None
