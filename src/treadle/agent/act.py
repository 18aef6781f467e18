"""Act on a reply with calls: run them, answer each, and see what they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from treadle.agent.calls import Answers
from treadle.agent.ending import Ending
from treadle.agent.output import OUTPUT_TOOL, OutputRejected
from treadle.agent.work import Work
from treadle.control import Finish, Interrupt
from treadle.errors import OutputInvalid, ToolAborted
from treadle.messages import ToolCall, ToolResult
from treadle.ports.model import ModelReply
from treadle.tools.batch import Batch
from treadle.tools.outcome import ToolOutcome, error_result

MOST_REPAIRS = 2
NOT_RUN = "The call did not run to its end, because another call failed the run."


class Actor:
    """Runs the calls of one reply after another. `repairs` counts outputs that were rejected."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.repairs = 0

    async def act(
        self, reply: ModelReply, calls: tuple[ToolCall, ...]
    ) -> tuple[Ending | None, bool]:
        """Run the reply's calls; return how that ends the run, and whether the limit was hit.

        Ordinary calls run before an output that came with them is accepted: while one of them
        failed the run is not over.
        """
        work = self._work
        outputs, ordinary = self._split(calls)
        left = work.budget.tool_calls_left()
        refused = () if left is None else ordinary[left:]
        runnable = ordinary[: len(ordinary) - len(refused)] if refused else ordinary
        value, rejected = self._value_of(outputs) if outputs else (None, "")
        final = bool(outputs) and not ordinary and not rejected
        work.asker.finished(work.budget.turns, reply, final=final)
        outcomes = await self._run(reply, calls, runnable)
        for call in refused:
            limit = work.setup.limits.max_tool_calls
            text = f"Not run: the limit of {limit} tool calls is used up."
            await work.answer(work.runner.refuse(call, text, "limit"))
        ending, failed = _ending_of(outcomes)
        if outputs:
            failed = failed or bool(refused)
            await self._answer_outputs(outputs, rejected, failed=failed)
            if not rejected and not failed and ending is None:
                ending = Ending(stop_reason="answer", output=value)
        work.close_answers()
        fatal = next((o.fatal for o in outcomes if o.fatal is not None), None) if failed else None
        if fatal is not None:
            raise ToolAborted(str(fatal) or type(fatal).__name__) from fatal
        if rejected and self.repairs > MOST_REPAIRS:
            raise OutputInvalid(
                f"The model gave no valid output in {self.repairs} tries. The last: {rejected}"
            )
        return ending, bool(refused)

    def _split(
        self, calls: tuple[ToolCall, ...]
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """Return the calls that carry the output, and the ordinary ones."""
        if not self._work.answers_by_tool:
            return (), calls
        outputs = tuple(call for call in calls if call.name == OUTPUT_TOOL)
        return outputs, tuple(call for call in calls if call.name != OUTPUT_TOOL)

    async def _run(
        self, reply: ModelReply, calls: tuple[ToolCall, ...], runnable: tuple[ToolCall, ...]
    ) -> Sequence[ToolOutcome]:
        """Put the reply into the history and run these of its calls."""
        work = self._work
        if len(calls) == len(runnable) == 1:  # alone, it needs no batch
            call = calls[0]
            await work.say(reply, Answers(calls, begun=(call.id,)))
            outcome = await work.runner.run_one(call)
            work.count(outcome)
            await work.runner.record(outcome, ())
            outcomes: Sequence[ToolOutcome] = (outcome,)
        else:
            batch = Batch(work.runner, runnable, max_parallel=work.setup.max_parallel_tools)
            await work.say(reply, Answers(calls, begun=batch.begun))
            outcomes = await self._run_batch(batch)
        if work.interrupted:  # the tool swallowed it
            raise asyncio.CancelledError
        return outcomes

    async def _run_batch(self, batch: Batch) -> Sequence[ToolOutcome]:
        """Run these calls. Every outcome is taken in, also when the run is cancelled meanwhile."""
        work = self._work
        try:
            outcomes = await batch.run()
        finally:
            for outcome in batch.outcomes:
                if outcome is not None:
                    work.count(outcome)
            if work.answers is not None:
                work.answers.begun = batch.taken
        for call in batch.unfinished:  # another call failed the run before these ran
            await work.answer(work.runner.refuse(call, NOT_RUN, "cancelled"))
        return outcomes

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
        self, outputs: tuple[ToolCall, ...], rejected: str, *, failed: bool
    ) -> None:
        """Give each output call its result: every call gets one."""
        for place, call in enumerate(outputs):
            text = ""
            if place:
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


def _ending_of(outcomes: Sequence[ToolOutcome]) -> tuple[Ending | None, bool]:
    """Return how the run ends by what its calls asked for, and whether one of them failed.

    An interrupt comes first; the first `Finish` counts when no call failed.
    """
    pause = finish = None
    failed = False
    for outcome in outcomes:
        failed = failed or outcome.result.is_error
        if outcome.control is not None:
            if isinstance(outcome.control, Interrupt):
                pause = pause or outcome.control
            elif isinstance(outcome.control, Finish):
                finish = finish or outcome.control
    if pause is not None:
        return Ending(stop_reason="paused", reason=pause.reason), failed
    if finish is not None and not failed:
        return Ending(stop_reason="answer", output=finish.output), failed
    return None, failed
