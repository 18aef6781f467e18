"""The items of a reply as parts of a message."""

from __future__ import annotations

import base64

from msgspec import Struct, field

from treadle.messages import (
    Audio,
    Citation,
    Hosted,
    Image,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
)
from treadle.providers._json import encode, mended
from treadle.providers.openai.chat_wire import HOST, Wire
from treadle.providers.openai.responses_calls import arguments_of, is_ours, name_of
from treadle.providers.openai.responses_dialect import PROTOCOL
from treadle.providers.openai.responses_objects import count_in, objects_in, text_in
from treadle.providers.openai.responses_wire import ITEM, PAIRED_ID, reasoning_summary
from treadle.values import is_array

READ_ONLY = f"{PROTOCOL}.read"
"""The key for what a reply told beside its text, which no server wants back."""

_TEXTS = {"output_text", "text", "input_text"}
_CALL = {"type", "id", "call_id", "name", "arguments", "status"}
_MESSAGE = {"type", "id", "role", "content", "status"}


class ReplyParts(Struct):
    """What a reply is made of."""

    parts: list[Part] = field(default_factory=list[Part])
    refused: bool = False

    @property
    def has_calls(self) -> bool:
        """Whether the model called a tool of ours."""
        return any(type(part) is ToolCall for part in self.parts)


def read_items(items: list[Wire], host: str) -> ReplyParts:
    """Return the parts of a reply in their order. `host` may get its opaque data back."""
    found = ReplyParts()
    results = (item for item in items if text_in(item.get("type")).endswith("_output"))
    answered = {text_in(item.get("call_id")) for item in results}
    paired = False  # reasoning came: the IDs of what follows belong to it
    for place, item in enumerate(items):
        match item.get("type"):
            case "message":
                _read_message(item, host, found, paired=paired)
            case "reasoning":
                found.parts.append(reasoning_part(item, {HOST: host}))
                paired = True
            case "function_call":
                found.parts.append(_function_call(item, place, host, paired=paired))
            case "image_generation_call":
                found.parts.append(_image(item, host))
            case _ if is_ours(item, answered):
                found.parts.append(special_call(item, {HOST: host}))
            case _:
                found.parts.append(hosted(item, {HOST: host}))
    return found


def reasoning_part(item: Wire, origin: Wire) -> Reasoning:
    """Return what a model thought: summary or full text to read, the whole item to send back."""
    words = [*_words(item.get("summary")), *_words(item.get("content"))]
    text = "\n\n".join(words)
    kept = {name: value for name, value in item.items() if value is not None and name != "type"}
    if kept.get("summary") == reasoning_summary(text):
        del kept["summary"]
    if not kept.get("content"):
        kept.pop("content", None)
    if kept.get("status") == "completed" and origin:
        del kept["status"]
    return Reasoning(text, provider={PROTOCOL: {**origin, **kept}})


def special_call(item: Wire, origin: Wire) -> ToolCall:
    """Return a call that is not of a function, for a tool of ours with its name or its kind's."""
    call_id = text_in(item.get("call_id"))
    raw = mended(arguments_of(item))
    return ToolCall(call_id, name_of(item), raw, call_id, {PROTOCOL: {**origin, **item}})


def hosted(item: Wire, origin: Wire) -> Hosted:
    """Return a step of a tool that the server ran, or anything else that it may want back."""
    kind = text_in(item.get("type")) or "unknown"
    return Hosted(kind.removesuffix("_call"), {PROTOCOL: {**origin, **item}})


def citations_in(annotations: list[Wire]) -> tuple[Citation, ...]:
    """Return the sources that annotations name: pages, and files by their names."""
    return tuple(_citation(annotation) for annotation in annotations)


def _read_message(item: Wire, host: str, found: ReplyParts, *, paired: bool) -> None:
    fields = {name: item[name] for name in item.keys() - _MESSAGE if item[name] is not None}
    if item.get("status") not in (None, "completed"):
        fields["status"] = item["status"]
    if paired and item.get("id"):
        fields[PAIRED_ID] = item["id"]
    origin: Wire = {HOST: host, ITEM: fields} if fields else {HOST: host}
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    for block in objects_in(content):
        kind = text_in(block.get("type"))
        if kind == "refusal":
            words = text_in(block.get("refusal"))
            found.refused = True
            found.parts.append(Text(words, {PROTOCOL: {**origin, **block}}))
        elif kind in _TEXTS:
            text = _text(block, origin)
            found.parts += [text] if text.text else []
        elif kind == "output_audio":
            found.parts.append(_audio(block))
        else:
            found.parts.append(hosted(block, {ITEM: fields, **origin}))


def _text(block: Wire, origin: Wire) -> Text:
    annotations = objects_in(block.get("annotations"))
    kept = {**origin, "annotations": annotations} if annotations else origin
    provider: Opaque = {PROTOCOL: kept} if kept.keys() - {HOST} else {}
    if block.get("logprobs"):
        provider[READ_ONLY] = {"logprobs": block["logprobs"]}
    return Text(text_in(block.get("text")), provider or None, citations_in(annotations))


def _function_call(item: Wire, place: int, host: str, *, paired: bool) -> ToolCall:
    """Return a call under the provider's ID; one without gets an ID from its place."""
    given = text_in(item.get("call_id")) or text_in(item.get("id"))
    raw = item.get("arguments")
    raw = raw if isinstance(raw, str) and raw else encode(raw or {}).decode()
    kept = {name: item[name] for name in item.keys() - _CALL if item[name] is not None}
    if paired and item.get("id"):
        kept[PAIRED_ID] = item["id"]
    return ToolCall(
        given or f"call_{place + 1}",
        text_in(item.get("name")),
        mended(raw),
        given or None,
        {PROTOCOL: {HOST: host, **kept}} if kept else None,
    )


def _image(item: Wire, host: str) -> Part:
    """Return a picture that the model made; one that failed, or is no base64, is only a step."""
    result = item.get("result")
    try:
        content = base64.b64decode(result, validate=True) if isinstance(result, str) else b""
    except ValueError:
        content = b""
    if not content:
        return hosted(item, {HOST: host})
    kept = {name: value for name, value in item.items() if name != "result"}
    kind = text_in(item.get("output_format")) or "png"
    media_type = "image/svg+xml" if kind == "svg" else f"image/{kind}"
    return Image(content=content, media_type=media_type, provider={PROTOCOL: {HOST: host, **kept}})


def _audio(block: Wire) -> Audio:
    try:
        content = base64.b64decode(text_in(block.get("data")))
    except ValueError:
        content = b""
    transcript = text_in(block.get("transcript")) or None
    return Audio(content=content or None, media_type="audio/wav", transcript=transcript)


def _words(blocks: object) -> list[str]:
    if not is_array(blocks):
        return [blocks] if isinstance(blocks, str) and blocks else []
    return [text for block in objects_in(blocks) if (text := text_in(block.get("text")))]


def _citation(annotation: Wire) -> Citation:
    start, end = annotation.get("start_index"), annotation.get("end_index")
    place = annotation.get("index") if annotation.get("type") == "file_citation" else None
    title = annotation.get("title") or annotation.get("filename") or annotation.get("file_id")
    return Citation(
        url=text_in(annotation.get("url")) or None,
        title=text_in(title) or None,
        start=_place(start if place is None else place),
        end=_place(end if place is None else place),
    )


def _place(value: object) -> int | None:
    return None if value is None else count_in(value)
