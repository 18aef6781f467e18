"""Tools for agents that work in the background while the run goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.agent.background import AttachedRuns
from treadle.agent.startable import Startable
from treadle.agent.work import Work
from treadle.errors import ConfigError, ToolError
from treadle.ports.background import DelegateStatus, OnEnd
from treadle.ports.children import Delegate
from treadle.ports.context import RunContext
from treadle.tools.tool import Tool
from treadle.workflows.detached import DetachedRuns

MAX_RUNNING = 5
MAX_STARTED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Agents that may work in the background of a run: who, how many, and what becomes of them."""

    agents: Mapping[str, Delegate]
    max_running: int
    max_started: int
    on_end: OnEnd
    detached: bool

    def open(self, work: Work) -> AttachedRuns | DetachedRuns:
        """Return what runs them for this work.

        Raises:
            ConfigError: they are detached, and there is no store.
        """
        return DetachedRuns(work, self) if self.detached else AttachedRuns(work, self)


def delegates(
    agents: Sequence[Startable[Any, Any]],
    *,
    max_running: int = MAX_RUNNING,
    max_started: int = MAX_STARTED,
    on_end: OnEnd = "cancel",
    detached: bool = False,
) -> list[Tool]:
    """Return tools that let these agents work in the background: start, check, wait, cancel, tell.

    ```python
    from treadle import Agent, delegates
    from treadle.testing import ScriptedModel, calls

    scout = Agent("scout", model=ScriptedModel(["The pass is open."]))
    sends = calls(("c1", "delegate", {"agent": "scout", "task": "Is the pass open?"}))
    waits = calls(("c2", "wait_for_delegate", {"ids": ["scout#1"]}))
    guide = Agent(
        "guide", model=ScriptedModel([sends, waits, "We can go."]), tools=delegates([scout])
    )
    result = guide.run_sync("Can we cross?")
    print(result.output, result.tool_results[1].value[0]["output"])
    #> We can go. The pass is open.
    ```

    The tools are `delegate`, `check_delegate`, `wait_for_delegate`, `cancel_delegate` and
    `message_delegate`. What `delegate` starts is a child run: it is told its task and nothing else,
    writes into the journal of the run, goes on with it after a crash or a pause, and spends its
    budget besides its own. At most `max_running` are at work at once, and `max_started` are
    started in one run. When the run answers, those still at work are cancelled, or waited for with
    `on_end="wait"`; nothing outlives the run.

    With `detached=True` each is a run in a conversation of its own instead, in the store of the
    run, which it outlives: it has its own budget, and waits for approval by itself.

    Raises:
        ConfigError: there is no agent, two have one name, or an option is not of its kind.
    """
    found = _by_name(agents)
    for option, number in (("max_running", max_running), ("max_started", max_started)):
        if type(number) is not int or number < 1:
            raise ConfigError(f"{option}={number!r}: give a number of agents, at least 1.")
    if on_end not in ("cancel", "wait"):
        raise ConfigError(f"on_end={on_end!r} is none of 'cancel', 'wait'.")
    if detached and on_end != "cancel":
        raise ConfigError("detached=True outlives the run, so on_end= says nothing; leave it out.")
    crew = Crew(
        agents=found,
        max_running=max_running,
        max_started=max_started,
        on_end=on_end,
        detached=detached,
    )
    return [make(crew) for make in (_starting, _checking, _waiting, _cancelling, _telling)]


def _by_name(agents: Sequence[Startable[Any, Any]]) -> dict[str, Delegate]:
    """Return who does the work of each agent, by its name."""
    found: dict[str, Delegate] = {}
    for agent in agents:
        if not isinstance(agent, Startable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"delegates([{agent!r:.60}]): give agents, or what is made of them.")
        if agent.name in found:
            raise ConfigError(f"Two delegates are called {agent.name!r}; rename one.")
        found[agent.name] = agent.delegate
    if not found:
        raise ConfigError("delegates([]): give at least one agent.")
    return found


Function = Callable[[RunContext, dict[str, Any]], Awaitable[Any]]
ID = {"type": "string", "minLength": 1, "description": "The ID that delegate gave."}


def _tool(
    crew: Crew,
    name: str,
    description: str,
    properties: dict[str, Any],
    function: Function,
) -> Tool:
    """Return a tool for the agents of a crew."""
    required = [each for each in properties if each not in ("ids", "timeout")]
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    options: dict[str, Any] = {"idempotent": True, "repeatable": True, "delegates": crew}
    return Tool.from_schema(name, description, schema, function, timeout=None, **options)


def _starting(crew: Crew) -> Tool:
    async def delegate(ctx: RunContext, arguments: dict[str, Any]) -> str:
        if not arguments["task"].strip():
            raise ToolError("The task is empty; say what is to be done.")
        return await ctx.background.begin(arguments["agent"], arguments["task"], ctx.call_id)

    return _tool(
        crew,
        "delegate",
        "Let another agent work on a task in the background, while you go on. Returns its ID.",
        {
            "agent": {"type": "string", "enum": list(crew.agents), "description": "Who does it."},
            "task": {
                "type": "string",
                "minLength": 1,
                "description": "What to do, with all that has to be known: nothing else is told.",
            },
        },
        delegate,
    )


def _checking(crew: Crew) -> Tool:
    async def check(ctx: RunContext, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return await _statuses(ctx, _chosen(ctx, arguments))

    return _tool(
        crew,
        "check_delegate",
        "Look how delegates are doing, without waiting: state, times, turns, tokens, and the "
        "output of those that are done.",
        {"ids": _IDS},
        check,
    )


def _waiting(crew: Crew) -> Tool:
    async def wait(ctx: RunContext, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        ids = _chosen(ctx, arguments)
        await ctx.background.wait(ids, arguments.get("timeout"))
        return await _statuses(ctx, ids)

    return _tool(
        crew,
        "wait_for_delegate",
        "Wait until delegates are done, and get their output.",
        {
            "ids": _IDS,
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "How many seconds to wait at most. Without it: as long as it takes.",
            },
        },
        wait,
    )


def _cancelling(crew: Crew) -> Tool:
    async def cancel(ctx: RunContext, arguments: dict[str, Any]) -> dict[str, Any]:
        await ctx.background.cancel(arguments["id"])
        return told(await ctx.background.status(arguments["id"]))

    return _tool(
        crew, "cancel_delegate", "Stop a delegate whose work is not needed.", {"id": ID}, cancel
    )


def _telling(crew: Crew) -> Tool:
    async def tell(ctx: RunContext, arguments: dict[str, Any]) -> str:
        id, text = arguments["id"], arguments["text"]
        if not text.strip():
            raise ToolError("The text is empty; say something.")
        await ctx.background.send(id, text, ctx.call_id)
        return f"{id} hears it before its next step."

    return _tool(
        crew,
        "message_delegate",
        "Say something to a delegate while it works.",
        {"id": ID, "text": {"type": "string", "minLength": 1, "description": "What to say."}},
        tell,
    )


_IDS = {
    "type": "array",
    "items": {"type": "string"},
    "description": "The IDs that delegate gave. Without them: all.",
}


def _chosen(ctx: RunContext, arguments: dict[str, Any]) -> Sequence[str]:
    """Return the IDs that a call names, each once; all where it names none."""
    ids = tuple(dict.fromkeys(arguments.get("ids") or ctx.background.ids))
    if not ids:
        raise ToolError("No delegate was started in this run.")
    return ids


async def _statuses(ctx: RunContext, ids: Sequence[str]) -> list[dict[str, Any]]:
    return [told(await ctx.background.status(id)) for id in ids]


def told(status: DelegateStatus) -> dict[str, Any]:
    """Return what a model is told of a delegate."""
    usage = status.usage
    found: dict[str, Any] = {
        "id": status.id,
        "agent": status.agent,
        "state": status.state,
        "started_at": status.started_at.isoformat(timespec="seconds"),
        "seconds": round(status.seconds, 1),
        "turns": status.turns,
        "tool_calls": usage.tool_calls,
        "tokens": {
            "input": usage.input_tokens,
            "cached": usage.cache_read_tokens,
            "output": usage.output_tokens,
        },
    }
    if status.conversation_id:
        found["conversation"] = status.conversation_id
    if status.state == "done":
        found["output"] = status.output
    elif status.is_over:
        found["error"] = status.error
    elif status.state == "waiting":
        found["reason"] = status.reason
    return found
