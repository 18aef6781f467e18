"""Our tools, settings and output schemas as fields of a Responses request."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.errors import ConfigError
from treadle.messages import Opaque
from treadle.ports.model import ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import object_schema
from treadle.providers.openai.chat_wire import Wire, is_strict
from treadle.providers.openai.prompt_cache import wire_cache
from treadle.providers.openai.responses_dialect import PROTOCOL, ResponsesDialect
from treadle.values import is_array, is_object

_ENCRYPTED = "reasoning.encrypted_content"


class ResponsesTool(ToolSpec, frozen=True):
    """A tool with fields of this protocol's own: `strict`, or a tool that is no function.

    `provider` is as on parts: what has a ``"type"`` is sent as it stands, other fields are added.
    """

    provider: Opaque | None = None


def wire_tools(tools: Iterable[ToolSpec]) -> list[Wire]:
    """Return the tools as they are offered."""
    return [_tool(tool) for tool in tools]


def wire_settings(
    settings: ModelSettings,
    dialect: ResponsesDialect,
    *,
    output: OutputSchema | None = None,
    tools: list[Wire] | None = None,
    stream: bool = False,
) -> Wire:
    """Return every other field of a request; what is not set is left out.

    There is no field for a seed and none for penalties. Objects in `extra_body` are merged into
    what is set, and what it includes is added.

    Raises:
        ConfigError: stop sequences are set, which this protocol does not have.
    """
    if settings.stop:
        raise ConfigError(
            f"stop={settings.stop!r}: the Responses API has no stop sequences; leave them out or "
            "ask the same model over Chat Completions, OpenAI(...)."
        )
    effort, schema = settings.reasoning_effort, wire_output(output) if output else None
    wire: Wire = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_output_tokens,
        "reasoning": {"effort": effort} if effort else None,
        "text": {"format": schema} if schema else None,
        "include": [_ENCRYPTED] if dialect.encrypted_reasoning else None,
        "store": dialect.store,
        **wire_cache(settings.prompt_cache, dialect.cache_life),
    }
    if tools:
        wire["tool_choice"] = _tool_choice(settings.tool_choice, tools)
        wire["parallel_tool_calls"] = settings.parallel_tool_calls
    wire = {name: value for name, value in wire.items() if value is not None}
    if stream:
        wire["stream"] = True
    for name, value in (settings.extra_body or {}).items():
        if name != "stream":
            wire[name] = _merged(wire.get(name), value)
    return wire


def wire_output(output: OutputSchema) -> Wire:
    """Return the response format; strict where the schema is in the subset that allows it."""
    strict = output.schema.get("type") == "object" and is_strict(output.schema)
    return {
        "type": "json_schema",
        "name": output.name,
        "schema": output.schema,
        "strict": strict,
    }


def _tool(tool: ToolSpec) -> Wire:
    kept: Wire = {}
    if isinstance(tool, ResponsesTool) and tool.provider:
        kept = dict(tool.provider.get(PROTOCOL) or {})
    if "type" in kept:
        return kept
    schema, words = object_schema(tool.parameters)
    wire: Wire = {"type": "function", "name": tool.name, "parameters": schema}
    description = "\n\n".join(text for text in (tool.description, words) if text)
    if description:
        wire["description"] = description
    # Left out, `strict` means that the server rewrites the schema so that it is.
    wire = {**wire, "strict": False, **kept}
    return {name: value for name, value in wire.items() if value is not None}


def _tool_choice(choice: str | None, tools: list[Wire]) -> str | Wire | None:
    """Return the choice; a tool is named in the way of its kind."""
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    for tool in tools:
        kind, named = tool.get("type"), tool.get("name") == choice
        if named and kind == "custom":
            return {"type": "custom", "name": choice}
        if kind == "mcp" and tool.get("server_label") == choice:
            return {"type": "mcp", "server_label": choice}
        if kind == choice and not tool.get("name"):
            return {"type": choice}
    return {"type": "function", "name": choice}


def _merged(known: object, extra: object) -> object:
    if is_object(known) and is_object(extra):
        return {**known, **extra}
    if is_array(known) and is_array(extra):
        return [*known, *(item for item in extra if item not in known)]
    return extra
