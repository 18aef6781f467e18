"""The setup of a run that is made of steps, which has no model and no tools of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.agent.options import ResumeOptions, RunOptions
from treadle.agent.setup import FlowShape, RunSetup
from treadle.errors import ConfigError
from treadle.limits import Limits
from treadle.models.retry import Retry
from treadle.ports.middleware import NO_HOOKS
from treadle.ports.model import DEFAULT_SETTINGS, ModelReply, ModelRequest, profile_of
from treadle.state.flat import Reducer
from treadle.tools.registry import ToolRegistry

FLOW_LIMITS = Limits(max_turns=None)
"""What a flow may use when nothing is said: its agents have their own limits."""
PASSED = (
    "model",
    "settings",
    "middleware",
    "max_parallel_tools",
    "approval",
    "skills",
    "compaction",
)
"""The options of a flow's run that are laid over all its agents."""
FOR_ONE = ("instructions", "output_type", "planning")
"""The options of a run that a flow refuses: they are for one agent."""


class _NoModel:
    """Stands for the model of a flow, which asks none itself."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Refuse."""
        raise ConfigError(f"A flow asks no model itself, not for {len(request.messages)} messages.")


def flow_setup(
    name: str,
    flow: FlowShape,
    options: RunOptions | ResumeOptions,
    *,
    limits: Limits = FLOW_LIMITS,
    reducers: Mapping[str, Reducer] | None = None,
) -> RunSetup:
    """Return the setup of a run that is made of steps.

    Raises:
        ConfigError: an option that only one agent can take.
    """
    for only in FOR_ONE:
        if options.get(only) is not None:
            raise ConfigError(f"{only}= is for one agent; give it to the agents of {name!r}.")
    own = options.get("limits")
    return RunSetup(
        agent=name,
        model=_NO_MODEL,
        profile=profile_of(_NO_MODEL),
        stream=None,
        instructions=None,
        registry=_NO_TOOLS,
        output=None,
        limits=limits if own is None else own,
        on_limit="answer",
        settings=DEFAULT_SETTINGS,
        hooks=NO_HOOKS,
        retry=_NO_RETRY,
        max_parallel_tools=1,
        flow=flow,
        passes=passed(options),
        reducers=dict(reducers or {}),
    )


def passed(options: RunOptions | ResumeOptions) -> RunOptions:
    """Return the options that are laid over all agents of a flow."""
    found = {option: options.get(option) for option in PASSED}
    given: Any = {option: value for option, value in found.items() if value is not None}
    return given


_NO_MODEL, _NO_TOOLS, _NO_RETRY = _NoModel(), ToolRegistry(()), Retry()
