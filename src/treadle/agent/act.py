"""Act on a reply with calls: run them, answer each, and see what they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from treadle.agent.advice import hint
from treadle.agent.approval import pending_call
from treadle.agent.calls import Answers
from treadle.agent.close_out import CloseOut
from treadle.agent.ending import Ending
from treadle.agent.output import OUTPUT_TOOL, OutputRejected
from treadle.agent.repeats import Repeats
from treadle.agent.sorting import Plan, asked_of, give_back, sort_calls, take_decisions, wake
from treadle.agent.standing import Standing
from treadle.agent.work import Work
from treadle.control import Finish, Handoff, Interrupt
from treadle.errors import OutputInvalid, ToolAborted
from treadle.events import ApprovalRequested
from treadle.messages import ToolCall, ToolResult
from treadle.open_calls import unfinished, waiting
from treadle.ports.approval import PendingCall
from treadle.ports.model import ModelReply
from treadle.tools.batch import Batch
from treadle.tools.outcome import ToolOutcome, error_result

MOST_REPAIRS = 2
NOT_RUN = "The call did not run to its end, because another call failed the run."


class Actor:
    """Runs the calls of one reply after another.

    `repairs` counts outputs that were rejected, `repeats` calls that lead nowhere, and `close_out`
    knows when the model has to be told what is left.
    """

    def __init__(self, work: Work, close_out: CloseOut) -> None:
        self._work = work
        self.close_out = close_out
        self.repairs = 0
        self.repeats = Repeats(work.setup.limits.max_repeats, work.setup.registry)

    async def act(
        self, reply: ModelReply, calls: tuple[ToolCall, ...]
    ) -> tuple[Ending | None, bool]:
        """Run the reply's calls; return how that ends the run, and whether the limit was hit.

        Ordinary calls run before an output that came with them is accepted: while one of them
        failed the run is not over.
        """
        return await self._act(Standing(calls), reply)

    async def go_on(self, standing: Standing) -> tuple[Ending | None, bool]:
        """Like `act`, for calls that another process has left behind, or that were decided on."""
        self._work.answers = Answers(standing.calls, begun=list(standing.began))
        for call in standing.calls:
            if call.id in standing.done:
                self._work.answers.results[call.id] = standing.done[call.id].result
        self._work.answers.advice = [*standing.advice]
        return await self._act(standing, None)

    async def _act(
        self, standing: Standing, reply: ModelReply | None
    ) -> tuple[Ending | None, bool]:
        work = self._work
        outputs, ordinary = self._split(standing)
        value, rejected = self._value_of(outputs) if outputs else (None, "")
        accepted = self._accepted(standing)  # by a process that died before it could end the run
        if reply is not None:
            final = bool(outputs) and not ordinary and not rejected
            work.asker.finished(work.budget.turns, reply, final=final)
        plan = await sort_calls(work, standing, ordinary)
        await self._carry_out(plan, standing, reply)
        while plan.waiting and await self._news(standing):
            outputs, ordinary = self._split(standing)
            plan = await sort_calls(work, standing, ordinary)
            await self._carry_out(plan, standing, None)
        outcomes = [standing.done[call.id] for call in ordinary if call.id in standing.done]
        ending, failed = _ending_of(outcomes)
        work.waiting = _waiting(plan, outputs, standing)
        self._raise_fatal(outcomes, failed=failed)
        if plan.waiting:
            work.pending = _pending(plan, ordinary, standing, work.path)
            return _paused(work.pending, standing, stored=work.recorder is not None), False
        limited = plan.limited
        if outputs:
            failed = failed or limited
            handed = ending is not None and ending.hands_over
            await self._answer_outputs(outputs, rejected, failed=failed, handed=handed)
            if not rejected and not failed and ending is None:
                ending = Ending(stop_reason="answer", output=value)
        elif accepted is not None and ending is None:
            ending = Ending(stop_reason="answer", output=self._value_of((accepted,))[0])
        if ending is None and not limited:
            ending = self._look_back(ordinary)
        elif ending is not None and ending.stop_reason == "answer":
            self._forget_advice()
        work.close_answers()
        if rejected and self.repairs > MOST_REPAIRS and ending is None:
            raise OutputInvalid(
                f"The model gave no valid output in {self.repairs} tries. The last: {rejected}"
            )
        return ending, limited

    async def _news(self, standing: Standing) -> bool:
        """Whether somebody has decided by the time that nothing is at work in the background."""
        work = self._work
        while not (take_decisions(work, standing) or wake(work, standing)):
            if work.background is None or not await work.background.changed():
                return False
        return True

    def _split(self, standing: Standing) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """Return the calls that carry the output, and the ordinary ones."""
        calls = standing.calls
        if not self._work.answers_by_tool:
            return (), calls
        outputs = tuple(
            call for call in calls if call.name == OUTPUT_TOOL and call.id not in standing.done
        )
        return outputs, tuple(call for call in calls if call.name != OUTPUT_TOOL)

    def _accepted(self, standing: Standing) -> ToolCall | None:
        """Return the output call that has been accepted already."""
        if not self._work.answers_by_tool:
            return None
        for call in standing.calls:
            found = standing.done.get(call.id)
            if call.name == OUTPUT_TOOL and found is not None and not found.result.is_error:
                return call
        return None

    async def _carry_out(self, plan: Plan, standing: Standing, reply: ModelReply | None) -> None:
        """Put the reply into the history, run the calls that may run, answer those that do not."""
        try:
            await self._run(plan, standing, reply)
        finally:
            if plan.held:
                give_back(self._work, plan)

    async def _run(self, plan: Plan, standing: Standing, reply: ModelReply | None) -> None:
        work, run = self._work, plan.run
        if work.recorder is not None:
            work.recorder.ledger.check()
        work.runner.notes.update(plan.notes)
        work.runner.answers = standing.answers
        work.runner.asked = standing.asked
        if work.setup.handoffs:
            work.runner.handoffs.begin(standing.done.values())
        if len(run) == 1:  # alone, it needs no batch
            begun, batch = [run[0].id], None
        else:
            batch = Batch(work.runner, run, max_parallel=work.setup.max_parallel_tools)
            begun = batch.begun
        await self._begin(plan, standing, reply, begun)
        if batch is None:
            outcome = await work.runner.run_one(run[0])
            self._take_in(outcome, standing, plan)
            await work.runner.record(outcome, ())
        elif run:
            await self._run_batch(batch, standing, plan)
        if work.interrupted:  # a tool swallowed it
            raise asyncio.CancelledError
        for outcome in plan.refuse:
            standing.done[outcome.call.id] = outcome
            await work.answer(outcome)

    async def _begin(
        self, plan: Plan, standing: Standing, reply: ModelReply | None, begun: Sequence[str]
    ) -> None:
        """Write the reply, what is asked about it, and which calls begin."""
        work = self._work
        asked = [asked_of(work, standing, call, ruling) for call, ruling in plan.ask]
        if reply is not None:
            answers = Answers(standing.calls, begun=begun)
            await work.say(reply, answers, [*plan.audit, *asked])
        elif work.recorder is not None:
            await work.recorder.calls_began(begun, *plan.audit, *asked)
        for (call, _), entry in zip(plan.ask, asked, strict=True):
            standing.asked[call.id] = entry
            work.tell(ApprovalRequested, entry.key, call.name, call.shown, entry.reason)

    async def _run_batch(self, batch: Batch, standing: Standing, plan: Plan) -> None:
        """Run these calls. Every outcome is taken in, also when the run is cancelled meanwhile."""
        work = self._work
        try:
            await batch.run()
        finally:
            for outcome in batch.outcomes:
                if outcome is not None:
                    self._take_in(outcome, standing, plan)
            if work.answers is not None:
                work.answers.begun = [*work.answers.begun, *batch.taken]
        for call in batch.unfinished:  # another call failed the run before these ran
            outcome = work.runner.refuse(call, NOT_RUN, "cancelled")
            standing.done[call.id] = outcome
            await work.answer(outcome)

    def _take_in(self, outcome: ToolOutcome, standing: Standing, plan: Plan) -> None:
        call_id = outcome.call.id
        self._work.count(outcome, again=call_id in standing.began)
        if plan.held:
            give_back(self._work, plan, 1)
        if outcome.paused is not None:
            standing.rest(call_id, outcome.paused)
            plan.waiting.add(call_id)
        elif outcome.asked is None:
            standing.done[call_id] = outcome
        else:
            standing.wait(outcome.asked)
            plan.waiting.add(call_id)

    def _forget_advice(self) -> None:
        """The calls have answered: nobody is left to be advised, unless messages wait."""
        work = self._work
        if work.answers is not None and not (work.mail.keeps_going and work.budget.turns_left()):
            work.answers.advice.clear()

    def _look_back(self, calls: Sequence[ToolCall]) -> Ending | None:
        """Tell the model when it repeats itself, or what is left; end a run that gets nowhere."""
        work, repeats = self._work, self.repeats
        answers = work.answers
        if answers is None:
            return None
        repeats.seen(calls, answers.results)
        if repeats.reason:
            return Ending(stop_reason="loop", reason=repeats.reason)
        if repeats.nudge and work.budget.turns_left():
            hint(work, repeats.nudge)
        note = self.close_out.note()
        if note:
            hint(work, note, "limits")
        return None

    def _raise_fatal(self, outcomes: Iterable[ToolOutcome], *, failed: bool) -> None:
        fatal = next((o.fatal for o in outcomes if o.fatal is not None), None) if failed else None
        if fatal is not None:
            answers = self._work.answers
            if answers is not None and not answers.missing:
                self._work.close_answers()
            raise ToolAborted(str(fatal) or type(fatal).__name__) from fatal

    def _value_of(self, outputs: tuple[ToolCall, ...]) -> tuple[Any, str]:
        """Return the value that the first output call carries, or what is wrong with it."""
        output = self._work.setup.output
        if output is None:
            return None, ""
        try:
            return output.from_call(outputs[0]), ""
        except OutputRejected as error:
            self.repairs += 1
            return None, str(error)

    async def _answer_outputs(
        self, outputs: tuple[ToolCall, ...], rejected: str, *, failed: bool, handed: bool
    ) -> None:
        """Give each output call its result: every call gets one."""
        for place, call in enumerate(outputs):
            text = ""
            if handed:
                text = "Not the answer: another call of this reply hands the conversation over."
            elif place:
                text = "Only the first final result of a reply counts."
            elif rejected:
                text = f"Not accepted: {rejected} Call {OUTPUT_TOOL!r} again."
            elif failed:
                text = (
                    "Not accepted yet: another call of this reply failed. Look at its result first."
                )
            result = error_result(call, text) if text else ToolResult(call.id, call.name)
            outcome = ToolOutcome(call=call, result=result, stage="arguments" if text else None)
            await self._work.answer(outcome)


def _waiting(plan: Plan, outputs: Sequence[ToolCall], standing: Standing) -> dict[str, ToolResult]:
    """Return what stands for the results of calls that have none when the run pauses."""
    if not plan.waiting:
        return {}
    found = {call.id: waiting(call) for call in outputs}
    for call in standing.calls:
        if call.id in standing.paused:
            found[call.id] = unfinished(call)
        elif call.id in plan.waiting:
            asked = standing.asked.get(call.id)
            found[call.id] = waiting(call, midway=asked is not None and asked.midway)
    return found


def _pending(
    plan: Plan, calls: Sequence[ToolCall], standing: Standing, path: str
) -> list[PendingCall]:
    """Return the calls that wait for a decision, those in child runs among them."""
    found: list[PendingCall] = []
    for call in calls:
        if call.id in standing.paused:
            found += standing.paused[call.id].pending
        elif call.id in plan.waiting:
            found.append(pending_call(call, standing.asked[call.id], path))
    return found


def _paused(pending: Sequence[PendingCall], standing: Standing, *, stored: bool) -> Ending:
    if pending:
        reason = f"Somebody has to decide on {', '.join(sorted({each.name for each in pending}))}."
    else:
        reason = next(pause.reason for pause in standing.paused.values())
    if not stored:
        reason += " Nothing is stored: pass store= to be able to resume."
    return Ending(stop_reason="paused", reason=reason)


def _ending_of(outcomes: Sequence[ToolOutcome]) -> tuple[Ending | None, bool]:
    """Return how the run ends by what its calls asked for, and whether one of them failed.

    An interrupt comes first, then the first `Finish` or `Handoff`: a `Finish` when no call failed.
    """
    ending, failed = None, False
    for outcome in outcomes:
        failed = failed or outcome.result.is_error
    for outcome in outcomes:
        control = outcome.control
        if control is None:
            continue
        if isinstance(control, Interrupt):
            return Ending(stop_reason="paused", reason=control.reason), failed
        if ending is None and isinstance(control, Handoff):
            ending = Ending(stop_reason="answer", output=control)
        elif ending is None and isinstance(control, Finish) and not failed:
            ending = Ending(stop_reason="answer", output=control.output)
    return ending, failed
