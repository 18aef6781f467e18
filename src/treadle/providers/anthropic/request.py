"""Their requests as our values: what `body` makes of ours, the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from msgspec import Struct

from treadle.errors import ConfigError, InvalidInput
from treadle.messages import Thread
from treadle.ports.model import Effort, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import decode
from treadle.providers.anthropic.blocks import Wire
from treadle.providers.anthropic.body import AnthropicTool, wire_tool
from treadle.providers.anthropic.claude import Claude, claude
from treadle.providers.anthropic.dialect import PROTOCOL, MessagesDialect
from treadle.providers.anthropic.history import read_messages
from treadle.providers.anthropic.objects import text_in
from treadle.providers.anthropic.options import sent_schema, wire_options
from treadle.values import is_array, is_object

OUTPUT_NAME = "output"
"""What a schema is called that came without a name: their protocol has none."""


class MessagesRequest(Struct, frozen=True):
    """A request read."""

    model: str
    request: ModelRequest
    stream: bool


def decode_request(body: bytes, dialect: MessagesDialect) -> MessagesRequest:
    """Return what a Messages request says.

    What our values have no field for rides along as opaque data or in `extra_body`, and the cache
    marks are exactly those that it had, so that encoding the result gives an equivalent request:
    the same but for fields that are null, empty or a default.

    Raises:
        InvalidInput: it is no Messages request.
    """
    try:
        wire: object = decode(body)
    except ValueError as error:
        raise InvalidInput(f"The request is not JSON: {error}.") from error
    if not is_object(wire) or not is_array(wire.get("messages")):
        raise InvalidInput('A Messages request is a JSON object with a list of "messages".')
    left = {name: value for name, value in wire.items() if value is not None}
    model, messages = str(left.pop("model", "")), left.pop("messages")
    stream = left.pop("stream", False) is True
    system, blocks = _system(left.pop("system", ""))
    tools = _tools(left.pop("tools", []))
    thread = Thread(read_messages(messages, dialect))
    traits = claude(model)
    output = _output(left, traits)
    settings = _settings(left, traits, output, has_tools=bool(tools))
    if blocks:
        settings["extra_body"]["system"] = blocks
    if not tools and any(message.tool_calls for message in thread):
        settings["extra_body"]["tools"] = []
    request = ModelRequest(
        messages=thread,
        system=system,
        tools=tools,
        settings=ModelSettings(**{**settings, "extra_body": settings["extra_body"] or None}),
        output=output,
    )
    return MessagesRequest(model, request, stream)


def _system(wire: object) -> tuple[str, list[Any]]:
    """Return the system prompt, and its blocks when there is more to them."""
    if not is_array(wire):
        return (wire, []) if isinstance(wire, str) else ("", [])
    texts = [text_in(block, "text") or "" for block in wire if is_object(block)]
    plain = len(wire) == 1 and is_object(wire[0]) and wire[0].keys() == {"type", "text"}
    return "\n\n".join(texts), [] if plain else wire


def _settings(
    left: Wire, traits: Claude, output: OutputSchema | None, *, has_tools: bool
) -> dict[str, Any]:
    """Return the settings that give the fields in `left`; in `extra_body` what none would give."""
    settings: dict[str, Any] = {"prompt_cache": "off"}

    def built(more: dict[str, Any]) -> Wire:
        made = ModelSettings(**{**settings, **more})
        return wire_options(made, traits, output=output, has_tools=has_tools)

    known = built({})
    for candidate in _candidates(left, has_tools=has_tools):
        if candidate.keys() & settings.keys():  # a setting before it says the same already
            continue
        try:
            made = built(candidate)
        except ConfigError:
            continue
        says = made != known or "max_output_tokens" in candidate
        if says and all(_holds(left, name, value) for name, value in made.items()):
            settings |= candidate
            known = made
    extra = {name: _beyond(name, value, known) for name, value in left.items()}
    extra = {name: value for name, value in extra.items() if value is not None}
    extra |= {name: None for name in known if name not in left}
    return {**settings, "extra_body": extra}


def _candidates(left: Wire, *, has_tools: bool) -> Iterator[dict[str, Any]]:
    """Yield settings that may be meant by the fields in `left`, each to be tried."""
    most = left.get("max_tokens")
    if isinstance(most, int) and most > 0:
        yield {"max_output_tokens": most}
    for name in ("temperature", "top_p"):
        if isinstance(left.get(name), int | float):
            yield {name: float(left[name])}
    stop = left.get("stop_sequences")
    if is_array(stop) and all(isinstance(text, str) and text for text in stop):
        yield {"stop": tuple(stop)}
    choice = left.get("tool_choice")
    if has_tools and is_object(choice):
        named = {"any": "required", "tool": choice.get("name")}
        found = named.get(str(choice.get("type")), choice.get("type"))
        if isinstance(found, str) and found:
            alone = choice.get("disable_parallel_tool_use") is True
            yield {"tool_choice": found, **({"parallel_tool_calls": False} if alone else {})}
    if left.keys() & {"thinking", "output_config"}:
        for effort in get_args(Effort):
            if effort != "none":
                yield {"reasoning_effort": effort}
        yield {"reasoning_effort": "none"}


def _holds(left: Wire, name: str, value: object) -> bool:
    """Whether a field says at least what we would send in it; a default is sent anyway."""
    given = left.get(name)
    if name == "output_config" and is_object(given) and is_object(value):
        return all(given.get(key) == each for key, each in value.items())
    return given == value or name == "max_tokens"


def _beyond(name: str, given: object, built: Wire) -> object:
    """Return what a field says beyond what we would send in it."""
    known = built.get(name)
    if name == "output_config" and is_object(given) and is_object(known):
        return {key: each for key, each in given.items() if known.get(key) != each} or None
    return None if given == known else given


def _output(left: Wire, traits: Claude) -> OutputSchema | None:
    """Return a schema that we would send the same way."""
    config = left.get("output_config")
    wire = config.get("format") if is_object(config) else None
    schema = wire.get("schema") if is_object(wire) else None
    if not is_object(wire) or not is_object(schema):
        return None
    output = OutputSchema(OUTPUT_NAME, schema)
    sent = {"type": "json_schema", "schema": sent_schema(output, traits)}
    return output if wire == sent else None


def _tools(wires: object) -> tuple[ToolSpec, ...]:
    if not is_array(wires):
        raise InvalidInput(f'"tools" is a list of objects, not {str(wires)[:60]!r}.')
    return tuple(_tool(wire) for wire in wires)


def _tool(wire: object) -> ToolSpec:
    """Return a tool; its further fields ride along, and one of the server's own does whole."""
    if not is_object(wire):
        raise InvalidInput(f"A tool is a JSON object, not {str(wire)[:60]!r}.")
    name, schema = text_in(wire, "name") or "", wire.get("input_schema")
    if wire.get("type") not in (None, "custom") or not is_object(schema):
        return AnthropicTool(name or str(wire.get("type")), "", {}, {PROTOCOL: wire})
    spec = ToolSpec(name, text_in(wire, "description") or "", schema)
    built = wire_tool(spec)
    extra = {k: v for k, v in wire.items() if v is not None and built.get(k) != v}
    if not extra:
        return spec
    return AnthropicTool(name, spec.description, schema, {PROTOCOL: extra})
