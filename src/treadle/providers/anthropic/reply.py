"""Messages replies as our values."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from treadle.messages import (
    Citation,
    Hosted,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
)
from treadle.ports.model import FinishReason, ModelReply
from treadle.providers._counts import usage_from
from treadle.providers._failure import (
    NO_HEADERS,
    Asked,
    Complaint,
    bad_reply,
    complaint_in,
    typed_error,
)
from treadle.providers._json import NOT_AN_OBJECT, decode, encode, mended
from treadle.providers.anthropic.dialect import HOST, PAUSED, PROTOCOL, READ_ONLY
from treadle.providers.anthropic.objects import (
    Wire,
    WireBlock,
    WireMessage,
    WireUsage,
    decode_message,
    text_in,
)
from treadle.usage import Usage
from treadle.values import clean, is_array, is_object

PAUSE = "pause_turn"
"""The stop reason of a turn that goes on as soon as the reply is sent back."""

_FINISHES: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "length": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "tool_calls": "tool_calls",
    "refusal": "refusal",
    "content_filter": "content_filter",
    PAUSE: "pause",
    "sensitive": "content_filter",
}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses that the kinds of errors have when they do not come inside of a 200."""
_DIRECT = {"type": "direct"}


def decode_reply(
    body: bytes, origin: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS
) -> ModelReply:
    """Return the reply that the body of a 200 holds. `origin` may get its opaque data back.

    Raises:
        BadReply: the body is no message.
        ModelError: it holds an error instead of an answer, typed as that error is.
    """
    try:
        message, decoded = decode_message(body)
    except ValueError as error:
        raise bad_reply(body, asked, str(error), headers=headers) from error
    if decoded.get("error") or decoded.get("type") == "error":
        raise typed_error(complaint_from(decoded), asked, headers=headers)
    if "content" not in decoded:
        raise bad_reply(body, asked, "it has no content", headers=headers)
    return assembled(message, origin, asked)


def complaint_from(decoded: object) -> Complaint:
    """Read an error that came inside of a 200; its kind says which status it would have."""
    complaint = complaint_in(decoded)
    return replace(complaint, status=complaint.status or _STATUSES.get(complaint.kind))


def assembled(message: WireMessage, origin: str, asked: Asked) -> ModelReply:
    """Return a reply from what was collected."""
    parts = read_blocks(message.blocks, origin)
    finish = message.stop_reason
    return ModelReply(
        message=Message("assistant", tuple(parts), _provider(message, origin)),
        usage=usage_of(message.usage),
        finish_reason=finish_reason(finish, any(type(part) is ToolCall for part in parts)),
        model=message.model or asked.model,
        response_id=message.id or None,
        provider_finish=finish or None,
    )


def finish_reason(finish: str | None, has_calls: bool) -> FinishReason:
    """Return why a reply ended. Some servers do not say."""
    known = _FINISHES.get(finish, "other") if finish else "stop"
    return "tool_calls" if known == "stop" and has_calls else known


def usage_of(usage: WireUsage | None) -> Usage:
    """Return the counts of one call: their input is only what no cache had to do with."""
    if usage is None:
        return _ONE_REQUEST
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return usage_from(
        prompt=(usage.input_tokens or 0) + read + written,
        read=read,
        written=written,
        output=usage.output_tokens,
        reasoning=usage.thinking_tokens,
    )


def read_blocks(blocks: Iterable[WireBlock], origin: str) -> list[Part]:
    """Return the parts that content blocks stand for; none is left out, whatever its type."""
    parts: list[Part] = []
    for block in blocks:
        wire = {name: value for name, value in block.fields.items() if value is not None}
        match wire.get("type"):
            case "text":
                parts += _text(wire, origin)
            case "thinking":
                parts.append(_thought(wire, origin))
            case "redacted_thinking":
                data = text_in(wire, "data")
                parts.append(Reasoning(redacted=data or "", provider={PROTOCOL: {HOST: origin}}))
            case "tool_use":
                parts.append(_call(wire, block.raw, len(parts), origin))
            case "image":
                parts.append(_image(wire, origin))
            case _:
                parts.append(_hosted(block, origin))
    return parts


def read_citation(wire: Wire, length: int) -> Citation:
    """Return a citation; a block relies on its sources from its beginning to its end."""
    source = text_in(wire, "source") or ""
    return Citation(
        url=text_in(wire, "url") or (source if "://" in source else None),
        title=text_in(wire, "title") or text_in(wire, "document_title") or source or None,
        text=text_in(wire, "cited_text"),
        start=0,
        end=length,
    )


def read_text(text: str, wire: Wire) -> Text:
    """Return a text with the citations that its block holds; the rest is for the caller."""
    cited: object = wire.get("citations")
    citations = [each for each in cited if is_object(each)] if is_array(cited) else []
    return Text(text, citations=tuple(read_citation(each, len(text)) for each in citations))


def _text(wire: Wire, origin: str) -> list[Part]:
    text = text_in(wire, "text") or ""
    if not text:
        return []
    part = read_text(text, wire)
    rest = {k: v for k, v in wire.items() if k not in ("type", "text") and v != []}
    return [replace(part, provider={PROTOCOL: {HOST: origin, **rest}}) if rest else part]


def _thought(wire: Wire, origin: str) -> Reasoning:
    rest = {k: v for k, v in wire.items() if k not in ("type", "thinking", "signature")}
    return Reasoning(
        text_in(wire, "thinking") or "",
        signature=text_in(wire, "signature") or None,
        provider={PROTOCOL: {HOST: origin, **rest}},
    )


def _call(wire: Wire, raw: str | None, place: int, origin: str) -> ToolCall:
    """Return a call under the server's ID; one without gets an ID from its place."""
    known = ("type", "id", "name", "input")
    rest = {k: v for k, v in wire.items() if k not in known and (k, v) != ("caller", _DIRECT)}
    call_id = text_in(wire, "id") or ""
    given: object = wire.get("input")
    if raw is None:
        raw = given if isinstance(given, str) else encode(given or {}).decode()
    return ToolCall(
        call_id or f"call_{place + 1}",
        text_in(wire, "name") or "",
        mended(raw) or "{}",
        call_id or None,
        {PROTOCOL: {HOST: origin, **rest}} if rest else None,
    )


def _image(wire: Wire, origin: str) -> Part:
    source: object = wire.get("source")
    content = text_in(source, "data") if is_object(source) else None
    try:
        picture = base64.b64decode(content) if content else b""
    except ValueError:
        picture = b""
    if not picture or not is_object(source):
        return Hosted("image", {PROTOCOL: {HOST: origin, **wire}})
    return Image(content=picture, media_type=text_in(source, "media_type"))


def _hosted(block: WireBlock, origin: str) -> Hosted:
    """Return a step of the server's own tools, or a block of a type that we do not know."""
    wire: Wire = block.fields
    if block.raw is not None:
        wire = {**wire, "input": _decoded(block.raw)}
    kind = text_in(wire, "type") or "unknown"
    name = (
        text_in(wire, "name") if kind.endswith("_tool_use") else kind.removesuffix("_tool_result")
    )
    return Hosted(name or kind, {PROTOCOL: {HOST: origin, **wire}})


def _decoded(raw: str) -> Any:
    try:
        return decode(mended(raw).encode("utf-8", "replace")) if raw.strip() else {}
    except ValueError:
        return {NOT_AN_OBJECT: clean(raw)}


def _provider(message: WireMessage, origin: str) -> Opaque | None:
    """Return a message's opaque data: what goes back to its server, and what is only read."""
    back: Wire = {}
    if message.stop_reason == PAUSE:
        back[PAUSED] = True
    if message.container:
        back["container"] = message.container
    provider: Opaque = {PROTOCOL: {HOST: origin, **back}} if back else {}
    if message.told:
        provider[READ_ONLY] = message.told
    return provider or None


_ONE_REQUEST = Usage(requests=1)
