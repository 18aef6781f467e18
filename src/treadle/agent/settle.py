"""Settle a run: leave a valid history, store how it ended, tell everybody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from treadle.agent.context_use import ContextUse, context_use
from treadle.agent.ending import NO_OUTPUT, Ending
from treadle.agent.result import AnyResult, RunResult
from treadle.agent.unbroken import unbroken
from treadle.agent.work import Work
from treadle.errors import PlanInvalid, RunFailed, TreadleError
from treadle.events import AgentLeft, AnswerStored, RunFinished, RunPaused
from treadle.messages import Message
from treadle.plan import Plan
from treadle.ports.model import ModelRequest
from treadle.ports.plans import has_plan
from treadle.state.scoped import State
from treadle.tools.execute import CANCELLED
from treadle.tools.outcome import ToolOutcome, error_result
from treadle.values.logs import logger

SETTLE_SECONDS = 5.0
log = logger(__name__)
NOT_BEGUN = "Not run: the run ended before this call began."


async def settle(work: Work, ending: Ending) -> AnyResult:
    """Return the run's result, or raise the error that ended it, with the result on it.

    When the end cannot be stored the run has failed, whatever it had come to.
    """
    work.task = None  # whoever wants to end the run early now is late
    try:
        if not ending.stored:
            unsaid = _complete(work, ending)
            if work.recorded:
                await unbroken(_store_in_time(work, ending, unsaid))
    except asyncio.CancelledError:
        ending.raises = True
    except Exception as error:  # noqa: BLE001 the border of a run: a store's driver may raise anything
        if work.recorder is not None and work.recorder.at_rest:  # it took long, and it is stored
            work.mail.settle()
        elif ending.error is None:
            ending = Ending(stop_reason="failed", error=_not_stored(error), raises=ending.raises)
    result = _result(work, ending)
    _tell(work, ending, result)
    work.bus.close()
    if ending.raises:
        raise asyncio.CancelledError(ending.reason)
    if ending.error is not None:
        ending.error.result = result
        raise ending.error
    return result


def _complete(work: Work, ending: Ending) -> list[ToolOutcome | Message]:
    """Make the history whole, in memory, and return what the journal has to be told of that."""
    unsaid: list[ToolOutcome | Message] = []
    if work.answers is not None:
        answers = work.answers
        for call in answers.missing:
            if call.id in work.waiting:
                answers.results[call.id] = work.waiting[call.id]  # in this result only
                continue
            outcome = work.runner.cut.get(call.id)
            if outcome is None:
                text = CANCELLED if call.id in answers.begun else NOT_BEGUN
                outcome = ToolOutcome(call=call, result=error_result(call, text), stage="cancelled")
            answers.results[call.id] = outcome.result
            work.keep(outcome.result)
            unsaid.append(outcome)
        work.close_answers()
    text = "".join(work.asker.partial) if work.opened and ending.output is NO_OUTPUT else ""
    if text.strip():
        # What was seen of a reply that never became whole; it is marked, and no answer.
        seen = replace(Message.assistant(text), incomplete=True)
        work.thread.append(seen)
        unsaid.append(seen)
    return unsaid


async def _store_in_time(
    work: Work, ending: Ending, unsaid: Sequence[ToolOutcome | Message]
) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        await _store_end(work, ending, unsaid)


async def _store_end(work: Work, ending: Ending, unsaid: Sequence[ToolOutcome | Message]) -> None:
    recorder = work.recorder
    if recorder is None:
        return
    for item in unsaid:
        if isinstance(item, Message):
            await recorder.said(item)
        else:
            await recorder.call_ended(item, ())
    await work.record_state()
    if ending.stop_reason == "paused":
        if not work.path:
            await recorder.suspended(ending.reason, work.budget.turns)
    elif _ends(work, ending):
        output = _output(work, ending)
        answers = ending.stop_reason in ("answer", "limit")
        while True:
            late = work.mail.late() if answers else []
            end = recorder.end(
                ending.stop_reason,
                output,
                work.budget.usage,
                work.budget.turns,
                error=_why(work, ending),
            )
            most = len(work.inbox.waiting) if answers else None
            if await recorder.ended(end, *late, unless_more_than=most):
                break
        if answers:
            work.mail.settle()


def _ends(work: Work, ending: Ending) -> bool:
    """Whether the run is over for the journal; a step without an answer can go on."""
    answers = ending.stop_reason in ("answer", "limit")
    if answers or work.origin is None:
        return True
    if work.origin.background:
        return not ending.raises  # else its process ends, and another one goes on with it
    return not work.origin.resumes


def _why(work: Work, ending: Ending) -> str | None:
    """Return what the journal says of an end without an answer; of a child run always something."""
    if ending.error is not None:
        return ending.failure
    return ending.reason or None if work.path else None


def _result(work: Work, ending: Ending) -> AnyResult:
    kind, extras = (RunResult, {}) if work.extras is None else work.extras()
    return kind(
        output=_output(work, ending),
        messages=work.thread,
        stop_reason=ending.stop_reason,
        run_id=work.start.run_id,
        conversation_id=work.start.conversation_id,
        usage=work.budget.usage,
        turns=work.budget.turns,
        seconds=time.perf_counter() - work.began,
        tool_results=work.tool_results,
        state=work.state if work.state is not None else State(),
        reason=ending.reason,
        pending=work.pending if ending.stop_reason == "paused" else [],
        artefacts=work.shelf.texts if work.opened else {},
        plan=_plan(work) if work.opened else None,
        _context=_context(work),
        **extras,
    )


def _context(work: Work) -> Callable[[], ContextUse]:
    """Return what tells what fills the window; it keeps nothing of the run but its messages."""
    setup, policy = work.setup, work.setup.compaction
    request = ModelRequest(
        messages=work.thread,
        system=work.system,
        tools=work.specs,
        output=None if setup.output is None else setup.output.output_schema,
    )
    return partial(
        context_use,
        request,
        setup.profile,
        work.compacted,
        skills=work.of_skills,
        window=None if policy is None else policy.window,
        count=None if policy is None else policy.tokenizer,
    )


def _plan(work: Work) -> Plan | None:
    if work.state is None or not has_plan(work.state, work.setup.agent, work.path):
        return None
    try:
        return work.ctx.plan
    except PlanInvalid as error:
        log.warning("run %s has no plan to show: %s", work.start.run_id, error)
        return None


def _output(work: Work, ending: Ending) -> Any:
    return _text_so_far(work) if ending.output is NO_OUTPUT else ending.output


def _text_so_far(work: Work) -> str:
    """Return what the model last said since somebody spoke to it."""
    for message in reversed(work.thread):
        if message.role == "assistant":
            return message.text
        if message.role == "user" and not message.advice:
            break
    return ""


def _tell(work: Work, ending: Ending, result: AnyResult) -> None:
    bus, span = work.bus, work.span
    if work.origin is not None:
        told = (ending.stop_reason, result.usage, result.turns, result.seconds)
        bus.emit(AgentLeft, span, None, work.origin.call.call_id, *told, ending.failure)
        return
    if ending.stop_reason == "paused":
        bus.emit(RunPaused, span, None, ending.reason, result.usage, result.seconds)
        return
    if ending.stop_reason in ("answer", "limit") and bus.live:
        bus.emit(
            AnswerStored,
            span,
            None,
            result.output if isinstance(result.output, str) else _text_so_far(work),
        )
    bus.emit(
        RunFinished,
        span,
        None,
        ending.stop_reason,
        result.usage,
        result.turns,
        result.seconds,
        ending.failure,
    )


def _not_stored(error: Exception) -> TreadleError:
    if isinstance(error, TreadleError):
        return error
    if isinstance(error, TimeoutError):
        failure = RunFailed(f"The store did not take the end of the run in {SETTLE_SECONDS:g} s.")
    else:
        failure = RunFailed(
            f"The end of the run could not be stored: {type(error).__name__}: {error}"
        )
    failure.__cause__ = error
    return failure
