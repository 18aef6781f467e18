"""Run the calls of one reply: each gets exactly one result, whatever happens."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from treadle.control import Control, Interrupt, Next
from treadle.errors import NotStorable, ToolAbort, ToolError
from treadle.events import Stage, ToolFinished, ToolRequested, ToolStarted
from treadle.ids import new_span_id
from treadle.messages import ToolCall, ToolResult
from treadle.ports.context import RunContext, RunFacts
from treadle.ports.middleware import NO_HOOKS, Hooks
from treadle.ports.observer import Watch
from treadle.state.scoped import WriteGuard
from treadle.tools.outcome import ToolOutcome, control_of, error_result, result_of
from treadle.tools.registry import ToolRegistry
from treadle.tools.signature import ArgumentsInvalid, parse_arguments
from treadle.tools.threads import THREADS
from treadle.tools.tool import Tool

MOST_LINKS = 10


class CallJournal(Protocol):
    """Where outcomes are written as they happen."""

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write one outcome, and in the same write the IDs of the calls that begin now."""
        ...


class CallFailed(Exception):
    """A call has no value; carries the text for the model and where it arose."""

    def __init__(self, text: str, stage: Stage, fatal: Exception | None = None) -> None:
        super().__init__(text)
        self.stage: Stage = stage
        self.fatal = fatal


class CallExpired(Exception):
    """A call took longer than its tool's timeout."""


class ToolRunner:
    """Runs batches of calls for one run."""

    __slots__ = ("_facts", "_hooks", "_journal", "_max_parallel", "_parent_span", "_watch", "registry")

    def __init__(
        self,
        registry: ToolRegistry,
        facts: RunFacts,
        watch: Watch,
        *,
        parent_span: str,
        hooks: Hooks = NO_HOOKS,
        journal: CallJournal | None = None,
        max_parallel: int = 3,
    ) -> None:
        self.registry = registry
        self._facts = facts
        self._watch = watch
        self._parent_span = parent_span
        self._hooks = hooks
        self._journal = journal
        self._max_parallel = max_parallel

    def batch(self, calls: Sequence[ToolCall]) -> Batch:
        """Plan these calls; the plan tells which begin at once."""
        guard = WriteGuard() if len(calls) > 1 else None
        return Batch(self, calls, self._max_parallel, guard)

    def runs_beside_others(self, call: ToolCall) -> bool:
        """Whether the call may overlap others; calls that cannot run at all may."""
        found = self.registry.get(call.name)
        return found is None or found.runs_beside_others

    async def record(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome to the journal, when there is one."""
        if self._journal is not None:
            await self._journal.call_ended(outcome, begun)

    def refuse(self, call: ToolCall, text: str, stage: Stage) -> ToolOutcome:
        """Answer a call without running it."""
        outcome = ToolOutcome(call=call, result=error_result(call, text), stage=stage)
        self._tell_finished(outcome, new_span_id(), 0.0)
        return outcome

    async def run_one(self, call: ToolCall, guard: WriteGuard | None) -> ToolOutcome:
        """Run one call and, after it, the chain that it asks for."""
        links: list[ToolResult] = []
        first = call
        ctx = RunContext(self._facts, call_id=call.id, tool=call.name, guard=guard)
        while True:
            outcome = await self._run_link(first, call, ctx)
            control = outcome.control
            if not isinstance(control, Next):
                break
            if len(links) + 1 >= MOST_LINKS:
                text = f"The chain of tools was stopped after {MOST_LINKS} links."
                outcome = ToolOutcome(call=first, result=error_result(first, text), stage="execution")
                break
            links.append(outcome.result)
            call = ToolCall.of(control.tool, control.arguments, id=first.id)
        return ToolOutcome(
            call=first,
            result=outcome.result,
            control=None if isinstance(outcome.control, Next) else outcome.control,
            usage=ctx.added_usage,
            writes=ctx.writes,
            links=tuple(links),
            stage=outcome.stage,
            fatal=outcome.fatal,
        )

    async def _run_link(self, first: ToolCall, call: ToolCall, ctx: RunContext) -> ToolOutcome:
        span = new_span_id() if self._watch.live else ""
        started = time.perf_counter()
        ctx.tool = call.name
        try:
            outcome = await self._attempt(first, call, ctx, span)
        except CallFailed as failure:
            outcome = ToolOutcome(
                call=first,
                result=error_result(first, str(failure)),
                stage=failure.stage,
                fatal=failure.fatal,
            )
        except asyncio.CancelledError:
            ctx.cancelled = True
            cancelled = ToolOutcome(
                call=first, result=error_result(first, "The call was cancelled."), stage="cancelled"
            )
            self._tell_finished(cancelled, span, time.perf_counter() - started)
            raise
        self._tell_finished(outcome, span, time.perf_counter() - started)
        return outcome

    async def _attempt(self, first: ToolCall, call: ToolCall, ctx: RunContext, span: str) -> ToolOutcome:
        tool, arguments = self._prepare(call, span)
        answer = await self._before(ctx, call, arguments) if self._hooks.before_tool else arguments
        if isinstance(answer, ToolResult):
            return ToolOutcome(call=first, result=answer)
        try:
            keywords = tool.decoder.decode(answer)
        except ArgumentsInvalid as error:
            raise CallFailed(str(error), "arguments") from None
        value = await self._call(tool, call, ctx, answer, keywords, span)
        result = _as_result(first, value, tool)
        for after_tool in self._hooks.after_tool:
            try:
                result = await after_tool(ctx, call, result) or result
            except ToolError as error:
                raise CallFailed(str(error), "execution") from None
        return ToolOutcome(call=first, result=result, control=_control(tool, value))

    def _prepare(self, call: ToolCall, span: str) -> tuple[Tool, dict[str, Any]]:
        found = self.registry.get(call.name)
        if found is None:
            raise CallFailed(self.registry.unknown(call.name), "lookup")
        try:
            arguments = parse_arguments(call.raw)
        except ArgumentsInvalid as error:
            raise CallFailed(f"Tool {call.name!r} did not run: {error}", "arguments") from None
        if self._watch.live:
            self._watch.emit(ToolRequested, span, self._parent_span, call.id, call.name, arguments)
        return found, arguments

    async def _before(
        self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
    ) -> dict[str, Any] | ToolResult:
        for before_tool in self._hooks.before_tool:
            try:
                answer = await before_tool(ctx, call, arguments)
            except ToolError as error:
                raise CallFailed(str(error), "execution") from None
            if isinstance(answer, ToolResult):
                return answer
            arguments = arguments if answer is None else answer
        return arguments

    async def _call(
        self,
        tool: Tool,
        call: ToolCall,
        ctx: RunContext,
        arguments: dict[str, Any],
        keywords: dict[str, Any],
        span: str,
    ) -> object:
        """Call the function, again after an exception while `retries` allows."""
        for attempt in range(1, tool.retries + 2):
            ctx.attempt = attempt
            if self._watch.live:
                shown = dict(arguments)
                self._watch.emit(ToolStarted, span, self._parent_span, call.id, call.name, shown, attempt)
            try:
                return await _invoke(tool, ctx, keywords)
            except ToolAbort as error:
                raise CallFailed(str(error), "execution", error) from error
            except ToolError as error:
                raise CallFailed(str(error), "execution", _fatal(tool, error)) from error
            except CallExpired as error:
                text = f"Tool {call.name!r} timed out after {tool.timeout:g} s."
                failure = CallFailed(text, "timeout", _fatal(tool, error))
            except SystemExit as error:  # a tool must not end the process
                raise CallFailed(f"Tool {call.name!r} tried to exit: {error!r}", "execution") from error
            except Exception as error:  # noqa: BLE001 the border: a tool may raise anything
                text = f"Tool {call.name!r} failed: {type(error).__name__}: {error}"
                failure = CallFailed(text, "execution", _fatal(tool, error))
        raise failure

    def _tell_finished(self, outcome: ToolOutcome, span: str, seconds: float) -> None:
        if self._watch.live:
            call, result = outcome.call, outcome.result
            self._watch.emit(
                ToolFinished, span, self._parent_span, call.id, call.name, result, seconds, outcome.stage
            )


class Batch:
    """The calls of one reply on their way. `outcomes` is in the order of the calls."""

    __slots__ = ("_calls", "_guard", "_max_parallel", "_runner", "_running", "_waiting", "first", "outcomes")

    def __init__(
        self, runner: ToolRunner, calls: Sequence[ToolCall], max_parallel: int, guard: WriteGuard | None
    ) -> None:
        self._runner = runner
        self._calls = calls
        self._max_parallel = max_parallel
        self._guard = guard
        self._waiting = deque(range(len(calls)))
        self._running: dict[int, bool] = {}
        self.outcomes: list[ToolOutcome | None] = [None] * len(calls)
        self.first = self._take()

    @property
    def begun(self) -> tuple[str, ...]:
        """The IDs of the calls that begin at once."""
        return tuple(self._calls[index].id for index in self.first)

    @property
    def unfinished(self) -> list[ToolCall]:
        """The calls without an outcome."""
        return [call for call, outcome in zip(self._calls, self.outcomes, strict=True) if outcome is None]

    async def run(self) -> list[ToolOutcome]:
        """Run the calls and return their outcomes. A fatal one ends the batch: see `unfinished`."""
        ready = self.first
        while len(ready) == 1:  # alone: no task needed
            ready = await self._run_index(ready[0])
        if ready:
            await self._run_together(ready)
        return [outcome for outcome in self.outcomes if outcome is not None]

    async def _run_together(self, ready: list[int]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                tasks: set[asyncio.Task[None]] = set()

                async def follow(index: int) -> None:
                    for following in await self._run_index(index):
                        tasks.add(group.create_task(follow(following)))
                    if self._is_fatal(index):
                        for other in tasks - {asyncio.current_task()}:
                            other.cancel()

                tasks.update(group.create_task(follow(index)) for index in ready)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures  # the first is why the others were cancelled

    async def _run_index(self, index: int) -> list[int]:
        """Run one call, write its outcome, and return the calls that begin now."""
        outcome = await self._runner.run_one(self._calls[index], self._guard)
        self.outcomes[index] = outcome
        del self._running[index]
        if outcome.fatal is not None:
            self._waiting.clear()
        following = self._take()
        await self._runner.record(outcome, [self._calls[i].id for i in following])
        return following

    def _take(self) -> list[int]:
        """Return the waiting calls that may begin: a serial call only runs alone."""
        taken: list[int] = []
        while self._waiting and len(self._running) < self._max_parallel:
            index = self._waiting[0]
            beside = self._runner.runs_beside_others(self._calls[index])
            if self._running and not (beside and all(self._running.values())):
                break
            self._running[index] = beside
            taken.append(self._waiting.popleft())
        return taken

    def _is_fatal(self, index: int) -> bool:
        outcome = self.outcomes[index]
        return outcome is not None and outcome.fatal is not None


async def _invoke(tool: Tool, ctx: RunContext, keywords: dict[str, Any]) -> object:
    """Call the function where it belongs, within its time."""
    if tool.timeout is None:
        return await _invoke_untimed(tool, ctx, keywords)
    try:
        async with asyncio.timeout(tool.timeout) as timer:
            return await _invoke_untimed(tool, ctx, keywords)
    except TimeoutError as error:
        if not timer.expired():
            raise  # the tool's own
        ctx.cancelled = True  # a sync tool can look at this and stop
        raise CallExpired from error


async def _invoke_untimed(tool: Tool, ctx: RunContext, keywords: dict[str, Any]) -> object:
    arguments: tuple[Any, ...] = (ctx,) if tool.takes_context else ()
    if not tool.as_keywords:
        arguments, keywords = (*arguments, keywords), {}
    if tool.is_async or tool.isolation == "inline":
        value = tool.function(*arguments, **keywords)
    else:
        value = await THREADS.run(lambda: tool.function(*arguments, **keywords))
    return await value if inspect.isawaitable(value) else value


def _as_result(call: ToolCall, value: object, tool: Tool) -> ToolResult:
    try:
        return result_of(call, value, tool.max_output)
    except NotStorable as error:
        raise CallFailed(
            f"Tool {tool.name!r} ran, but its result cannot be told: {error}", "execution", _fatal(tool, error)
        ) from error


def _control(tool: Tool, value: object) -> Control | None:
    control = control_of(value)
    if control is None and tool.interrupt:
        return Interrupt(f"Tool {tool.name!r} interrupts the run.")
    return control


def _fatal(tool: Tool, error: Exception) -> Exception | None:
    return error if tool.on_error == "fail" else None
