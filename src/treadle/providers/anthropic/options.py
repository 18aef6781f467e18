"""Our settings as the fields of a Messages request."""

from __future__ import annotations

from typing import assert_never

from treadle.errors import ConfigError
from treadle.ports.model import Effort, ModelSettings, OutputSchema
from treadle.providers._json import encode
from treadle.providers.anthropic.blocks import Wire
from treadle.providers.anthropic.claude import Claude
from treadle.providers.anthropic.schema import NotNative, native_schema

MAX_TOKENS = 32_000
"""How long a reply may be when nobody says so; what the model thinks counts, too."""
LONG_MAX_TOKENS = 64_000
"""The same when it is asked to think much."""
LEAST_BUDGET = 1024
_UNKNOWN_MAX_TOKENS = 8192
_BUDGETS: dict[Effort, int] = {
    "none": 0,
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
}


def wire_options(
    settings: ModelSettings,
    model: Claude,
    *,
    output: OutputSchema | None = None,
    has_tools: bool = False,
    stream: bool = False,
) -> Wire:
    """Return every field beside the model, the prompt and the tools; what is not set is left out.

    So is what the model has no field for: seed and penalties, and where it thinks or refuses them,
    temperature and top_p.

    Raises:
        ConfigError: a setting that the model refuses and that cannot be left out.
    """
    wire: Wire = {"max_tokens": max_tokens(settings, model)}
    if settings.reasoning_effort is not None:
        wire |= _effort(settings.reasoning_effort, settings, model, wire["max_tokens"])
    _add_sampling(wire, settings, model)
    if settings.stop is not None:
        if any(not text.strip() for text in settings.stop):
            raise ConfigError(
                f"ModelSettings(stop={settings.stop!r}): Anthropic refuses stop texts of nothing "
                "but white space."
            )
        wire["stop_sequences"] = list(settings.stop)
    if has_tools:
        wire |= _tool_choice(settings, model)
    if output is not None and (schema := sent_schema(output, model)) is not None:
        formatted = {"format": {"type": "json_schema", "schema": schema}}
        wire["output_config"] = {**wire.get("output_config", {}), **formatted}
    if stream:
        wire["stream"] = True
    return wire


def max_tokens(settings: ModelSettings, model: Claude) -> int:
    """Return how many tokens a reply may have: the server wants to be told."""
    if settings.max_output_tokens is not None:
        return settings.max_output_tokens
    if model.max_output is None:
        return _UNKNOWN_MAX_TOKENS
    wanted = LONG_MAX_TOKENS if settings.reasoning_effort == "xhigh" else MAX_TOKENS
    return min(wanted, model.max_output)


def sent_schema(output: OutputSchema, model: Claude) -> Wire | None:
    """Return the schema that the server holds a reply to, None where it cannot."""
    if not model.native_output:
        return None
    try:
        return native_schema(output.schema)
    except NotNative:
        return None


def asked_in_words(output: OutputSchema) -> str:
    """Return what a model is told of a schema that the server cannot hold it to."""
    return (
        "Answer with nothing but one JSON value that satisfies this JSON Schema:\n"
        f"{encode(output.schema).decode()}"
    )


def _effort(effort: Effort, settings: ModelSettings, model: Claude, most: int) -> Wire:
    """Return how much the model is to think, in the way it is told."""
    if effort == "none":
        return _unthinking(model)
    wire: Wire = {}
    if model.efforts:
        wire["output_config"] = {"effort": _level(effort, model.efforts)}
    match model.thinking:
        case "adaptive":
            shown = {"display": "summarized"} if model.summarizes else {}
            wire["thinking"] = {"type": "adaptive", **shown}
        case "budget":
            budget = min(_BUDGETS[effort], most * 3 // 4)
            if budget >= LEAST_BUDGET and not _forces(settings):
                wire["thinking"] = {"type": "enabled", "budget_tokens": budget}
        case "none":
            pass
        case _:
            assert_never(model.thinking)
    return wire


def _unthinking(model: Claude) -> Wire:
    match model.unthinking:
        case "omit":
            return {}
        case "disabled" | "between_tools":
            return {"thinking": {"type": model.unthinking}}
        case "never":  # as little as it can
            return {"output_config": {"effort": "low"}}
        case _:
            assert_never(model.unthinking)


def _level(effort: Effort, levels: tuple[str, ...]) -> str:
    if effort in levels:
        return effort
    return levels[0] if effort == "minimal" else levels[-1]


def _add_sampling(wire: Wire, settings: ModelSettings, model: Claude) -> None:
    thinks = "thinking" in wire and wire["thinking"]["type"] in ("enabled", "adaptive")
    if not model.samples or (thinks and not model.cool_thinking):
        return
    if settings.temperature is not None:
        wire["temperature"] = settings.temperature
    if settings.top_p is not None and not (model.one_sampler and "temperature" in wire):
        wire["top_p"] = settings.top_p


def _forces(settings: ModelSettings) -> bool:
    return settings.tool_choice not in (None, "auto", "none")


def _tool_choice(settings: ModelSettings, model: Claude) -> Wire:
    choice, alone = settings.tool_choice, settings.parallel_tool_calls is False
    if _forces(settings) and not model.forces_tools:
        raise ConfigError(
            f"ModelSettings(tool_choice={choice!r}): this model cannot be made to call a tool; "
            'use "auto" and say so in the instructions, or ask for a typed output.'
        )
    if choice is None:
        wire: Wire = {"type": "auto"} if alone else {}
    elif choice == "required":
        wire = {"type": "any"}
    elif choice in ("auto", "none"):
        wire = {"type": choice}
    else:
        wire = {"type": "tool", "name": choice}
    if alone and choice != "none":
        wire["disable_parallel_tool_use"] = True
    return {"tool_choice": wire} if wire else {}
