"""What servers answer, as parts for the model and whole for the application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from treadle.errors import InvalidInput
from treadle.messages import Audio, Image, Message, Text
from treadle.tools.outcome import Shown
from treadle.values import clean, is_array, is_object

ContentPart = Text | Image | Audio


def shown(result: dict[str, Any]) -> Shown | list[ContentPart]:
    """Return a call's result: parts for the model, and beside them all of it where that is more."""
    parts = parts_of(result)
    blocks: list[Any] = [each for each in _items(result.get("content")) if is_object(each)]
    is_more = any(each.get("type") not in ("text", "image") for each in blocks)
    if is_more or any(result.get(name) is not None for name in ("structuredContent", "_meta")):
        return Shown(parts, result)
    return list(parts)


def parts_of(result: dict[str, Any]) -> tuple[ContentPart, ...]:
    """Return what the model is shown of a call's result.

    Text stays text and images are images; sound, links and binary resources are told of. What is
    structured is shown as JSON, unless the text says the same already.
    """
    blocks = [block for block in _items(result.get("content")) if is_object(block)]
    parts: list[ContentPart] = [part for block in blocks for part in block_parts(block)]
    structured: Any = result.get("structuredContent")
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    if structured is not None and not _says(texts, structured):
        parts.append(Text(_indented(structured)))
    if not parts:
        shown = {name: value for name, value in result.items() if name not in _SILENT and value}
        return (Text(_indented(shown)),) if shown else ()
    return _joined(parts)


_SILENT = ("_meta", "isError", "resultType", "content", "structuredContent")


def text_of(result: dict[str, Any]) -> str:
    """Return a result as text only."""
    return "\n".join(part.text for part in parts_of(result) if isinstance(part, Text))


def block_parts(block: dict[str, Any]) -> list[ContentPart]:
    """Return one block of content as parts."""
    match block.get("type"):
        case "text":
            return [Text(clean(str(block.get("text", ""))))]
        case "image":
            return [_image(block)]
        case "audio":
            return [Text(f"[audio: {_kind(block)}, {_size(block.get('data'))}]")]
        case "resource_link":
            return [Text(f"[resource: {_described(block)}]")]
        case "resource":
            return resource_parts(block.get("resource"))
        case _:
            return [Text(_indented(block))]


def resource_parts(resource: Any) -> list[ContentPart]:
    """Return the content of a resource; of text that, with its address before it."""
    if not is_object(resource):
        return [Text(_indented(resource))]
    if isinstance(resource.get("text"), str):
        return [Text(f"[resource: {_described(resource)}]\n{clean(resource['text'])}")]
    if _kind(resource).startswith("image/"):
        return [_image({**resource, "data": resource.get("blob")})]
    return [Text(f"[resource: {_described(resource)}, {_size(resource.get('blob'))}]")]


def messages_of(result: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a filled-in prompt."""
    found: list[Message] = []
    for each in _items(result.get("messages")):
        content: Any = each.get("content")
        blocks: Sequence[Any] = content if is_array(content) else [content]
        parts = [part for block in blocks if is_object(block) for part in block_parts(block)]
        role = "assistant" if each.get("role") == "assistant" else "user"
        found.append(Message(role, tuple(parts)))
    return tuple(found)


def with_defaults(schema: Any, content: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to a question, what it leaves out filled with the question's defaults."""
    properties: Any = schema.get("properties") if is_object(schema) else None
    named: dict[str, Any] = properties if is_object(properties) else {}
    defaults = {
        name: field["default"]
        for name, field in named.items()
        if is_object(field) and "default" in field
    }
    return {**defaults, **content}


def _says(texts: list[str], structured: Any) -> bool:
    """Whether texts are nothing but the serialised form of a value, or of what it wraps."""
    if not texts:
        return False
    if any(_is(text, structured) for text in ("\n".join(texts), "".join(texts))):
        return True
    if not is_object(structured) or len(structured) != 1:
        return False
    ((key, inner),) = structured.items()
    if isinstance(inner, str):
        return inner in ("\n".join(texts), "".join(texts))
    if key != "result":  # what servers call a value that is no object
        return False
    listed = is_array(inner) and len(inner) == len(texts) and all(map(_is, texts, inner))
    return listed or _is("\n".join(texts), inner)


def _is(text: str, value: Any) -> bool:
    if isinstance(value, str) and text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _joined(parts: list[ContentPart]) -> tuple[ContentPart, ...]:
    """Join neighbouring texts with line ends."""
    found: list[ContentPart] = []
    for part in parts:
        if isinstance(part, Text) and not part.text:
            continue
        last = found[-1] if found else None
        if isinstance(part, Text) and isinstance(last, Text):
            found[-1] = Text(f"{last.text}\n{part.text}")
        else:
            found.append(part)
    return tuple(found)


def _image(block: dict[str, Any]) -> ContentPart:
    kind = _kind(block)
    with suppress(InvalidInput):
        if kind.startswith("image/"):
            return Image.from_base64(str(block.get("data") or ""), kind)
    return Text(f"[image: {kind}, which cannot be read]")


def _described(resource: dict[str, Any]) -> str:
    address = str(resource.get("uri", ""))
    name = str(resource.get("title") or resource.get("name") or "")
    kind = str(resource.get("mimeType") or "")
    about = str(resource.get("description") or "")
    shown = f"{name} <{address}>" if name and name != address else address
    return clean(", ".join(filter(None, (shown, kind, about))))


def _kind(block: dict[str, Any]) -> str:
    return str(block.get("mimeType") or "application/octet-stream")


def _size(data: Any) -> str:
    return f"{len(data) * 3 // 4 if isinstance(data, str) else 0} bytes"


def _items(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _indented(value: Any) -> str:
    return clean(json.dumps(value, indent=2, ensure_ascii=False, default=str))
