"""Run the calls of one reply: each gets exactly one result, whatever happens."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec.json import decode as decode_json
from msgspec.structs import replace

from treadle.control import AskApproval, Control, Handoff, Interrupt, Next
from treadle.errors import NotStorable, ToolAbort, ToolError
from treadle.events import ApprovalRequested, Stage, ToolFinished, ToolRequested, ToolStarted
from treadle.ids import new_span_id
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.messages import Text, ToolCall, ToolResult
from treadle.open_calls import unfinished
from treadle.ports.children import ChildCall, ChildPaused
from treadle.ports.context import RunContext, RunFacts
from treadle.ports.middleware import NO_HOOKS, Hooks
from treadle.ports.observer import Watch
from treadle.state.scoped import StateWrite, WriteGuard
from treadle.tools.approval import Approvals, asked_midway, next_question
from treadle.tools.artefact import fits, fitted, is_short, short_of
from treadle.tools.failure import CallFailed, cut_off, decoded, fatal_of, let_down, meant, parsed
from treadle.tools.handoffs import Handoffs
from treadle.tools.hooks import after_tool, before_tool
from treadle.tools.outcome import (
    MOST_ERROR_BYTES,
    ToolOutcome,
    describe,
    error_result,
    result_of,
)
from treadle.tools.registry import ToolRegistry
from treadle.tools.threads import THREADS
from treadle.tools.timing import CallExpired, Within
from treadle.tools.tool import Tool
from treadle.usage import NOTHING, Usage
from treadle.values import json_text
from treadle.values.secret import without_secrets

MOST_LINKS = 10


class CallJournal(Protocol):
    """Where outcomes are written as they happen."""

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write one outcome, and in the same write the IDs of the calls that begin now."""
        ...


CANCELLED = "The call was cancelled; whether it took effect is unknown."


class ToolRunner:
    """Runs calls for one run.

    `cut` has those that were cancelled, `notes` what the model is told beside a result, `answers`
    what calls that asked in the middle have been told, `asked` what calls have asked last, by call
    ID. `outer` is the guard of a child run's call with its ID, where that runs beside others.
    """

    __slots__ = (
        "_facts",
        "_hooks",
        "_journal",
        "_parent_span",
        "_short",
        "_watch",
        "answers",
        "approvals",
        "asked",
        "cut",
        "handoffs",
        "notes",
        "outer",
        "registry",
    )

    def __init__(
        self,
        registry: ToolRegistry,
        facts: RunFacts,
        watch: Watch,
        *,
        parent_span: str,
        hooks: Hooks = NO_HOOKS,
        journal: CallJournal | None = None,
        approvals: Approvals | None = None,
        handoffs: Sequence[str] = (),
    ) -> None:
        self.registry = registry
        self.handoffs = Handoffs(handoffs)
        self.approvals = Approvals(registry) if approvals is None else approvals
        self._facts = facts
        self._watch = watch
        self._parent_span = parent_span
        self._hooks = hooks
        self._journal = journal
        self.outer: tuple[WriteGuard | None, str] = (None, "")
        self._short = short_of(registry.least_output, facts.artefacts)
        self.cut: dict[str, ToolOutcome] = {}
        self.notes: dict[str, str] = {}
        self.answers: dict[str, tuple[dict[str, Any], ...]] = {}
        self.asked: Mapping[str, ApprovalAsked] = {}

    def runs_beside_others(self, call: ToolCall) -> bool:
        """Whether the call may overlap others; calls that cannot run at all may."""
        found = self.registry.get(call.name)
        return found is None or found.runs_beside_others

    async def record(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome to the journal, when there is one; tell of a call that asks."""
        if self._journal is not None:
            await self._journal.call_ended(outcome, begun)
        if outcome.asked is not None and self._watch.live:
            call, asked = outcome.call, outcome.asked
            told = (asked.key, call.name, call.shown, asked.reason, asked.schema)
            self._watch.emit(ApprovalRequested, self._parent_span, None, *told)

    def refuse(self, call: ToolCall, text: str, stage: Stage) -> ToolOutcome:
        """Answer a call without running it."""
        outcome = ToolOutcome(call=call, result=error_result(call, text), stage=stage)
        self._tell_finished(outcome, new_span_id(), 0.0)
        return outcome

    async def run_one(self, call: ToolCall, guard: WriteGuard | None = None) -> ToolOutcome:
        """Run one call and, after it, the chain that it asks for."""
        links: list[ToolResult] = []
        audit: list[ApprovalDecided] = []
        if guard is None and self.outer[0] is not None:
            guard = WriteGuard(*self.outer)
        tries = [RunContext(self._facts, call_id=call.id, tool=call.name, guard=guard)]
        if self.answers:
            tries[0].answers = self.answers.get(call.id, ())
        outcome = await self._run_link(call, call, tries)
        if outcome.asked is not None or outcome.paused is not None:
            return outcome
        while isinstance(outcome.control, Next):
            if len(links) + 1 >= MOST_LINKS:
                text = f"The chain of tools was stopped after {MOST_LINKS} links."
                result = error_result(call, text)
                outcome = ToolOutcome(call=call, result=result, stage="execution")
                break
            links.append(outcome.result)
            following = outcome.control
            link = self.registry.call_of(following.tool, following.arguments, call.id)
            tries[-1].attempt, tries[-1].answers = 1, ()
            refused, decision = await self.approvals.refuses_link(call, link, tries[-1])
            audit += decision
            if refused is not None:
                outcome = refused
                break
            outcome = await self._run_link(call, link, tries)
        if links or len(tries) > 1 or tries[0].touched:
            outcome = _whole(outcome, tries, links)
        if audit:
            outcome = replace(outcome, audit=tuple(audit))
        note = self.notes.pop(call.id, None) if self.notes else None
        if note is None:
            return outcome
        parts = (*outcome.result.parts, Text(note))
        return replace(outcome, result=replace(outcome.result, parts=parts))

    async def _run_link(
        self, first: ToolCall, call: ToolCall, tries: list[RunContext]
    ) -> ToolOutcome:
        """Run one link of a chain. `tries` has a context for each try; the last is the current."""
        span = new_span_id() if self._watch.live else ""
        started = time.perf_counter()
        tries[-1].tool = call.name
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            outcome = await self._attempt(first, call, tries, span)
        except CallFailed as failure:
            failed = error_result(first, str(failure), None)
            outcome = ToolOutcome(
                call=first, result=failed, stage=failure.stage, fatal=failure.fatal
            )
        except (AskApproval, ChildPaused) as stop:
            tries[-1].close()
            outcome = _stopped(stop, first, call, tries, self.registry)
            if outcome.asked is not None:
                number = next_question(self.asked.get(call.id))
                return replace(outcome, asked=replace(outcome.asked, question=number))
            if outcome.paused is not None:
                return outcome
        except asyncio.CancelledError as error:
            tries[-1].close()
            if task is None or task.cancelling() == before:  # nobody cancelled this call
                outcome = let_down(first, call, self.registry.get(call.name), error)
                self._tell_finished(outcome, span, time.perf_counter() - started)
                return outcome
            self.cut[first.id] = cancelled = cut_off(first, CANCELLED, *_used(tries))
            self._tell_finished(cancelled, span, time.perf_counter() - started)
            raise
        if not is_short(outcome.result, self._short):
            outcome = await self._fitted(outcome, call.name, tries)
        self._tell_finished(outcome, span, time.perf_counter() - started)
        return outcome

    async def _fitted(
        self, outcome: ToolOutcome, name: str, tries: list[RunContext]
    ) -> ToolOutcome:
        """Return the outcome with the result that the model gets, its whole text kept."""
        result, tool = outcome.result, self.registry.get(name)
        most = MOST_ERROR_BYTES if tool is None or result.is_error else tool.max_output
        if fits(result, self._facts.artefacts, most):
            return outcome
        reader = self.registry.reader
        try:
            short = await fitted(result, most, self._facts.artefacts, reader)
        except asyncio.CancelledError:  # it has run: what it came to is known
            usage, writes = _used(tries)
            short = await fitted(result, most, None, reader)
            self.cut[outcome.call.id] = replace(outcome, result=short, usage=usage, writes=writes)
            raise
        return replace(outcome, result=short)

    async def _attempt(
        self, first: ToolCall, call: ToolCall, tries: list[RunContext], span: str
    ) -> ToolOutcome:
        tool, arguments = self._prepare(call, span)
        if tool.delegate is not None and call is not first:
            raise CallFailed(f"Tool {call.name!r} is an agent: call it by itself.", "lookup")
        keywords = decoded(tool, arguments)
        if self._hooks.before_tool:
            answer = await before_tool(self._hooks, tries[-1], call, keywords)
            if isinstance(answer, ToolResult):
                result = replace(answer, call_id=first.id, name=first.name)
                return ToolOutcome(call=first, result=result)
            if answer is not keywords:
                arguments, keywords = answer, decoded(tool, answer)
        # Of what runs in the end: after edits and middleware.
        if not self.approvals.idle and self.approvals.concern(tool):
            denial = await self.approvals.denial(tool, call.name, {**arguments, **keywords})
            if denial is not None:
                raise CallFailed(denial, "approval")
        value = await self._call(tool, call, tries, arguments, keywords, span)
        if isinstance(value, Handoff):
            value = self.handoffs.judge(value)
        result = _as_result(first, value, tool)
        if self._hooks.after_tool:
            result = await after_tool(self._hooks, tries[-1], call, result)
        return ToolOutcome(call=first, result=result, control=_control(tool, value))

    def _prepare(self, call: ToolCall, span: str) -> tuple[Tool, dict[str, Any]]:
        found = self.registry.get(call.name)
        if found is None:
            raise CallFailed(self.registry.unknown(call.name), "lookup")
        arguments = parsed(found, call)
        if self._watch.live:
            told = (call.id, call.name, _shown(call, arguments), _title(found, call))
            self._watch.emit(ToolRequested, span, self._parent_span, *told)
        return found, arguments

    async def _call(
        self,
        tool: Tool,
        call: ToolCall,
        tries: list[RunContext],
        arguments: dict[str, Any],
        keywords: dict[str, Any],
        span: str,
    ) -> object:
        """Call the function, again after an exception while `retries` allows."""
        failure = CallFailed("", "execution")
        for attempt in range(1, tool.retries + 2):
            if attempt > 1:  # a thread that still runs keeps the context of its own try
                tries.append(tries[-1].again(attempt))
            ctx = tries[-1]
            if self._watch.live:
                told = (call.id, call.name, _shown(call, arguments), attempt, _title(tool, call))
                self._watch.emit(ToolStarted, span, self._parent_span, *told)
            try:
                if tool.delegate is not None and self._facts.children is not None:
                    child = ChildCall(call.id, span, ctx.guard)
                    said = keywords["input"]
                    return await self._facts.children.run(tool.delegate, said, child)
                running = _invoke(tool, ctx, keywords)
                if tool.timeout is not None and tool.isolation != "process":
                    return await Within(running, tool.timeout)
                return await running
            except (AskApproval, ChildPaused):
                raise
            except (ToolAbort, ToolError, SystemExit) as error:
                raise meant(tool, error) from error
            except CallExpired as error:
                ctx.close()  # a sync tool can look at ctx.cancelled and stop
                text = f"Tool {call.name!r} timed out after {tool.timeout:g} s."
                failure = CallFailed(text, "timeout", fatal_of(tool, error))
            except Exception as error:  # noqa: BLE001 the border: a tool may raise anything
                text = f"Tool {call.name!r} failed: {describe(error)}"
                failure = CallFailed(text, "execution", fatal_of(tool, error))
        raise failure

    def _tell_finished(self, outcome: ToolOutcome, span: str, seconds: float) -> None:
        if self._watch.live:
            call = outcome.call
            fields = (call.id, call.name, outcome.result, seconds, outcome.stage)
            self._watch.emit(ToolFinished, span, self._parent_span, *fields)


def _title(tool: Tool, call: ToolCall) -> str:
    """Return by what people know a tool, where that is not what the model calls it."""
    return tool.title or ("" if tool.name == call.name else tool.name)


def _invoke(tool: Tool, ctx: RunContext, keywords: dict[str, Any]) -> Coroutine[Any, Any, Any]:
    """Return the call as a coroutine, which runs where the function belongs."""
    if tool.isolation == "process":
        from treadle.tools.processes import run_in_process  # noqa: PLC0415 (few tools need it)

        return run_in_process(tool, ctx, keywords)
    given: tuple[Any, ...] = (ctx,) if tool.takes_context else ()
    if not tool.as_keywords:
        given, keywords = (*given, keywords), {}
    if not tool.is_async:
        return _run_sync(tool, given, keywords)
    running: Any = tool.function(*given, **keywords)
    return running if inspect.iscoroutine(running) else _awaited(running)


async def _awaited(running: Awaitable[Any]) -> Any:
    return await running


async def _run_sync(tool: Tool, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if tool.isolation == "inline":
        value = tool.function(*arguments, **keywords)
    else:
        value = await THREADS.run(lambda: tool.function(*arguments, **keywords))
    return await value if inspect.isawaitable(value) else value


def _stopped(
    stop: AskApproval | ChildPaused,
    first: ToolCall,
    call: ToolCall,
    tries: Sequence[RunContext],
    registry: ToolRegistry,
) -> ToolOutcome:
    """Return the outcome of a call that waits for somebody, or that may not."""
    if isinstance(stop, ChildPaused):
        outcome = ToolOutcome(call=first, result=unfinished(first), paused=stop.pause)
    else:
        outcome = asked_midway(stop, first, call, tries[-1], registry)
    usage, writes = _used(tries)
    if outcome.asked is not None:
        outcome = replace(outcome, asked=replace(outcome.asked, usage=usage))
    elif outcome.paused is None:
        return outcome
    return replace(outcome, usage=usage, writes=writes)


def _used(tries: Sequence[RunContext]) -> tuple[Usage, tuple[StateWrite, ...]]:
    """Return what all tries of a call used and wrote."""
    usage, writes = NOTHING, ()
    for ctx in tries:
        usage, writes = usage + ctx.added_usage, (*writes, *ctx.writes)
    return usage, writes


def _whole(outcome: ToolOutcome, tries: list[RunContext], links: list[ToolResult]) -> ToolOutcome:
    """Return the outcome with what all tries used, wrote and advised."""
    usage, writes = _used(tries)
    advice = tuple(text for ctx in tries for text in ctx.advice)
    return replace(outcome, usage=usage, writes=writes, links=tuple(links), advice=advice)


def _shown(call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of arguments as JSON values, whatever middleware made of them."""
    arguments = without_secrets(arguments, call.secret)
    try:
        return decode_json(json_text(arguments), type=dict[str, Any])
    except NotStorable:
        return {name: str(value) for name, value in arguments.items()}


def _as_result(call: ToolCall, value: object, tool: Tool) -> ToolResult:
    try:
        return result_of(call, value)
    except NotStorable as error:
        raise CallFailed(
            f"Tool {tool.name!r} ran, but its result cannot be told: {error}",
            "execution",
            fatal_of(tool, error),
        ) from error


def _control(tool: Tool, value: object) -> Control | None:
    if isinstance(value, Control):
        return value
    return Interrupt(f"Tool {tool.name!r} interrupts the run.") if tool.interrupt else None
