"""Our messages, tools and settings as Chat Completions JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from treadle.messages import (
    Audio,
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
)
from treadle.ports.model import ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import arguments_json, object_schema
from treadle.providers.openai.dialect import PROTOCOL, ChatDialect
from treadle.providers.openai.prompt_cache import wire_cache
from treadle.values import is_array, is_object

Wire = dict[str, Any]
"""One object of their JSON."""

HOST = "@host"
"""In opaque data: the one server it came from and may go back to."""

_UNSTRICT = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "propertyNames"}
    | {"dependentRequired", "dependentSchemas", "unevaluatedProperties", "uniqueItems", "default"}
    | {"contains", "minContains", "maxContains", "minProperties", "maxProperties", "prefixItems"}
)
NAMELESS = "_"
"""What a call is sent as whose model named no tool: servers refuse an empty name."""
BEGIN: Wire = {"role": "user", "content": "(The conversation begins here.)"}
"""What is said where nobody has said anything: servers refuse an empty list."""
SHORT_ID = 40
"""Characters of a call's ID that every server takes."""
_NINE = re.compile(r"[A-Za-z0-9]{9}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ChatTool(ToolSpec, frozen=True):
    """A tool with fields of this protocol's own: `strict`, a cache mark, or a server's own tool.

    `provider` is as on parts: what has a ``"type"`` is sent as it stands, other fields are added.
    """

    provider: Opaque | None = None


def wire_messages(message: Message, dialect: ChatDialect) -> list[Wire]:
    """Return what one message becomes: nothing when it is empty, several for tool results."""
    match message.role:
        case "user" | "system":
            return _spoken(message, dialect)
        case "assistant":
            return _assistant(message, dialect)
        case "tool":
            return _results(message, dialect)
        case _:
            assert_never(message.role)


def wire_tools(tools: Iterable[ToolSpec]) -> list[Wire]:
    """Return the tools as they are offered."""
    return [_tool(tool) for tool in tools]


def wire_settings(
    settings: ModelSettings,
    dialect: ChatDialect,
    *,
    output: OutputSchema | None = None,
    has_tools: bool = False,
    stream: bool = False,
) -> Wire:
    """Return every other field of a request; what is not set is left out."""
    wire: Wire = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        dialect.max_tokens_field: settings.max_output_tokens,
        "stop": settings.stop,
        "seed": settings.seed,
        "frequency_penalty": settings.frequency_penalty,
        "presence_penalty": settings.presence_penalty,
        "reasoning_effort": settings.reasoning_effort,
        "response_format": wire_output(output) if output else None,
        **wire_cache(settings.prompt_cache, dialect.cache_life),
    }
    if has_tools:  # servers refuse these two without tools
        wire["tool_choice"] = _tool_choice(settings.tool_choice)
        wire["parallel_tool_calls"] = settings.parallel_tool_calls
    wire = {name: value for name, value in wire.items() if value is not None}
    if stream:
        wire["stream"] = True
        if dialect.stream_usage:
            wire["stream_options"] = {"include_usage": True}
    if settings.extra_body:
        wire |= {name: value for name, value in settings.extra_body.items() if name != "stream"}
    return wire


def wire_output(output: OutputSchema) -> Wire:
    """Return the response format; strict where the schema is in the subset that allows it."""
    strict = output.schema.get("type") == "object" and is_strict(output.schema)
    schema = {"name": output.name, "schema": output.schema, "strict": strict}
    return {"type": "json_schema", "json_schema": schema}


def wire_part(part: Part, dialect: ChatDialect) -> Wire:
    """Return one block of a content array; what the server cannot take becomes a note in words."""
    kept = kept_for(part.provider, dialect)
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
            wire = _file(part, dialect)
        case Reasoning() | ToolCall() | ToolResult() | Hosted():
            wire = _text(f"[{type(part).__name__} left out]")
        case _:
            assert_never(part)
    return {**wire, **kept} if kept else wire


def kept_for(provider: Opaque | None, dialect: ChatDialect) -> Wire:
    """Return the opaque fields that go to this server."""
    if provider is None:
        return {}
    kept: object = provider.get(PROTOCOL)
    if not is_object(kept) or kept.get(HOST, dialect.host) != dialect.host:
        return {}
    return {name: value for name, value in kept.items() if name != HOST}


def is_strict(schema: object) -> bool:
    """Whether a JSON Schema is in OpenAI's strict subset: closed objects, all fields required."""
    if is_array(schema):
        return all(is_strict(item) for item in schema)
    if not is_object(schema):
        return True
    if not _UNSTRICT.isdisjoint(schema):
        return False
    properties = schema.get("properties", {})
    if not is_object(properties):
        return False
    if properties or schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        required = schema.get("required", [])
        if not closed or not is_array(required) or set(map(str, required)) != set(properties):
            return False
    inner = [value for name, value in schema.items() if name not in _WORDS]
    definitions = schema.get("$defs")
    named = definitions.values() if is_object(definitions) else ()
    return is_strict([*inner, *properties.values(), *named])


_WORDS = {"properties", "$defs", "required", "enum", "const", "examples"}


def _spoken(message: Message, dialect: ChatDialect) -> list[Wire]:
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is Text and parts[0].provider is None:
        content: str | list[Wire] = parts[0].text
    else:
        content = [wire_part(part, dialect) for part in parts if not _is_empty(part)]
        is_text = all(block.keys() == {"type", "text"} for block in content)
        if is_text and (len(content) == 1 or dialect.merge_roles or not dialect.vision):
            content = "\n\n".join(block["text"] for block in content)
    kept = kept_for(message.provider, dialect)
    if not content and not kept:
        return []
    return [{"role": message.role, "content": content, **kept}]


def _assistant(message: Message, dialect: ChatDialect) -> list[Wire]:
    wire: Wire = {"role": "assistant", "content": None}
    blocks: list[Wire] = []
    calls: list[Wire] = []
    for part in message.parts:
        match part:
            case Text():
                blocks.append(wire_part(part, dialect))
            case ToolCall():
                calls.append(_call(part, dialect))
            case Reasoning():
                _add_reasoning(part, dialect, wire, blocks)
            case Image() | Audio() | File() | ToolResult() | Hosted():
                continue  # only a user may show something here
            case _:
                assert_never(part)
    if any(block.keys() != {"type", "text"} for block in blocks):
        wire["content"] = blocks
    else:
        text = "".join(block["text"] for block in blocks)
        wire["content"] = text if text.strip() else None
    if calls:
        wire["tool_calls"] = calls
    kept = kept_for(message.provider, dialect)
    wire |= kept
    said = wire["content"] or calls or kept.keys() & {"audio", "function_call", "refusal"}
    return [wire] if said else []


def _add_reasoning(part: Reasoning, dialect: ChatDialect, wire: Wire, blocks: list[Wire]) -> None:
    """Put reasoning where its server had it: in a field, in a list of details, in the content."""
    kept = kept_for(part.provider, dialect)
    field = kept.get("field")
    if isinstance(field, str):
        wire[field] = wire.get(field, "") + part.text
    details = kept.get("reasoning_details")
    if is_array(details):
        wire["reasoning_details"] = [*wire.get("reasoning_details", ()), *details]
    block = kept.get("block")
    if is_object(block):
        blocks.append(block)


def _call(call: ToolCall, dialect: ChatDialect) -> Wire:
    kept = kept_for(call.provider, dialect)
    call_id = sent_id(call.id, dialect)
    if "type" in kept:
        return {"id": call_id, **kept}
    function = {"name": call.name or NAMELESS, "arguments": arguments_json(call.raw)}
    return {"id": call_id, "type": "function", "function": function, **kept}


def sent_id(call_id: str, dialect: ChatDialect) -> str:
    """Return a call's ID in a form that the server takes; the same for the call and its result."""
    match dialect.call_ids:
        case "any":
            return call_id
        case "short":
            return call_id if len(call_id) <= SHORT_ID else f"call_{_digest(call_id).hex()[:32]}"
        case "nine":
            if _NINE.fullmatch(call_id):
                return call_id
            return "".join(_DIGITS[byte % 62] for byte in _digest(call_id)[:9])
        case _:
            assert_never(dialect.call_ids)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=32).digest()


def _results(message: Message, dialect: ChatDialect) -> list[Wire]:
    """Return one tool message per result, then what they show, which only a user may say here."""
    wires: list[Wire] = []
    shown: list[Wire] = []
    for part in message.parts:
        if type(part) is not ToolResult:
            continue
        blocks: list[Wire] = []
        for item in part.parts:
            if type(item) is Text:
                blocks.append(wire_part(item, dialect))
                continue
            medium = wire_part(item, dialect)
            if medium["type"] == "text":  # it could not be sent and says so
                blocks.append(medium)
                continue
            label = f"{type(item).__name__} {len(shown) // 2 + 1}"
            blocks.append(_text(f"[{label}: shown after the tool results]"))
            shown += (_text(f"{label}, returned by {part.name or 'the tool'}:"), medium)
        wires.append(
            {
                "role": "tool",
                "tool_call_id": sent_id(part.call_id, dialect),
                "content": _joined(blocks),
                **kept_for(part.provider, dialect),
            }
        )
    if wires and message.provider:
        wires[-1] |= kept_for(message.provider, dialect)
    if shown:
        wires.append({"role": "user", "content": shown})
    return wires


def _joined(blocks: Sequence[Wire]) -> str | list[Wire]:
    if any(block.keys() != {"type", "text"} for block in blocks):
        return list(blocks)
    return "\n".join(block["text"] for block in blocks)


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _image(image: Image, dialect: ChatDialect) -> Wire:
    if not dialect.vision:
        return _text("[Image: left out, this model takes no images]")
    if not image.url and not image.content:
        return _text("[Image: its content is gone]")
    address: Wire = {"url": image.data_url}
    if image.detail:
        address["detail"] = image.detail
    return {"type": "image_url", "image_url": address}


def _audio(audio: Audio) -> Wire:
    if audio.content:
        sound = {"data": audio.base64, "format": audio.format}
        return {"type": "input_audio", "input_audio": sound}
    said = f", which says: {audio.transcript}" if audio.transcript else ""
    where = audio.url or "content is gone"
    return _text(f"[Audio: left out, this API takes no address ({where}){said}]")


def _file(file: File, dialect: ChatDialect) -> Wire:
    if file.file_id:
        return {"type": "file", "file": {"file_id": file.file_id}}
    media_type = file.media_type or ""
    name = file.name or f"file.{media_type.rpartition('/')[2] or 'bin'}"
    if file.content and (media_type.startswith("text/") or media_type == "application/json"):
        return _text(f"File {name}:\n{file.content.decode('utf-8', 'replace')}")
    if not file.content and (not file.url or not dialect.file_urls):
        return _text(f"[File {name}: left out, this API takes no address ({file.url})]")
    return {"type": "file", "file": {"filename": name, "file_data": file.data_url}}


def _tool(tool: ToolSpec) -> Wire:
    kept: Wire = {}
    if isinstance(tool, ChatTool) and tool.provider:
        kept = dict(tool.provider.get(PROTOCOL) or {})
    if "type" in kept:
        return kept
    schema, words = object_schema(tool.parameters)
    function: Wire = {"name": tool.name, "parameters": schema}
    description = "\n\n".join(text for text in (tool.description, words) if text)
    if description:
        function["description"] = description
    return {"type": "function", "function": {**function, **kept.pop("function", {})}, **kept}


def _tool_choice(choice: str | None) -> str | Wire | None:
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _is_empty(part: Part) -> bool:
    return type(part) is Text and not part.text and part.provider is None
