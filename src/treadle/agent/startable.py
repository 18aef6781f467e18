"""What can be started: the same few ways for an agent and for whatever is made of agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from treadle.agent.blocking import run_blocking
from treadle.agent.children import told
from treadle.agent.conduct import conduct
from treadle.agent.options import ResumeOptions, RunOptions
from treadle.agent.result import OutputT, ResultT
from treadle.agent.run import Run
from treadle.agent.setup import AgentDelegate, Input, RunSetup, begin_run, resume_run
from treadle.agent.work import Work
from treadle.events import AnyEvent
from treadle.ports.store import Store
from treadle.tools.tool import DEFAULT_OUTPUT, Approval, OnError, Tool

KindT = TypeVar("KindT", bound=type)
ASKED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "minLength": 1,
            "description": "What to ask, with all that has to be known: nothing else is told.",
        }
    },
    "required": ["input"],
    "additionalProperties": False,
}
"""What a model gives to an agent that is a tool."""


def subscriptable(kind: KindT) -> KindT:
    """Let a frozen dataclass with slots be made as `Kind[X](...)`.

    Python tries to note the `X` in the object, and takes an `AttributeError` for a no; but what it
    puts into these classes fails with another one: https://github.com/python/cpython/issues/105936.
    """

    def refuse(self: object, name: str, value: object) -> None:  # noqa: ARG001
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    kind.__setattr__ = refuse  # pyright: ignore[reportAttributeAccessIssue] it is a method there
    return kind


class Startable(Generic[OutputT, ResultT]):
    """Whatever answers an input in a run of its own: its `name`, its `store`, and how it is run.

    `description` is what models are told of it, where it has one.
    """

    __slots__ = ()
    description = ""

    if TYPE_CHECKING:
        name: str
        store: Store | None

    def _setup(self, options: RunOptions | ResumeOptions) -> RunSetup:
        """Resolve it, with this run's options laid over it."""
        raise NotImplementedError

    def _check_deps(self, deps: object) -> None:
        """Refuse what it cannot take as `deps=`."""

    def _begin(self, input: Input | None, options: RunOptions) -> Work:
        """Return the work of a run that begins."""
        start, _ = begin_run(input, options, self.store)
        if start.deps is not None:
            self._check_deps(start.deps)
        return Work(self._setup(options), start)

    @property
    def delegate(self) -> AgentDelegate:
        """What runs it inside another run."""
        return AgentDelegate(name=self.name, resolve=self._setup, check_deps=self._check_deps)

    def start(
        self, input: Input | None = None, **options: Unpack[RunOptions]
    ) -> Run[OutputT, ResultT]:
        """Start a run and return its handle at once. See `RunOptions` for the options.

        Raises:
            NoModel: the agent has no model and none is given.
            ConfigError: the agent or an option cannot work.
            InvalidInput: there is nothing to say, or options contradict.
        """
        return Run(self._begin(input, options))

    async def run(self, input: Input | None = None, **options: Unpack[RunOptions]) -> ResultT:
        """Run to the end and return the result; cancelling this cancels the run.

        Raises:
            TreadleError: what ended a failed run; its `.result` has what there is.
        """
        return await conduct(self._begin(input, options))

    def run_sync(self, input: Input | None = None, **options: Unpack[RunOptions]) -> ResultT:
        """Run from sync code, also inside a notebook or another running event loop."""
        return run_blocking(self.run(input, **options))

    async def stream(
        self, input: Input | None = None, **options: Unpack[RunOptions]
    ) -> AsyncGenerator[AnyEvent]:
        """Start a run and yield its events; leaving early cancels it, a failed one raises."""
        run = self.start(input, **options)
        try:
            async for event in run:
                yield event
            await run.finish()
        finally:
            if not run.done:
                await run.cancel("The reader left.")

    def resume(self, run_id: str, **options: Unpack[ResumeOptions]) -> Run[OutputT, ResultT]:
        """Go on with a run that paused, failed, was cancelled, or whose process died.

        No model call and no tool call that finished is repeated; counters, spend, deadline and
        state go on. Returns the handle at once, like `start`; awaiting a run that had answered
        already gives its result again. See `ResumeOptions` for the options.

        Awaiting raises, beside what a run raises:
            RunNotFound: the store has no such run.
            RunSuperseded: another run has begun in its conversation since.
            DefinitionChanged: the agent is not what it was, and `on_change` is "refuse".
            InvalidInput: a decision cannot be; the calls go on waiting.
            ConversationBusy: the run is at work elsewhere, with `if_busy="raise"`.
        """
        start = resume_run(run_id, options, self.store)
        return Run(Work(self._setup(options), start))

    def resume_sync(self, run_id: str, **options: Unpack[ResumeOptions]) -> ResultT:
        """Resume from sync code, like `run_sync`; see `resume`."""
        start = resume_run(run_id, options, self.store)
        return run_blocking(conduct(Work(self._setup(options), start)))

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        approval: Approval = False,
        on_error: OnError = "report",
        parallel: bool = True,
        max_output: int = DEFAULT_OUTPUT,
    ) -> Tool:
        """Return a tool that asks this agent: each call is a child run, and waits for its end.

        ```python
        from treadle import Agent
        from treadle.testing import ScriptedModel, calls

        poet = Agent("poet", model=ScriptedModel(["Roses are red."]))
        asking = calls(("c1", "ask_poet", {"input": "A line about roses."}))
        editor = Agent(
            "editor",
            model=ScriptedModel([asking, "It begins: Roses are red."]),
            tools=[poet.as_tool("ask_poet")],
        )
        print(editor.run_sync("A poem, please.").output)
        #> It begins: Roses are red.
        ```

        The agent sees nothing but the `input` of the call. It gets the `deps` and the state of the
        run, writes into its journal, and spends its budget besides its own; it has its own model,
        tools, middleware and limits. The options are those of `Tool`.
        """
        told = self.description or f"Ask {self.name!r}, another agent; it answers when it is done."
        return Tool.from_schema(
            self.name if name is None else name,
            told if description is None else description,
            ASKED,
            self._ask,
            timeout=None,
            approval=approval,
            on_error=on_error,
            parallel=parallel,
            max_output=max_output,
            delegate=self.delegate,
        )

    async def _ask(self, arguments: dict[str, Any]) -> Any:
        """Answer by a run of its own, where there is none to be in."""
        result = await self.run(arguments["input"])
        return told(self.name, result.stop_reason, result.output, result.reason)
