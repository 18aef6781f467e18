"""Our parts as their content blocks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.providers._json import arguments_json, decode, encode
from treadle.providers.anthropic.dialect import HOST, PROTOCOL, VENDOR, MessagesDialect
from treadle.values import is_array, is_object

Wire = dict[str, Any]
"""One object of their JSON."""

LONGEST_ID = 128
"""Characters of a call's ID that are sent as they are."""
LONGEST_NAME = 128
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_READABLE = frozenset({"application/json", "application/xml", "application/yaml"})
_WEB = ("http://", "https://")
NO_OUTPUT = "(no output)"


def kept_for(provider: Opaque | None, dialect: MessagesDialect) -> Wire | None:
    """Return the opaque fields that go to this server; None when nothing here is its own."""
    if provider is None:
        return None
    kept: object = provider.get(PROTOCOL)
    if not is_object(kept) or kept.get(HOST, dialect.origin) != dialect.origin:
        return None
    return {name: value for name, value in kept.items() if name[:1] != "@"}


def user_blocks(part: Part, dialect: MessagesDialect) -> list[Wire]:
    """Return what a part of a user's message becomes; nothing when it says nothing.

    What the server cannot take becomes a note in words.
    """
    kept = kept_for(part.provider, dialect)
    if kept and "type" in kept:
        return [kept]
    match part:
        case Text():
            wire = text_block(part.text)
        case Image():
            wire = _image(part, dialect)
        case Audio():
            said = f", which says: {part.transcript}" if part.transcript else ""
            wire = text_block(f"[Audio: left out, this model takes no sound{said}]")
        case File():
            wire = _file(part)
        case Reasoning() | ToolCall() | ToolResult() | Hosted():
            return []  # only an assistant says this, and results have a place of their own
        case _:
            assert_never(part)
    return [wire | kept if kept else wire] if _says_something(wire) else []


def assistant_blocks(part: Part, dialect: MessagesDialect, *, whole: bool = True) -> list[Wire]:
    """Return what a part of the assistant's message becomes.

    Nothing for what another provider wrote for itself, and for what only a user may show. Of a
    reply that is not `whole` only its text and calls are sent: half a thought has no signature.
    """
    kept = kept_for(part.provider, dialect)
    match part:
        case Text():
            if kept and "type" in kept:
                return [kept]
            return [text_block(part.text) | (kept or {})] if part.text.strip() else []
        case ToolCall():
            return [_call(part, kept or {})]
        case Reasoning():
            return _thinking(part, kept, dialect) if whole else []
        case Hosted():
            return [kept] if kept and whole else []
        case Image() | Audio() | File():
            return [kept] if kept and "type" in kept else []
        case ToolResult():
            return []
        case _:
            assert_never(part)


def result_blocks(result: ToolResult, dialect: MessagesDialect) -> tuple[Wire, list[Wire]]:
    """Return a result's block, and what it shows that has no place in it.

    A result that is an error may hold nothing but text: its pictures are shown after it.
    """
    content: list[Wire] = []
    shown: list[Wire] = []
    for item in result.parts:
        for block in user_blocks(item, dialect):
            if result.is_error and block["type"] != "text":
                label = f"{type(item).__name__} {len(shown) // 2 + 1}"
                content.append(text_block(f"[{label}: shown after the tool results]"))
                named = f"{label}, returned by {result.name or 'the tool'}:"
                shown += (text_block(named), block)
            else:
                content.append(block)
    if not content:
        content = [text_block(NO_OUTPUT)] if result.is_error or result.parts else []
    wire: Wire = {"type": "tool_result", "tool_use_id": sent_id(result.call_id)}
    if content:
        alone = len(content) == 1 and content[0].keys() == {"type", "text"}
        wire["content"] = content[0]["text"] if alone else content
    if result.is_error:
        wire["is_error"] = True
    return wire | (kept_for(result.provider, dialect) or {}), shown


def text_block(text: str) -> Wire:
    """Return a block of text."""
    return {"type": "text", "text": text}


def sent_id(call_id: str) -> str:
    """Return a call's ID in a form that the server takes; the same for the call and its result."""
    if len(call_id) <= LONGEST_ID and _ID.fullmatch(call_id):
        return call_id
    return (
        f"toolu_{hashlib.blake2b(call_id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"
    )


def sent_name(name: str) -> str:
    """Return the name of a called tool; a model may have called what no tool can be named."""
    return _NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME] or "_"


def _call(call: ToolCall, kept: Wire) -> Wire:
    return {
        "type": "tool_use",
        "id": sent_id(call.id),
        "name": sent_name(call.name),
        "input": msgspec.Raw(arguments_json(call.raw).encode("utf-8", "replace")),
        **kept,
    }


def _thinking(part: Reasoning, kept: Wire | None, dialect: MessagesDialect) -> list[Wire]:
    """Return a thought of this server's own model; another's, or one without proof, is left out."""
    if kept is None:
        return []
    if part.redacted is not None:
        return [{"type": "redacted_thinking", "data": part.redacted, **kept}]
    if not part.signature and (dialect.origin == VENDOR or not part.text):
        return []
    signature = part.signature or ""
    return [{"type": "thinking", "thinking": part.text, "signature": signature, **kept}]


def _image(image: Image, dialect: MessagesDialect) -> Wire:
    if not dialect.vision:
        return text_block("[Image: left out, this model takes no images]")
    if image.content:
        media_type = "image/jpeg" if image.media_type == "image/jpg" else image.media_type
        if media_type not in _PICTURES:
            return text_block(f"[Image: left out, this API takes no {media_type or 'such file'}]")
        return _medium("image", {"type": "base64", "media_type": media_type, "data": image.base64})
    if image.url and image.url.startswith(_WEB):
        return _medium("image", {"type": "url", "url": image.url})
    if image.url:
        return text_block(f"[Image: left out, this API cannot fetch {image.url[:200]}]")
    return text_block("[Image: its content is gone]")


def _file(file: File) -> Wire:
    """Return a document: PDF as it is, text as text, anything else as a note."""
    titled: Wire = {"title": file.name[:255]} if file.name and file.name.strip() else {}
    if file.file_id:
        return _medium("document", {"type": "file", "file_id": file.file_id}) | titled
    name, media_type = file.name or "file", file.media_type or ""
    if file.content and media_type == "application/pdf":
        source = {"type": "base64", "media_type": media_type, "data": file.base64}
        return _medium("document", source) | titled
    if file.content and (media_type.startswith("text/") or media_type in _READABLE):
        text = file.content.decode("utf-8", "replace")
        if not text.strip():
            return text_block(f"[File {name}: it is empty]")
        return (
            _medium("document", {"type": "text", "media_type": "text/plain", "data": text}) | titled
        )
    if file.content:
        return text_block(f"[File {name}: left out, this API takes no {media_type or 'such file'}]")
    if file.url and file.url.startswith(_WEB):
        return _medium("document", {"type": "url", "url": file.url}) | titled
    return text_block(f"[File {name}: left out, this API cannot fetch {(file.url or 'it')[:200]}]")


def _medium(kind: str, source: Wire) -> Wire:
    return {"type": kind, "source": source}


def _says_something(wire: Wire) -> bool:
    return wire["type"] != "text" or bool(wire["text"].strip())


def encoded(block: Wire) -> bytes:
    """Return a block's JSON; arguments stand in it byte for byte."""
    try:
        return encode(block)
    except TypeError:  # something beside the arguments, or in them, has to be cleaned
        return encode({**block, "input": decode(bytes(block["input"]))})


def blocks_in(block: Wire) -> Iterator[Wire]:
    """Yield a block and all that are inside of it; what a tool is given is none."""
    yield block
    for name in ("content", "source"):
        inner: object = block.get(name)
        for item in inner if is_array(inner) else (inner,):
            if is_object(item):
                yield from blocks_in(item)
