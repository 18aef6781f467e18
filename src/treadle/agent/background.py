"""Agents that work in the background of a run: each a child run that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from treadle.agent.children import next_step, resolved
from treadle.agent.ending import Ending
from treadle.agent.member import Crew, Member, News, check_room, member_of, unknown
from treadle.agent.work import Work
from treadle.errors import ConfigError, ToolError
from treadle.events import DelegateStarted, StopReason
from treadle.journal import ChildBegan
from treadle.messages import Message
from treadle.ports.background import DelegateStatus
from treadle.ports.children import ChildPaused, Pause

GONE = "The run that it worked for has ended."
RESTS = "The run that it works for has stopped."
CANCELLED = "The run that it worked for has cancelled it."


class AttachedRuns:
    """Runs agents in the background of one run.

    Each is a child run with a path, in the journal of the run: when that is resumed, those that
    were at work go on. When the run stops without an answer they rest with it.
    """

    def __init__(self, work: Work, crew: Crew) -> None:
        self._work = work
        self._crew = crew
        self._members: dict[str, Member] = {}
        self._news = News()

    @property
    def ids(self) -> Sequence[str]:
        """The IDs of all that were started, in order."""
        return list(self._members)

    async def begin(self, agent: str, task: str, call_id: str) -> str:
        """Let an agent begin to work, for a call, and return its ID; a call does so only once.

        Raises:
            ToolError: it cannot, or there are too many.
        """
        for member in self._members.values():
            if member.call_id == call_id:
                return member.id
        running = [member.id for member in self._members.values() if member.final is None]
        check_room(self._crew, len(self._members), running)
        work = self._work
        try:
            setup = resolved(work, member_of(self._crew, agent))
        except ConfigError as error:
            raise ToolError(f"{agent} cannot begin: {error}") from error
        member = self._new(next_step(work.entered, agent), agent)
        member.call_id = call_id
        began = ChildBegan(
            run_id=work.start.run_id,
            at=member.began_at,
            path=member.path,
            agent=agent,
            input=Message.user(task),
            background=True,
            flow=setup.flow is not None,
            data={"call": call_id},
        )
        try:
            if work.recorder is not None:
                await work.recorder.ledger.append([began])
        except BaseException:
            del self._members[member.id]
            raise
        work.tell(DelegateStarted, member.id, agent, task)
        member.start(began.input)
        return member.id

    def _new(self, id: str, agent: str) -> Member:
        """Take in one more, and hear of decisions that come from elsewhere."""
        member = self._members[id] = Member(self._work, self._crew, self._news, id, agent)
        recorder = self._work.recorder
        if recorder is not None and self._news.tell not in recorder.ledger.listeners:
            recorder.ledger.listeners.append(self._news.tell)
        return member

    async def status(self, id: str) -> DelegateStatus:
        """Return how one is doing.

        Raises:
            ToolError: this run has none of this ID.
        """
        return self._member(id).status

    def _member(self, id: str) -> Member:
        found = self._members.get(id)
        if found is None:
            raise unknown(id, self.ids)
        return found

    async def wait(self, ids: Sequence[str], seconds: float | None) -> None:
        """Wait until these are over, or for so long.

        Raises:
            ChildPaused: nothing but somebody's decision lets them go on.
            ToolError: this run has none of this ID.
        """
        members = [self._member(id) for id in ids]
        try:
            async with asyncio.timeout(seconds):
                while any(member.is_at_work for member in members):
                    await self._news.wait()
        except TimeoutError:
            return
        pauses = [member.pause for member in members if member.pause is not None]
        if pauses:
            calls = tuple(call for pause in pauses for call in pause.pending)
            raise ChildPaused(Pause(pauses[0].reason, calls))

    async def cancel(self, id: str) -> None:
        """Stop one, and wait for its end.

        Raises:
            ToolError: this run has none of this ID.
        """
        await _stop([self._member(id)], "cancelled", CANCELLED)

    async def send(self, id: str, text: str, call_id: str) -> None:
        """Say something to one while it works, for a call, which does so only once.

        Raises:
            ToolError: it is over, or this run has none of this ID.
        """
        await self._member(id).hear(text, call_id)

    def go_on(self) -> None:
        """The run goes on: so does what it had in the background."""
        recorder = self._work.recorder
        for id, child in () if recorder is None else recorder.view.children.items():
            if child.background and id not in self._members:
                self._new(id, child.agent).take_up(child)

    async def changed(self) -> bool:
        """Wait for news of those that are at work; False when none is."""
        if not any(member.is_at_work for member in self._members.values()):
            return False
        await self._news.wait()
        return True

    async def finish(self) -> None:
        """The run is about to answer: let those end that it waits for.

        Raises:
            ChildPaused: one of them waits for somebody.
        """
        if self._crew.on_end == "wait":
            await self.wait(self.ids, None)

    async def close(self, ending: Ending) -> None:
        """The run ends this way, or pauses: nothing is at work after that.

        On a pause they work on until they are over, or wait for somebody themselves. When the run
        has answered they are cancelled; else they rest until it is resumed.
        """
        members = list(self._members.values())
        if ending.stop_reason == "paused" and self._work.stop is None:
            while await self.changed():
                pass
            known = {call.call_id for call in self._work.pending}
            found = [call for each in members if each.pause for call in each.pause.pending]
            self._work.pending += [call for call in found if call.call_id not in known]
        answers = ending.stop_reason in ("answer", "limit")
        await _stop(members, *(("cancelled", GONE) if answers else ("paused", RESTS)))
        recorder = self._work.recorder
        if recorder is not None and self._news.tell in recorder.ledger.listeners:
            recorder.ledger.listeners.remove(self._news.tell)


async def _stop(members: Sequence[Member], stop_reason: StopReason, why: str) -> None:
    """Let these end in this way, and wait until they have."""
    tasks = [m.task for m in members if m.task is not None and not m.task.done()]
    if tasks:
        await asyncio.sleep(0)  # all of them have begun after that
    for member in members:
        member.stop(stop_reason, why)
    if tasks:
        await asyncio.wait(tasks)
    if stop_reason != "paused":
        for member in members:
            await member.leave(stop_reason, why)
