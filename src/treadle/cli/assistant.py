"""The built-in assistant: what answers when no agent is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from treadle.agent.agent import Agent
from treadle.cli.calculator import calculate
from treadle.cli.printing import call_in_full
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError, ToolError
from treadle.messages import ToolCall
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.context import RunContext
from treadle.ports.middleware import Middleware
from treadle.sandboxes import Sandbox
from treadle.tools.builtin import bash_tool, edit_tool, list_tool, read_tool, write_tool
from treadle.tools.names import likely
from treadle.tools.tool import Tool, tool

INSTRUCTIONS = (
    "You are a helpful assistant in a terminal. "
    "Use the tools for arithmetic, for the time and for files; answer in a few plain sentences."
)
MOST_READ = 8000  # bytes of a file at once: small models have small windows

Ask = Callable[[str], Awaitable[bool]]


class AskFirst(Middleware):
    """Lets some tools run only after somebody has said yes to this very call."""

    def __init__(self, names: frozenset[str], ask: Ask) -> None:
        self._names = names
        self._ask = ask

    async def before_tool(
        self,
        ctx: RunContext,  # noqa: ARG002 the hook's signature
        call: ToolCall,
        arguments: dict[str, Any],
    ) -> None:
        """Ask; on a no, the model is told so."""
        if call.name not in self._names:
            return
        await asyncio.sleep(0)  # whoever prints the run's events goes first
        if not await self._ask(f"{call_in_full(call.name, arguments)}\nRun this?"):
            raise ToolError(f"The user said no to this call of {call.name!r}; it did not run.")


def assistant(terminal: Terminal, *, workspace: str = ".") -> Agent:
    """Return the assistant, without a model.

    It calculates, tells the time and reads files of the workspace. It also writes, edits and runs
    commands where there is a terminal, each call only after a yes on it; commands run in a sandbox
    where one works.
    """
    harmless = [
        calculator_tool(),
        clock_tool(),
        list_tool(workspace),
        read_tool(workspace).replace(max_output=MOST_READ),
    ]
    if not terminal.can_ask:
        return Agent("assistant", instructions=INSTRUCTIONS, tools=harmless)
    sandbox = _sandbox()
    asked = [write_tool(workspace), edit_tool(workspace), bash_tool(workspace, sandbox=sandbox)]
    names = frozenset(each.name for each in asked)
    return Agent(
        "assistant",
        instructions=INSTRUCTIONS,
        tools=[*harmless, *asked],
        middleware=[AskFirst(names, terminal.confirm)],
    )


def _sandbox() -> Sandbox | None:
    """Return a sandbox, or None where none works."""
    sandbox = Sandbox()
    try:
        sandbox.check()
    except ConfigError:
        return None
    return sandbox


def calculator_tool() -> Tool:
    """Return the tool `calculator`."""

    def calculator(expression: str) -> str:
        """Calculate an arithmetic expression.

        Args:
            expression: For example "23 * 17", "2 ** 10" or "sqrt(2)".
        """
        return calculate(expression)

    return tool(parallel=True)(calculator)


def clock_tool(clock: Clock = SYSTEM_CLOCK) -> Tool:
    """Return the tool `clock`."""

    def time_of_day(zone: str | None = None) -> str:
        """Tell the current date and time.

        Args:
            zone: Time zone like "Europe/Paris"; the local one when left out.
        """
        now = clock.now()
        local = now.astimezone() if not zone else now.astimezone(_zone(zone))
        return _told(local)

    return tool(name="clock", parallel=True)(time_of_day)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = likely(name, available_timezones())
        hint = f" Did you mean {near!r}?" if near is not None else ""
        raise ToolError(
            f"There is no time zone {name!r} here; write it like 'Europe/Paris'.{hint}"
        ) from None


def _told(now: datetime) -> str:
    return f"{now:%A, %Y-%m-%d %H:%M:%S} {now.tzname()} (UTC{now:%z})"
