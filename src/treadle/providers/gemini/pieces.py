"""Our messages as encoded parts of Gemini's contents."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct

from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.providers._json import arguments_json, decode, encode
from treadle.providers.gemini.dialect import THIRD, TURN, GeminiDialect, Wire, kept_for
from treadle.providers.gemini.media import Medium, goes_into_results, medium_wire

Kind = Literal["user", "results", "model"]
Names = dict[str, tuple[str, str | None]]
"""By our ID of a call: the name and the ID that it was sent with."""

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
"""What a function may be called."""
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
"""What Google documents for calls that no Gemini model made, in place of a signature."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


class Piece(Struct, frozen=True, gc=False):
    """Encoded parts that stand in one content. `extra` are further fields of that content."""

    kind: Kind
    parts: tuple[bytes, ...]
    extra: Wire | None = None


def pieces_of(message: Message, dialect: GeminiDialect, names: Names) -> list[Piece]:
    """Return what one message becomes: nothing when it is empty.

    `names` are those of the calls that wait for results; it is changed by both.
    """
    extra = kept_for(message.provider, dialect.host) if message.provider else None
    match message.role:
        case "user" | "system":
            pieces = [Piece("user", _spoken(message, dialect), extra)]
        case "assistant":
            pieces = [Piece("model", _said(message, dialect, names), extra)]
        case "tool":
            pieces = _results(message, dialect, names, extra)
        case _:
            assert_never(message.role)
    return [piece for piece in pieces if piece.parts]


def safe_name(name: str) -> str:
    """Return a name that the API takes, for calls that were made elsewhere."""
    if NAME.fullmatch(name):
        return name
    safe = _NOT_IN_NAMES.sub("_", name)
    return (safe if safe[:1].isalpha() or safe[:1] == "_" else f"_{safe}")[:64]


def _spoken(message: Message, dialect: GeminiDialect) -> tuple[bytes, ...]:
    parts = message.parts
    if len(parts) == 1 and type(part := parts[0]) is Text and part.provider is None:
        return (b'{"text":' + encode(part.text) + b"}",) if part.text else ()
    encoded: list[bytes] = []
    for part in parts:
        match part:
            case Text():
                encoded += _text(part, dialect)
            case Image() | Audio() | File():
                encoded.append(encode(_medium(part, dialect)))
            case Hosted():
                encoded += _hosted(part, dialect)
            case Reasoning() | ToolCall() | ToolResult():
                continue  # none of these is a user's to say
            case _:
                assert_never(part)
    return tuple(encoded)


def _said(message: Message, dialect: GeminiDialect, names: Names) -> tuple[bytes, ...]:
    """Return a reply's parts; one of nothing but blanks says nothing."""
    if all(
        type(part) is Text and not part.provider and part.text.isspace() for part in message.parts
    ):
        return ()
    encoded: list[bytes] = []
    called: Names = {}
    for part in message.parts:
        match part:
            case Text():
                encoded += _text(part, dialect)
            case ToolCall():
                encoded.append(_call(part, dialect, called))
            case Reasoning():
                encoded += _thought(part, dialect)
            case Hosted():
                encoded += _hosted(part, dialect)
            case Image() | Audio() | File():
                if kept_for(part.provider, dialect.host) is not None:
                    encoded.append(encode(_medium(part, dialect)))  # others' only a user may show
            case ToolResult():
                continue
            case _:
                assert_never(part)
    names.update(called)
    return tuple(encoded)


def _text(part: Text, dialect: GeminiDialect) -> list[bytes]:
    kept = kept_for(part.provider, dialect.host) if part.provider else None
    if not kept:
        return [b'{"text":' + encode(part.text) + b"}"] if part.text else []
    return [encode({"text": part.text, **kept})]


def _thought(part: Reasoning, dialect: GeminiDialect) -> list[bytes]:
    kept = kept_for(part.provider, dialect.host)
    if kept is None:
        return []
    signed = {"thoughtSignature": part.signature} if part.signature else {}
    return [encode({"text": part.text, **kept, **signed})]


def _hosted(part: Hosted, dialect: GeminiDialect) -> list[bytes]:
    kept = kept_for(part.provider, dialect.host)
    return [encode(kept)] if kept else []


def _medium(part: Medium, dialect: GeminiDialect) -> Wire:
    """Return a part with what was kept of it, which may be all of it."""
    kept = kept_for(part.provider, dialect.host) or {}
    if "inlineData" in kept or "fileData" in kept:
        return kept
    return {**medium_wire(part, dialect), **kept}


def _call(call: ToolCall, dialect: GeminiDialect, names: Names) -> bytes:
    """Return a call; the first of a reply has to be signed from the third generation on."""
    kept = (kept_for(call.provider, dialect.host) if call.provider else None) or {}
    extra = {key: value for key, value in kept.items() if key not in ("id", "functionCall")}
    call_id = kept.get("id")
    if not names and dialect.generation >= THIRD:
        extra = {"thoughtSignature": UNSIGNED, **extra}
    inner: Wire = {"name": safe_name(call.name), **kept.get("functionCall", {})}
    names[call.id] = (inner["name"], call_id)
    if call_id is not None:
        inner["id"] = call_id
    arguments = b',"args":' + arguments_json(call.raw).encode("utf-8", "replace")
    if "args" in inner:  # they are kept in a form of their own
        arguments = b""
    wire = b'{"functionCall":' + encode(inner)[:-1] + arguments + b"}"
    return wire + (b"," + encode(extra)[1:] if extra else b"}")


def _results(
    message: Message, dialect: GeminiDialect, names: Names, extra: Wire | None
) -> list[Piece]:
    """Return the results, then what they show and the API does not take inside of them."""
    shown: list[bytes] = []
    responses = [
        _response(part, dialect, names, shown) for part in message.parts if type(part) is ToolResult
    ]
    pieces = [Piece("results", tuple(responses), extra)]
    return [*pieces, Piece("user", tuple(shown))] if shown else pieces


def _response(
    result: ToolResult, dialect: GeminiDialect, names: Names, shown: list[bytes]
) -> bytes:
    called, call_id = names.pop(result.call_id, ("", None))
    name = called or safe_name(result.name or "tool")
    kept = (kept_for(result.provider, dialect.host) if result.provider else None) or {}
    fixed: Wire = kept.get("functionResponse", {})
    texts: list[str] = []
    media: list[Wire] = []
    for item in result.parts:
        if isinstance(item, Text):
            texts.append(item.text)
            continue
        if "parts" in fixed:
            continue
        wire = _medium(item, dialect)
        if "text" in wire:  # it could not be sent and says so
            texts.append(wire["text"])
        elif goes_into_results(wire, dialect):
            media.append(wire)
        else:
            label = f"{type(item).__name__} {len(shown) // 2 + 1}"
            texts.append(f"[{label}: shown after the tool results]")
            shown += (encode({"text": f"{label}, returned by {name}:"}), encode(wire))
    field = "error" if result.is_error else "output"
    inner: Wire = {"name": name, "response": {field: "\n".join(texts)}}
    if media:
        inner["parts"] = media
    if call_id is not None:
        inner["id"] = call_id
    inner |= fixed
    rest = {key: value for key, value in kept.items() if key != "functionResponse"}
    return encode({"functionResponse": inner, **rest})


def joined(parts: Sequence[bytes], kind: Kind, extra: Wire | None = None) -> bytes:
    """Return a whole content with a comma before it."""
    role = b"model" if kind == "model" else b"user"
    body = b',{"parts":[' + b",".join(parts) + b'],"role":"' + role + b'"}'
    fields = {name: value for name, value in (extra or {}).items() if name != TURN}
    if not fields:
        return body
    return b"," + encode({**decode(body[1:]), **fields})
