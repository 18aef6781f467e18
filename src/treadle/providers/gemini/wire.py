"""Our tools and settings as fields of a Gemini request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treadle.errors import ConfigError
from treadle.messages import Opaque
from treadle.ports.model import Effort, ModelSettings, OutputSchema, ToolSpec
from treadle.providers._json import object_schema
from treadle.providers._tools import parted, with_added
from treadle.providers.gemini.dialect import PROTOCOL, THIRD, GeminiDialect, Wire
from treadle.providers.gemini.pieces import NAME
from treadle.providers.gemini.schema import gemini_schema
from treadle.values import is_object

FUNCTIONS = "functionDeclarations"
_MERGED = ("generationConfig", "toolConfig")
"""Objects of a request in which `extra_body` sets single fields."""
_BUDGETS: dict[Effort, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 24576,
}
_LEVELS: dict[Effort, str] = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
}
_LEAST_OF_PRO = 128
_MOST_OF_PRO = 32768


class GeminiTool(ToolSpec, frozen=True):
    """A tool with fields of this protocol's own, or one that Gemini itself runs.

    `provider` is as on parts, an object of the request's `tools`:
    ``{"gemini": {"googleSearch": {}}}``.
    """

    provider: Opaque | None = None


def wire_tools(tools: Iterable[ToolSpec]) -> list[Wire]:
    """Return the tools as they are offered; all functions are together.

    Raises:
        ConfigError: the API takes no function of that name.
    """
    functions: list[Any] = []
    wires: list[Wire] = []
    for tool in tools:
        kept: Wire = {}
        if isinstance(tool, GeminiTool) and tool.provider:
            kept = dict(tool.provider.get(PROTOCOL) or {})
        declared = kept.pop(FUNCTIONS, None)
        if kept:
            wires.append(kept)
        if not kept or declared is not None:
            if not functions:
                wires.append({FUNCTIONS: functions})
            functions += [_function(tool)] if declared is None else declared
    return wires


def wire_function(tool: ToolSpec) -> Wire:
    """Return the declaration of a function."""
    wire: Wire = {"name": tool.name}
    schema, words = object_schema(tool.parameters) if tool.parameters else ({}, "")
    description = "\n\n".join(text for text in (tool.description, words) if text)
    if description:
        wire["description"] = description
    if schema:
        wire["parametersJsonSchema"] = gemini_schema(schema)
    return wire


def wire_settings(
    settings: ModelSettings,
    dialect: GeminiDialect,
    *,
    output: OutputSchema | None = None,
    tools: tuple[ToolSpec, ...] = (),
    hosted: Iterable[Wire] = (),
) -> Wire:
    """Return every field of a request but the contents; what is not set is left out.

    Tools in `extra_body` are added to those that are offered.

    Raises:
        ConfigError: a tool's name is not taken, or the settings ask for what cannot be had.
    """
    wire: Wire = {}
    extra, replaced, added = parted(settings.extra_body or {}, ("tools",))
    offered = with_added([*wire_tools(tools), *hosted], added)
    if offered:
        wire["tools"] = offered
    calls = replaced.get("tools") != [] and any(FUNCTIONS in each for each in offered)
    if calls and (calling := _calling(settings)):
        wire["toolConfig"] = {"functionCallingConfig": calling}
    generation = _generation(settings, dialect, output)
    if generation:
        wire["generationConfig"] = generation
    for name, value in {**extra, **replaced}.items():
        if name in _MERGED and is_object(value) and is_object(wire.get(name)):
            wire[name] = {**wire[name], **value}
        else:
            wire[name] = value
    return wire


def wire_output(output: OutputSchema) -> Wire:
    """Return the fields that ask for JSON of a schema."""
    return {
        "responseMimeType": "application/json",
        "responseJsonSchema": gemini_schema(output.schema),
    }


def _function(tool: ToolSpec) -> Wire:
    if not NAME.fullmatch(tool.name):
        raise ConfigError(
            f"Gemini takes no tool called {tool.name!r}: a name begins with a letter or _, has "
            "letters, digits, _ . - and at most 64 of them. Rename the tool."
        )
    return wire_function(tool)


def _calling(settings: ModelSettings) -> Wire | None:
    if settings.parallel_tool_calls is False:
        raise ConfigError(
            "Gemini cannot be told to make one call at a time; leave parallel_tool_calls=False "
            "out, and give the agent what makes order matter in its instructions."
        )
    choice = settings.tool_choice
    if choice is None:
        return None
    modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
    if choice in modes:
        return {"mode": modes[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _generation(
    settings: ModelSettings, dialect: GeminiDialect, output: OutputSchema | None
) -> Wire:
    wire: Wire = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "maxOutputTokens": settings.max_output_tokens,
        "stopSequences": settings.stop or None,
        "seed": settings.seed,
        "presencePenalty": settings.presence_penalty,
        "frequencyPenalty": settings.frequency_penalty,
        "thinkingConfig": _thinking(settings.reasoning_effort, dialect),
        **(wire_output(output) if output else {}),
    }
    return {name: value for name, value in wire.items() if value is not None}


def _thinking(effort: Effort | None, dialect: GeminiDialect) -> Wire | None:
    """Return how much is thought: a level, or a budget of tokens; older models do not think.

    The larger models, and all of the third generation, always do: their least stands for "none".
    """
    if effort is None or dialect.generation < 2.5:
        return None
    shown = {} if effort == "none" else {"includeThoughts": True}
    if dialect.generation < THIRD:
        least = _LEAST_OF_PRO if dialect.pro else 0
        budget = _MOST_OF_PRO if dialect.pro and effort == "xhigh" else _BUDGETS.get(effort, least)
        return {"thinkingBudget": budget, **shown}
    level = _LEVELS[effort]
    if dialect.pro and level == "MINIMAL":
        level = "LOW"
    if dialect.pro and level == "MEDIUM" and dialect.generation == THIRD:
        level = "HIGH"  # the first of them knows two levels
    return {"thinkingLevel": level, **shown}
