"""Their requests as our values: what `responses_body` makes of ours, the other way round."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import get_args

from msgspec import Struct

from treadle.errors import InvalidInput
from treadle.messages import Thread
from treadle.ports.model import Effort, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import decode
from treadle.providers.openai.chat_wire import Wire
from treadle.providers.openai.responses_dialect import PROTOCOL, ResponsesDialect
from treadle.providers.openai.responses_history import read_items
from treadle.providers.openai.responses_objects import text_in
from treadle.providers.openai.responses_options import ResponsesTool, wire_output
from treadle.values import is_array, is_object

_EFFORTS = frozenset(get_args(Effort))
_KEPT = {"previous_response_id", "conversation", "prompt"}
_ENCRYPTED = ["reasoning.encrypted_content"]


class ResponsesRequest(Struct, frozen=True):
    """A request read: `dialect` has the habits that it shows."""

    model: str
    request: ModelRequest
    stream: bool
    dialect: ResponsesDialect


def decode_request(body: bytes, dialect: ResponsesDialect) -> ResponsesRequest:
    """Return what a Responses request says.

    What our values have no field for rides along as opaque data or in `extra_body`, so that
    encoding the result gives an equivalent request: the same but for fields that are null, empty
    or a default.

    Raises:
        InvalidInput: it is no Responses request.
    """
    try:
        wire: object = decode(body)
    except ValueError as error:
        raise InvalidInput(f"The request is not JSON: {error}.") from error
    kept = is_object(wire) and not _KEPT.isdisjoint(wire)  # then there may be nothing new
    if not is_object(wire) or not isinstance(wire.get("input", [] if kept else None), str | list):
        raise InvalidInput('A Responses request is a JSON object with "input", a text or a list.')
    left = {name: value for name, value in wire.items() if value is not None}
    model, items = left.pop("model", ""), left.pop("input", [])
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    stream = left.pop("stream", False) is True
    system = left.pop("instructions", "")
    tools = _tools(left.pop("tools", []))
    encrypted = left.get("include") == _ENCRYPTED
    if encrypted:
        del left["include"]
    dialect = replace(
        dialect, encrypted_reasoning=encrypted, store=None, cache_life=None, media_results=True
    )
    settings = _settings(left, has_tools=bool(tools))
    output = _output(left)
    conversation = text_in(left.get("prompt_cache_key")) if dialect.cache_key else ""
    if conversation:
        del left["prompt_cache_key"]
    if left:
        settings["extra_body"] = left
    request = ModelRequest(
        messages=Thread(read_items(items, dialect)),
        system=str(system),
        tools=tools,
        settings=ModelSettings(**settings),
        output=output,
        conversation_id=conversation,
    )
    return ResponsesRequest(str(model), request, stream, dialect)


def _settings(left: Wire, *, has_tools: bool) -> Wire:
    """Take the settings that we have out of `left`, and return them under our names."""
    settings: Wire = {}
    for name, most in (("temperature", inf), ("top_p", 1)):
        value = left.get(name)
        if isinstance(value, int | float) and 0 <= value <= most:
            settings[name] = float(left.pop(name))
    longest = left.get("max_output_tokens")
    if isinstance(longest, int) and longest > 0:
        settings["max_output_tokens"] = left.pop("max_output_tokens")
    reasoning = left.get("reasoning")
    if is_object(reasoning):
        rest = {name: value for name, value in reasoning.items() if value is not None}
        if text_in(rest.get("effort")) in _EFFORTS:
            settings["reasoning_effort"] = rest.pop("effort")
        _put_back(left, "reasoning", rest)
    if has_tools and isinstance(left.get("parallel_tool_calls"), bool):
        settings["parallel_tool_calls"] = left.pop("parallel_tool_calls")
    choice = _choice(left.get("tool_choice")) if has_tools else None
    if choice:
        settings["tool_choice"] = choice
        del left["tool_choice"]
    return settings


def _choice(wire: object) -> str | None:
    if wire in ("auto", "none", "required"):
        return str(wire)
    if not is_object(wire) or wire.keys() != {"type", "name"} or wire["type"] != "function":
        return None
    name = text_in(wire["name"])
    return name if name not in ("", "auto", "none", "required") else None


def _output(left: Wire) -> OutputSchema | None:
    """Take a schema that we would send the same way."""
    text = left.get("text")
    wire = text.get("format") if is_object(text) else None
    if not is_object(text) or not is_object(wire) or not is_object(wire.get("schema")):
        return None
    output = OutputSchema(text_in(wire.get("name")), wire["schema"])
    if wire_output(output) != {"strict": False, **wire}:
        return None
    rest = {name: value for name, value in text.items() if name != "format"}
    _put_back(left, "text", rest)
    return output


def _put_back(left: Wire, name: str, rest: Wire) -> None:
    if rest:
        left[name] = rest
    else:
        del left[name]


def _tools(wires: object) -> tuple[ToolSpec, ...]:
    if not is_array(wires):
        raise InvalidInput(f'"tools" is a list of objects, not {str(wires)[:60]!r}.')
    return tuple(_tool(wire) for wire in wires)


def _tool(wire: object) -> ToolSpec:
    """Return a tool; its further fields ride along, and one that is no function does whole."""
    if not is_object(wire):
        raise InvalidInput(f"A tool is a JSON object, not {str(wire)[:60]!r}.")
    name, parameters = text_in(wire.get("name")), wire.get("parameters")
    if wire.get("type") != "function" or not is_object(parameters):
        return ResponsesTool(name or str(wire.get("type")), "", {}, {PROTOCOL: wire})
    known = {"type", "name", "description", "parameters"}
    extra = {key: value for key, value in wire.items() if key not in known}
    description = text_in(wire.get("description"))
    if extra == {"strict": False}:
        return ToolSpec(name, description, parameters)
    return ResponsesTool(name, description, parameters, {PROTOCOL: {"strict": None, **extra}})
