"""Take a reply as the answer: check it, store it with the end of the run, or go on after all."""

from __future__ import annotations

import asyncio
from typing import Any

from treadle.agent.act import MOST_REPAIRS, Actor
from treadle.agent.ending import Ending
from treadle.agent.nesting import BackgroundRuns
from treadle.agent.output import OUTPUT_TOOL, OutputRejected
from treadle.agent.recorder import Recorder
from treadle.agent.work import Work
from treadle.errors import OutputInvalid
from treadle.events import StopReason
from treadle.messages import Message
from treadle.ports.children import ChildPaused
from treadle.ports.model import ModelReply


class Final:
    """The end of one run's loop."""

    def __init__(self, work: Work, actor: Actor) -> None:
        self._work = work
        self._actor = actor

    @property
    def goes_on(self) -> bool:
        """Whether messages wait that the run takes another turn for, instead of ending."""
        return self._work.mail.keeps_going and bool(self._work.budget.turns_left())

    async def answer(self, reply: ModelReply, stop_reason: StopReason) -> Ending | None:
        """Take a reply without calls as the answer; None when the model was asked to repair it."""
        work = self._work
        value: Any = reply.message.text
        if work.setup.output is not None:
            try:
                value = work.setup.output.from_text(value)
            except OutputRejected as error:
                await self._repair(reply, str(error), stop_reason)
                return None
        if work.background is not None:
            await self._let_finish(work.background, reply)
        goes_on = stop_reason == "answer" and self.goes_on
        work.asker.finished(work.budget.turns, reply, final=not goes_on)
        if goes_on:
            await work.say(reply)
            return None
        ending = await self.before(Ending(stop_reason=stop_reason, output=value, stored=True))
        if work.background is not None:
            await work.background.close(ending)
        await work.record_state()
        if work.recorder is not None and not await self._store_answer(work.recorder, reply, ending):
            await work.say(reply)  # somebody steered at the last moment: another turn
            return None
        work.asker.partial = []
        if reply.message.parts:
            work.thread.append(reply.message)
        if work.recorder is None:
            work.mail.settle()
        return ending

    async def _store_answer(self, recorder: Recorder, reply: ModelReply, ending: Ending) -> bool:
        """Store the answering reply and the end of the run in one write.

        False when messages came in before it, for which the run takes another turn. A cancellation
        that comes while that is written is too late: the run has answered.
        """
        work = self._work
        try:
            while not (ending.stop_reason == "answer" and self.goes_on):
                late = work.mail.late()
                end = recorder.end(
                    ending.stop_reason,
                    ending.output,
                    work.budget.usage,
                    work.budget.turns,
                    text=reply.message.text,
                )
                if await recorder.replied(
                    reply, (), *late, end, unless_more_than=len(work.inbox.waiting)
                ):
                    break
            else:
                return False
        except asyncio.CancelledError:
            if not recorder.knows_end:
                raise
            if work.stop is None:
                ending.raises = True
            elif work.task is not None and work.task.cancelling() > work.cancels:
                work.task.uncancel()
        work.mail.settle()
        return True

    async def _let_finish(self, background: BackgroundRuns, reply: ModelReply) -> None:
        """Let those in the background end that are waited for; the reply is kept if one pauses."""
        work = self._work
        try:
            await background.finish()
        except ChildPaused:
            work.asker.finished(work.budget.turns, reply, final=False)
            await work.say(reply)
            raise

    async def before(self, ending: Ending) -> Ending:
        """Let middleware see the output before it is final."""
        if ending.stop_reason in ("answer", "limit"):
            for before_final in self._work.setup.hooks.before_final:
                ending.output = await before_final(self._work.ctx, ending.output)
        return ending

    async def _repair(self, reply: ModelReply, problem: str, stop_reason: StopReason) -> None:
        """Tell the model what is wrong with its output, so that it tries again."""
        work = self._work
        self._actor.repairs += 1
        work.asker.finished(work.budget.turns, reply, final=False)
        again = self._actor.repairs <= MOST_REPAIRS and stop_reason == "answer"
        if not again:
            await work.say(reply)
            tries = self._actor.repairs
            raise OutputInvalid(
                f"The model gave no valid output in {tries} tries. The last: {problem}"
            )
        way = (
            f"Call {OUTPUT_TOOL!r} with it."
            if work.answers_by_tool
            else "Reply with the JSON only."
        )
        await work.say_and_add(
            reply, Message.user(f"That is not the output asked for.\n{problem}\n{way}")
        )
