"""Chat Completions replies as our values."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from treadle.errors import InvalidInput, Overloaded
from treadle.messages import Audio, Image, Message, Opaque, Part, Reasoning, Text, ToolCall
from treadle.ports.model import FinishReason, ModelReply
from treadle.providers._counts import tokens, usage_from
from treadle.providers._failure import NO_HEADERS, Asked, bad_reply, complaint_in, typed_error
from treadle.providers._json import encode, mended
from treadle.providers.openai.chat_objects import (
    WireCall,
    WireChoice,
    WireDetails,
    WireFunction,
    WireMessage,
    WireUsage,
    decode_object,
)
from treadle.providers.openai.chat_wire import HOST, Wire
from treadle.providers.openai.dialect import PROTOCOL
from treadle.usage import Usage
from treadle.values import clean, is_array, is_object

READ_ONLY = f"{PROTOCOL}.read"
"""The key for what a reply told beside its message, which no server wants back."""

_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "max_output_tokens": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "recitation": "content_filter",
    "refusal": "refusal",
}
_FAILED = {"error", "network_error", "insufficient_system_resource", "abort"}


class ReplyParts(Struct):
    """What a reply is made of, collected from one message or from many pieces."""

    content: list[Part]
    calls: list[ToolCall]
    provider: Opaque | None = None
    refusal: str = ""


def decode_reply(
    body: bytes, host: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS
) -> ModelReply:
    """Return the reply that the body of a 200 holds. `host` may get its opaque data back.

    Raises:
        BadReply: the body is not a chat completion.
        ModelError: it holds an error instead of an answer, typed as that error is.
    """
    try:
        reply = decode_object(body)
    except ValueError as error:
        raise bad_reply(body, asked, str(error), headers=headers) from error
    choice = reply.choices[0] if reply.choices else WireChoice()
    problem = reply.error or choice.error
    if problem:
        raise typed_error(complaint_in({"error": problem}), asked)
    message = choice.message or choice.delta
    if message is None:
        raise bad_reply(body, asked, "it has no message", headers=headers)
    return assembled(
        read_message(message, host),
        finish=choice.finish_reason,
        usage=usage_of(reply.usage or choice.usage),
        asked=asked,
        response_id=reply.id,
        model=reply.model,
    )


def assembled(
    parts: ReplyParts,
    *,
    finish: str | None,
    usage: Usage,
    asked: Asked,
    response_id: str | None,
    model: str | None,
) -> ModelReply:
    """Return a reply from what was collected.

    Raises:
        Overloaded: the finish reason says that the server broke off.
    """
    finish = clean(finish or "")
    reason = finish_reason(finish, bool(parts.calls), parts.refusal)
    said: tuple[Part, ...] = (*parts.content, *parts.calls)
    if parts.refusal and not any(type(part) is Text for part in said):
        said = (*said, Text(parts.refusal))
    message = Message("assistant", said, parts.provider)
    if reason is None:
        raise Overloaded(
            f"{asked.provider} broke off the reply of {asked.model!r} ({finish}).",
            provider=asked.provider,
            model=asked.model,
            code=finish,
            partial=message.text,
        )
    return ModelReply(
        message=message,
        usage=usage,
        finish_reason=reason,
        model=clean(model or asked.model),
        response_id=clean(response_id or "") or None,
        provider_finish=finish or None,
    )


def finish_reason(finish: str | None, has_calls: bool, refusal: str) -> FinishReason | None:
    """Return why a reply ended, None when the server failed. Some servers do not say."""
    known: FinishReason | None = "stop"
    if finish:
        known = _FINISHES.get(finish) or _FINISHES.get(finish.lower())
        if known is None and finish.lower() in _FAILED:
            return None
    if known == "stop" and has_calls:
        return "tool_calls"
    if known == "stop" and refusal:
        return "refusal"
    return known or "other"


def usage_of(usage: WireUsage | None) -> Usage:
    """Return the counts of one call.

    Some servers leave the thinking out of `completion_tokens` and only count it in the total:
    it is output, and paid as such.
    """
    if usage is None:
        return _ONE_REQUEST
    prompt, completion = tokens(usage.prompt_tokens) or 0, tokens(usage.completion_tokens) or 0
    given = usage.prompt_tokens_details or _NO_DETAILS
    written = usage.completion_tokens_details or _NO_DETAILS
    hidden = (tokens(usage.total_tokens) or 0) - prompt - completion
    hidden = hidden if hidden > 0 else 0
    cached = (
        given.cached_tokens
        or usage.prompt_cache_hit_tokens
        or usage.cache_read_input_tokens
        or usage.num_cached_tokens
        or usage.cached_tokens
    )
    return usage_from(
        prompt=prompt,
        read=cached,
        written=given.cache_write_tokens or usage.cache_creation_input_tokens,
        output=completion + hidden,
        reasoning=written.reasoning_tokens or usage.reasoning_tokens or hidden,
        cost=usage.cost,
    )


def read_message(message: WireMessage, host: str) -> ReplyParts:
    """Return the parts of a whole assistant message."""
    content: list[Part] = []
    field = "reasoning_content" if message.reasoning_content is not None else "reasoning"
    thought = message.reasoning_content or message.reasoning or ""
    if thought or message.reasoning_details:
        content.append(reasoning_part(thought, field, message.reasoning_details, host))
    if isinstance(message.content, str):
        if message.content:
            content.append(Text(message.content))
    elif message.content:
        content += content_parts(message.content, host)
    for image in message.images or ():
        content += _image(image)
    audio = message.audio if message.audio and message.audio.get("id") else None
    if audio:
        content.append(_audio(audio))
    wires = list(message.tool_calls or ())
    if message.function_call and message.function_call.name:
        wires.append(WireCall(function=message.function_call))
    calls = [read_call(wire, place, host) for place, wire in enumerate(wires)]
    if not (message.annotations or message.extra_content or audio or message.executed_tools):
        return ReplyParts(content, calls, None, message.refusal or "")
    back: Wire = {
        "annotations": message.annotations,
        "extra_content": message.extra_content,
        "audio": {"id": audio["id"]} if audio else None,
    }
    provider = message_provider(back, {"executed_tools": message.executed_tools}, host)
    return ReplyParts(content, calls, provider, message.refusal or "")


def read_call(wire: WireCall, place: int, host: str) -> ToolCall:
    """Return a call under the provider's ID; one without gets an ID from its place."""
    function = wire.function or WireFunction()
    opaque: Wire = {"extra_content": wire.extra_content} if wire.extra_content else {}
    name, raw = function.name or "", function.arguments
    if wire.type == "custom" and wire.custom:
        name, raw = str(wire.custom.get("name") or ""), {"input": wire.custom.get("input")}
        opaque |= {"type": "custom", "custom": wire.custom}
    text = raw if isinstance(raw, str) and raw else encode(raw or {}).decode()
    return ToolCall(
        wire.id or f"call_{place + 1}",
        name,
        mended(text),
        wire.id or None,
        {PROTOCOL: {HOST: host, **opaque}} if opaque else None,
    )


def reasoning_part(
    text: str, field: str, details: list[dict[str, Any]] | None, host: str
) -> Reasoning:
    """Return reasoning that goes back to its server in the field it came in."""
    opaque: Wire = {HOST: host}
    if text:
        opaque["field"] = field
    if details:
        opaque["reasoning_details"] = details
    return Reasoning(text or details_text(details), provider={PROTOCOL: opaque})


def details_text(details: list[dict[str, Any]] | None) -> str:
    """Return the readable words of OpenRouter's reasoning details."""
    words = (detail.get("text") or detail.get("summary") for detail in details or ())
    return "".join(word for word in words if isinstance(word, str))


def content_parts(blocks: list[Any], host: str) -> list[Part]:
    """Return the parts of a content array; Mistral thinks in blocks of it."""
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, str):
            parts.append(Text(block))
        elif is_object(block) and block.get("type") == "thinking":
            opaque = {PROTOCOL: {HOST: host, "block": block}}
            parts.append(Reasoning(block_text(block.get("thinking")), provider=opaque))
        elif is_object(block) and isinstance(block.get("text"), str):
            parts.append(Text(block["text"]))
    return [part for part in parts if type(part) is not Text or part.text]


def block_text(thinking: object) -> str:
    """Return the words of a thinking block: a text, or a list of text blocks."""
    if isinstance(thinking, str):
        return thinking
    if not is_array(thinking):
        return ""
    texts = (block.get("text") for block in thinking if is_object(block))
    return "".join(text for text in texts if isinstance(text, str))


def message_provider(back: Wire, read: Wire, host: str) -> Opaque | None:
    """Return a message's opaque data: what goes back to its server, and what is only read."""
    provider: Opaque = {}
    back = {name: value for name, value in back.items() if value}
    if back:
        provider[PROTOCOL] = {HOST: host, **back}
    read = {name: value for name, value in read.items() if value}
    if read:
        provider[READ_ONLY] = read
    return provider or None


def _image(image: object) -> list[Part]:
    """Return a picture that the model made (OpenRouter)."""
    address = image.get("image_url") if is_object(image) else None
    url = address.get("url") if is_object(address) else None
    try:
        return [Image.from_url(url)] if isinstance(url, str) else []
    except InvalidInput:
        return []


def _audio(audio: Wire) -> Audio:
    transcript, content = audio.get("transcript"), audio.get("data")
    try:
        sound = base64.b64decode(content) if isinstance(content, str) else None
    except ValueError:
        sound = None
    return Audio(
        content=sound or None,
        media_type="audio/wav",
        transcript=transcript if isinstance(transcript, str) else None,
    )


_ONE_REQUEST = Usage(requests=1)
_NO_DETAILS = WireDetails()
