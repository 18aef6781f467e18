"""What is said in a run, and what its calls came to: in memory and in the journal alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from treadle.agent.advice import tell
from treadle.agent.ask import Asker
from treadle.agent.calls import Answers
from treadle.agent.mail import Mail
from treadle.agent.nesting import Nesting
from treadle.agent.recorder import Recorder
from treadle.agent.setup import RunStart
from treadle.journal import AnyEntry, MessageAdded
from treadle.limits import Budget
from treadle.messages import Message, Thread
from treadle.ports.context import RunContext
from treadle.ports.model import ModelReply
from treadle.tools.outcome import ToolOutcome
from treadle.usage import NOTHING


class Saying(Nesting):
    """The history of a run, and how it grows.

    `answers` are the results of a reply whose calls are being run. `written` is how many of the
    context's writes the journal has. `path` is "" for the outermost run.
    """

    start: RunStart
    path: str
    thread: Thread
    answers: Answers | None
    recorder: Recorder | None
    asker: Asker
    ctx: RunContext
    budget: Budget
    mail: Mail
    written: int

    async def say(
        self, reply: ModelReply, answers: Answers | None = None, after: Sequence[AnyEntry] = ()
    ) -> None:
        """Put a reply into the history, whose calls are about to be answered."""
        self.asker.partial = []
        if reply.message.parts:
            self.thread.append(reply.message)
            self.answers = answers
        after = (*tell(self, self.ctx.take_advice()), *after)
        if self.recorder is not None:
            begun = answers.begun if answers is not None else ()
            await self.recorder.replied(reply, begun, *after)

    async def say_and_add(self, reply: ModelReply, message: Message) -> None:
        """Put a reply into the history with what the loop says to it, in one write."""
        at = datetime.now(UTC)
        await self.say(
            reply, None, [MessageAdded(run_id=self.start.run_id, at=at, message=message)]
        )
        self.thread.append(message)

    async def add(self, message: Message) -> None:
        """Put something into the history that is no whole reply."""
        self.thread.append(message)
        if self.recorder is not None:
            await self.recorder.said(message)

    async def record_state(self) -> None:
        """Write the state that middleware and instructions changed since the last time."""
        writes = self.ctx.writes[self.written :]
        if writes and self.recorder is not None:
            self.written += len(writes)
            await self.recorder.state_changed(writes)

    def count(self, outcome: ToolOutcome, *, again: bool = False) -> None:
        """Take in the outcome of a call that ran; one that runs `again` is counted already."""
        if outcome.asked is None and outcome.paused is None:
            if self.answers is not None:
                self.answers.take(outcome)
            if not self.path:
                self.tool_results += (*outcome.links, outcome.result)
            else:
                self.keep(*outcome.links, outcome.result)
        if not again:
            self.budget.count_call()
        if outcome.usage is not NOTHING:
            self.budget.spend(outcome.usage)

    async def answer(self, outcome: ToolOutcome) -> None:
        """Take in the outcome of a call that did not run, and write it."""
        if self.answers is not None:
            self.answers.take(outcome)
        self.keep(outcome.result)
        if self.recorder is not None:
            await self.recorder.call_ended(outcome, ())

    def close_answers(self) -> None:
        """Put the results of the reply into the thread, in the order of its calls."""
        answers, self.answers = self.answers, None
        if answers is not None:
            self.thread.extend(answers.closing)
