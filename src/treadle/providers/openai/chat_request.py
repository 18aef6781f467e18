"""Their requests as our values: what `chat_body` makes of ours, the other way round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from msgspec import Struct

from treadle.errors import InvalidInput
from treadle.messages import Thread
from treadle.ports.model import (
    Effort,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    PromptCache,
    ToolSpec,
)
from treadle.providers._json import decode
from treadle.providers.openai.chat_history import read_messages
from treadle.providers.openai.chat_wire import ChatTool, Wire, wire_output
from treadle.providers.openai.dialect import PROTOCOL, ChatDialect, TokenField
from treadle.providers.openai.prompt_cache import chat_cache_life, wire_cache
from treadle.values import is_array, is_object

_EFFORTS = frozenset(get_args(Effort))
_FLOATS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_TOKEN_FIELDS: tuple[TokenField, ...] = get_args(TokenField)


class ChatRequest(Struct, frozen=True):
    """A request read: `dialect` has the habits that it shows."""

    model: str
    request: ModelRequest
    stream: bool
    dialect: ChatDialect


def decode_request(body: bytes, dialect: ChatDialect) -> ChatRequest:
    """Return what a Chat Completions request says.

    What our values have no field for rides along as opaque data or in `extra_body`, so that
    encoding the result gives an equivalent request: the same but for fields that are null, empty
    or a default.

    Raises:
        InvalidInput: it is no Chat Completions request.
    """
    try:
        wire: object = decode(body)
    except ValueError as error:
        raise InvalidInput(f"The request is not JSON: {error}.") from error
    if not is_object(wire) or not is_array(wire.get("messages")):
        raise InvalidInput('A chat request is a JSON object with a list of "messages".')
    left = {name: value for name, value in wire.items() if value is not None}
    model, messages = left.pop("model", ""), left.pop("messages")
    stream = left.pop("stream", False) is True
    system = _system(messages)
    tools = _tools(left.pop("tools", []))
    if dialect.cache_key:
        dialect = replace(dialect, cache_life=chat_cache_life(str(model)))
    dialect = _shown_dialect(left, dialect, stream=stream)
    settings = _settings(left, dialect, has_tools=bool(tools))
    output = _output(left)
    conversation = left.pop("prompt_cache_key", "") if dialect.cache_key else ""
    if left:
        settings["extra_body"] = left
    request = ModelRequest(
        messages=Thread(read_messages(messages[1:] if system else messages, dialect)),
        system=system,
        tools=tools,
        settings=ModelSettings(**settings),
        output=output,
        conversation_id=conversation,
    )
    return ChatRequest(str(model), request, stream, dialect)


def _system(messages: list[Any]) -> str:
    """Return the text of a first message that is nothing but the system prompt."""
    first: object = messages[0] if messages else None
    if not is_object(first) or first.keys() != {"role", "content"}:
        return ""
    content = first["content"]
    return content if first["role"] == "system" and isinstance(content, str) else ""


def _shown_dialect(left: Wire, dialect: ChatDialect, *, stream: bool) -> ChatDialect:
    for field in _TOKEN_FIELDS:
        if isinstance(left.get(field), int):
            dialect = replace(dialect, max_tokens_field=field)
    if not stream:
        return dialect
    asks = left.get("stream_options") == {"include_usage": True}
    if asks:
        del left["stream_options"]
    return replace(dialect, stream_usage=asks)


def _settings(left: Wire, dialect: ChatDialect, *, has_tools: bool) -> Wire:
    """Take the settings that we have out of `left`, and return them under our names."""
    settings: Wire = {}
    for name in _FLOATS:
        if isinstance(left.get(name), int | float):
            settings[name] = float(left.pop(name))
    if isinstance(left.get(dialect.max_tokens_field), int):
        settings["max_output_tokens"] = left.pop(dialect.max_tokens_field)
    if isinstance(left.get("seed"), int):
        settings["seed"] = left.pop("seed")
    stop = left.pop("stop", None)
    if stop is not None:
        settings["stop"] = tuple(stop) if is_array(stop) else (stop,)
    if left.get("reasoning_effort") in _EFFORTS:
        settings["reasoning_effort"] = left.pop("reasoning_effort")
    if has_tools and isinstance(left.get("parallel_tool_calls"), bool):
        settings["parallel_tool_calls"] = left.pop("parallel_tool_calls")
    settings |= _cache(left, dialect)
    choice = _choice(left.get("tool_choice")) if has_tools else None
    if choice:
        settings["tool_choice"] = choice
        del left["tool_choice"]
    return settings


def _cache(left: Wire, dialect: ChatDialect) -> Wire:
    """Take how long the prompt is to be kept, where we would say it in the same way."""
    for kept in get_args(PromptCache):
        fields = wire_cache(kept, dialect.cache_life)
        if fields and all(left.get(name) == value for name, value in fields.items()):
            for name in fields:
                del left[name]
            return {"prompt_cache": kept}
    return {}


def _choice(wire: object) -> str | None:
    if wire in ("auto", "none", "required"):
        return str(wire)
    function = wire.get("function") if is_object(wire) and wire.get("type") == "function" else None
    name = function.get("name") if is_object(function) and len(function) == 1 else None
    return name if isinstance(name, str) and name not in ("auto", "none", "required") else None


def _output(left: Wire) -> OutputSchema | None:
    """Take a schema that we would send the same way."""
    wire = left.get("response_format")
    inner = wire.get("json_schema") if is_object(wire) else None
    if not is_object(inner) or not is_object(inner.get("schema")):
        return None
    output = OutputSchema(str(inner.get("name", "")), inner["schema"])
    if wire_output(output) != {"type": "json_schema", "json_schema": {"strict": False, **inner}}:
        return None
    del left["response_format"]
    return output


def _tools(wires: object) -> tuple[ToolSpec, ...]:
    if not is_array(wires):
        raise InvalidInput(f'"tools" is a list of objects, not {str(wires)[:60]!r}.')
    return tuple(_tool(wire) for wire in wires)


def _tool(wire: object) -> ToolSpec:
    """Return a tool; its further fields ride along, and one that is no function does whole."""
    if not is_object(wire):
        raise InvalidInput(f"A tool is a JSON object, not {str(wire)[:60]!r}.")
    wire = {"type": "function", **wire}
    function = wire.get("function")
    if wire["type"] != "function" or not is_object(function):
        return ChatTool(str(wire["type"]), "", {}, {PROTOCOL: wire})
    known = {"name", "description", "parameters"}
    name, parameters = str(function.get("name", "")), function.get("parameters")
    spec = ToolSpec(name, function.get("description") or "", parameters or {})
    inner = {key: value for key, value in function.items() if key not in known}
    outer = {key: value for key, value in wire.items() if key not in ("type", "function")}
    extra = {**outer, "function": inner} if inner else outer
    if not is_object(parameters):
        extra = wire
    if not extra:
        return spec
    return ChatTool(spec.name, spec.description, spec.parameters, {PROTOCOL: extra})
