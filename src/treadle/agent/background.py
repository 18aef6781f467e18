"""Agents that work in the background of a run: each a child run that nobody waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import pending
from treadle.agent.children import carried_out, child_work, next_step, resolved, told
from treadle.agent.ending import Ending
from treadle.agent.outside import steering
from treadle.agent.result import AnyResult
from treadle.agent.setup import Resumption
from treadle.agent.work import Origin, Work
from treadle.errors import ConfigError, ToolError, TreadleError
from treadle.events import DelegateFinished, DelegateStarted, StopReason
from treadle.journal import ChildBegan, InboxDiscarded
from treadle.messages import Message
from treadle.ports.background import DelegateState, DelegateStatus, OnEnd
from treadle.ports.children import ChildCall, ChildPaused, Delegate, Pause
from treadle.values import unpack
from treadle.view import ChildRun

STATES: Mapping[StopReason, DelegateState] = {
    "answer": "done",
    "limit": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""What has become of an agent that stopped for this reason; of others it is that it "stopped"."""
GONE = "The run that it worked for has ended."
RESTS = "The run that it works for has stopped."
CANCELLED = "The run that it worked for has cancelled it."


class Crew(Protocol):
    """Agents that may work in the background: who, how many, and what becomes of them."""

    @property
    def agents(self) -> Mapping[str, Delegate]:
        """Who they are, by name."""
        ...

    @property
    def max_running(self) -> int:
        """How many may be at work at once."""
        ...

    @property
    def max_started(self) -> int:
        """How many may be started in one run."""
        ...

    @property
    def on_end(self) -> OnEnd:
        """What becomes of those that are at work when the run answers."""
        ...


class Member:
    """One agent in the background: its work, while it is at it, then what it came to.

    `pause` is set while it waits for somebody, or rests with the run, after so many `seconds`.
    """

    __slots__ = ("began_at", "call_id", "final", "id", "name", "pause", "seconds", "task", "work")

    def __init__(self, id: str, name: str, call_id: str, began_at: datetime) -> None:
        self.id = id
        self.name = name
        self.call_id = call_id
        self.began_at = began_at
        self.work: Work | None = None
        self.task: asyncio.Task[None] | None = None
        self.pause: Pause | None = None
        self.seconds = 0.0
        self.final: DelegateStatus | None = None

    @property
    def status(self) -> DelegateStatus:
        """How it is doing."""
        if self.final is not None:
            return self.final
        status = DelegateStatus(
            id=self.id, agent=self.name, state="running", started_at=self.began_at
        )
        if self.work is not None:
            budget = self.work.budget
            seconds = self.seconds if self.pause else time.perf_counter() - self.work.began
            status = replace(status, seconds=seconds, turns=budget.turns, usage=budget.usage)
        if self.pause is None:
            return status
        reason, calls = self.pause.reason, self.pause.pending
        return replace(status, state="waiting", reason=reason, pending=calls)


class AttachedRuns:
    """Runs agents in the background of one run.

    Each is a child run with a path, in the journal of the run: when that is resumed, those that
    were at work go on. When the run stops without an answer they rest with it.
    """

    def __init__(self, work: Work, crew: Crew) -> None:
        self._work = work
        self._crew = crew
        self._members: dict[str, Member] = {}
        self._news = asyncio.Event()

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
        self._check_room()
        work = self._work
        try:
            setup = resolved(work, self._delegate(agent))
        except ConfigError as error:
            raise ToolError(f"{agent} cannot begin: {error}") from error
        member = Member(next_step(work.entered, agent), agent, call_id, datetime.now(UTC))
        began = ChildBegan(
            run_id=work.start.run_id,
            at=member.began_at,
            path=self._path_of(member),
            agent=agent,
            input=Message.user(task),
            background=True,
            flow=setup.flow is not None,
            data={"call": call_id},
        )
        self._members[member.id] = member
        try:
            if work.recorder is not None:
                await work.recorder.ledger.append([began])
        except BaseException:
            del self._members[member.id]
            raise
        work.tell(DelegateStarted, member.id, agent, task)
        self._start(member, began.input)
        self._listen()
        return member.id

    def _check_room(self) -> None:
        crew, members = self._crew, self._members.values()
        if len(members) >= crew.max_started:
            raise ToolError(
                f"{len(members)} delegates were started in this run, which is all it may "
                f"(max_started={crew.max_started}). Do the rest yourself."
            )
        running = [member.id for member in members if member.final is None]
        if len(running) >= crew.max_running:
            raise ToolError(
                f"{len(running)} delegates are at work, and no more may be "
                f"(max_running={crew.max_running}): {', '.join(running)}. Wait for one, or cancel "
                "one."
            )

    def _delegate(self, agent: str) -> Delegate:
        found = self._crew.agents.get(agent)
        if found is None:
            raise ToolError(f"There is no agent {agent!r}; choose {', '.join(self._crew.agents)}.")
        return found

    def _path_of(self, member: Member) -> str:
        return f"{self._work.path}/{member.id}" if self._work.path else member.id

    def _start(self, member: Member, said: Message | None = None) -> None:
        """Let the agent work, with what the journal tells of it where there is one."""
        work = self._work
        origin = Origin(work, ChildCall("", work.span), self._path_of(member), background=True)
        goes_on = None if work.recorder is None else Resumption()
        setup = resolved(work, self._delegate(member.name))
        member.work = child_work(setup, origin, input=said, resumption=goes_on)
        if member.task is None:
            name = f"{work.start.run_id} {origin.path}"
            member.task = asyncio.get_running_loop().create_task(self._carry_out(member), name=name)

    async def _carry_out(self, member: Member) -> None:
        """Let an agent work to its end, however often it has to wait for somebody."""
        while member.work is not None:
            work = member.work
            try:
                result = await carried_out(work)
            except TreadleError as error:
                await self._over(member, "failed", getattr(error, "result", None), str(error))
                return
            if result.stop_reason != "paused":
                await self._over(member, result.stop_reason, result, result.reason)
                return
            member.seconds = result.seconds
            member.pause = Pause(result.reason, tuple(result.pending))
            self._tell()
            if work.stop is not None:
                return  # it rests with the run
            while not self._is_at_work(member):
                await self._news.wait()
            member.pause = None
            self._start(member)

    def _is_at_work(self, member: Member) -> bool:
        """Whether an agent does something, or may: somebody has decided on what it waits for."""
        if member.pause is None or member.final is not None:
            return member.final is None
        recorder = None if member.work is None else member.work.recorder
        if recorder is None:
            return False
        waits = {each.call_id for each in pending(recorder.view)}
        return any(each.call_id not in waits for each in member.pause.pending)

    async def _over(
        self, member: Member, stop_reason: StopReason, result: AnyResult | None, why: str
    ) -> None:
        """Take in what an agent came to."""
        status = member.status
        if result is not None:
            status = replace(status, seconds=result.seconds, turns=result.turns, usage=result.usage)
        output = None if result is None else result.output
        member.final = ended = _ended(status, stop_reason, output, why)
        await self._discard(member)
        member.work = None
        self._work.tell(DelegateFinished, member.id, member.name, stop_reason, ended.error)
        self._tell()

    async def _discard(self, member: Member) -> None:
        """Write that messages were not heard: they came too late."""
        child = member.work
        if child is None or not child.inbox.waiting:
            return
        ids = tuple(child.inbox.waiting)
        child.inbox.waiting.clear()
        if child.recorder is not None:
            entry = InboxDiscarded(run_id=child.start.run_id, at=datetime.now(UTC), ids=ids)
            await child.recorder.write(entry)

    def _listen(self) -> None:
        """Hear of decisions that come from elsewhere."""
        recorder = self._work.recorder
        if recorder is not None and self._tell not in recorder.ledger.listeners:
            recorder.ledger.listeners.append(self._tell)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def status(self, id: str) -> DelegateStatus:
        """Return how one is doing.

        Raises:
            ToolError: this run has none of this ID.
        """
        return self._member(id).status

    def _member(self, id: str) -> Member:
        found = self._members.get(id)
        if found is None:
            known = ", ".join(self._members) or "none was started"
            raise ToolError(f"This run has no delegate {id!r}; there are: {known}.")
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
                while any(self._is_at_work(member) for member in members):
                    await self._news.wait()
        except TimeoutError:
            return
        self._raise_pause(members)

    @staticmethod
    def _raise_pause(members: Collection[Member]) -> None:
        pauses = [member.pause for member in members if member.pause is not None]
        if pauses:
            calls = tuple(call for pause in pauses for call in pause.pending)
            raise ChildPaused(Pause(pauses[0].reason, calls))

    async def cancel(self, id: str) -> None:
        """Stop one, and wait for its end.

        Raises:
            ToolError: this run has none of this ID.
        """
        member = self._member(id)
        await self._stop([member], "cancelled", CANCELLED)

    async def send(self, id: str, text: str, call_id: str) -> None:
        """Say something to one while it works, for a call, which does so only once.

        Raises:
            ToolError: it is over, or this run has none of this ID.
        """
        member, message = self._member(id), steering([text])
        child = member.work
        if child is None:
            raise ToolError(f"{id} is over and hears nothing any more; start another one.")
        message = replace(message, run_id=self._work.start.run_id, id=f"msg_{call_id}")
        recorder = child.recorder
        if recorder is None:
            child.inbox.put(message.id, message.message)
            return
        if message.id in recorder.view.mail.receipts:
            return  # a process that died had said it
        child.inbox.put(message.id, message.message)  # before it ends, or else it is too late
        await recorder.write(message)
        if recorder.at_rest:
            await self._discard(member)
            raise ToolError(f"{id} was over before it could hear that; start another one.")

    def go_on(self) -> None:
        """The run goes on: so does what it had in the background."""
        recorder = self._work.recorder
        for id, child in () if recorder is None else recorder.view.children.items():
            if child.background and id not in self._members:
                self._members[id] = self._taken_up(id, child)
                self._listen()

    def _taken_up(self, id: str, child: ChildRun) -> Member:
        """Return what was in the background when the run stopped; it works if it was not over."""
        record, ended = child.view.runs[self._work.start.run_id], child.ended
        call_id = child.data.get("call", "") if isinstance(child.data, dict) else ""
        member = Member(id, child.agent, str(call_id), record.started_at)
        if ended is not None:
            output = None if ended.output is UNSET else unpack(ended.output)
            status = replace(
                member.status, seconds=record.seconds, turns=ended.turns, usage=ended.usage
            )
            member.final = _ended(status, ended.stop_reason, output, ended.error or "")
            return member
        try:
            self._start(member)
        except TreadleError as error:
            member.final = _ended(member.status, "failed", None, str(error))
        return member

    async def changed(self) -> bool:
        """Wait for news of those that are at work; False when none is."""
        if not any(self._is_at_work(member) for member in self._members.values()):
            return False
        await self._news.wait()
        return True

    async def finish(self) -> None:
        """The run is about to answer: let those end that it waits for.

        Raises:
            ChildPaused: one of them waits for somebody.
        """
        if self._crew.on_end == "wait":
            await self.wait(list(self._members), None)

    async def close(self, ending: Ending) -> None:
        """The run ends this way, or pauses: nothing is at work after that.

        On a pause they work on until they are over, or wait for somebody themselves. When the run
        has answered they are cancelled; else they rest until it is resumed.
        """
        members = self._members.values()
        pauses = ending.stop_reason == "paused"
        if pauses and self._work.stop is None:
            while await self.changed():
                pass
            known = {call.call_id for call in self._work.pending}
            found = [call for each in members if each.pause for call in each.pause.pending]
            self._work.pending += [call for call in found if call.call_id not in known]
        answers = ending.stop_reason in ("answer", "limit")
        await self._stop(list(members), *(("cancelled", GONE) if answers else ("paused", RESTS)))
        recorder = self._work.recorder
        if recorder is not None and self._tell in recorder.ledger.listeners:
            recorder.ledger.listeners.remove(self._tell)

    async def _stop(self, members: Sequence[Member], stop_reason: StopReason, why: str) -> None:
        """Let these end in this way, and wait until they have."""
        tasks = [m.task for m in members if m.task is not None and not m.task.done()]
        if tasks:
            await asyncio.sleep(0)  # all of them have begun after that
        for member in members:
            if member.task is None or member.final is not None:
                continue
            if member.pause is not None:
                member.task.cancel()
            elif member.work is not None and member.work.task is not None:  # it is not ending
                member.work.end_early(Ending(stop_reason=stop_reason, reason=why))
        if tasks:
            await asyncio.wait(tasks)
        if stop_reason != "paused":
            for member in members:
                await self._leave(member, stop_reason, why)

    async def _leave(self, member: Member, stop_reason: StopReason, why: str) -> None:
        """Let one that waited for somebody be over, too."""
        child = member.work
        if member.final is not None or child is None:
            return
        if child.recorder is not None and not child.recorder.at_rest:
            usage, turns = child.budget.usage, child.budget.turns
            end = child.recorder.end(stop_reason, "", usage, turns, error=why)
            await child.recorder.ended(end)
        await self._over(member, stop_reason, None, why)


def _ended(
    status: DelegateStatus, stop_reason: StopReason, output: Any, why: str
) -> DelegateStatus:
    """Return the status of one that has stopped for this reason."""
    state = STATES.get(stop_reason, "stopped")
    status = replace(status, state=state, reason="", pending=())
    try:
        return replace(status, output=told(status.agent, stop_reason, output, why))
    except ToolError as error:
        return replace(status, error=str(error))
