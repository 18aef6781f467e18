"""One agent that works in the background of a run, from its first step to what it came to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import pending
from treadle.agent.children import carried_out, child_work, resolved, told
from treadle.agent.ending import Ending
from treadle.agent.outside import steering
from treadle.agent.result import AnyResult
from treadle.agent.setup import Resumption
from treadle.agent.work import Origin, Work
from treadle.errors import ToolError, TreadleError
from treadle.events import DelegateFinished, StopReason
from treadle.journal import InboxDiscarded
from treadle.messages import Message
from treadle.ports.background import DelegateState, DelegateStatus, OnEnd
from treadle.ports.children import ChildCall, Delegate, Pause
from treadle.values import unpack
from treadle.values.logs import logger
from treadle.view import ChildRun

log = logger(__name__)

STATES: Mapping[StopReason, DelegateState] = {
    "answer": "done",
    "limit": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""What has become of an agent that stopped for this reason; of others it is that it "stopped"."""


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


def member_of(crew: Crew, agent: str) -> Delegate:
    """Return who does the work of an agent.

    Raises:
        ToolError: there is no such agent.
    """
    found = crew.agents.get(agent)
    if found is None:
        raise ToolError(f"There is no agent {agent!r}; choose {', '.join(crew.agents)}.")
    return found


def check_room(crew: Crew, started: int, running: Sequence[str]) -> None:
    """Refuse one more where so many were started, and these are at work.

    Raises:
        ToolError: there are too many; the text says what to do.
    """
    if started >= crew.max_started:
        raise ToolError(
            f"{started} delegates were started in this run, which is all it may "
            f"(max_started={crew.max_started}). Do the rest yourself."
        )
    if len(running) >= crew.max_running:
        raise ToolError(
            f"{len(running)} delegates are at work, and no more may be "
            f"(max_running={crew.max_running}): {', '.join(running)}. Wait for one, or cancel one."
        )


def unknown(id: str, ids: Sequence[str]) -> ToolError:
    """Return the error that a run has not started what is asked for."""
    known = ", ".join(ids) or "none was started"
    return ToolError(f"This run has no delegate {id!r}; there are: {known}.")


class News:
    """What several wait for: that anything happens."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Wake all that wait."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait until something happens."""
        await self._event.wait()


class Member:
    """One agent in the background: its work, while it is at it, then what it came to.

    `pause` is set while it waits for somebody, or rests with the run, after so many `seconds`.
    `final` is its status when it is over. It tells its `news`.
    """

    def __init__(self, above: Work, crew: Crew, news: News, id: str, agent: str) -> None:
        self._above = above
        self._crew = crew
        self._news = news
        self.id = id
        self.agent = agent
        self.path = f"{above.path}/{id}" if above.path else id
        self.call_id = ""
        self.began_at = datetime.now(UTC)
        self.work: Work | None = None
        self.task: asyncio.Task[None] | None = None
        self.pause: Pause | None = None
        self.seconds = 0.0
        self.final: DelegateStatus | None = None
        self._stops = False

    @property
    def status(self) -> DelegateStatus:
        """How it is doing."""
        if self.final is not None:
            return self.final
        began_at = self.began_at
        status = DelegateStatus(id=self.id, agent=self.agent, state="running", started_at=began_at)
        if self.work is not None:
            budget = self.work.budget
            seconds = self.seconds if self.pause else time.perf_counter() - self.work.began
            status = replace(status, seconds=seconds, turns=budget.turns, usage=budget.usage)
        if self.pause is None:
            return status
        reason, calls = self.pause.reason, self.pause.pending
        return replace(status, state="waiting", reason=reason, pending=calls)

    @property
    def is_at_work(self) -> bool:
        """Whether it does something, or may: somebody has decided on what it waits for."""
        if self.pause is None or self.final is not None:
            return self.final is None
        recorder = None if self.work is None else self.work.recorder
        if recorder is None:
            return False
        waits = {each.call_id for each in pending(recorder.view)}
        return any(each.call_id not in waits for each in self.pause.pending)

    def start(self, said: Message | None = None) -> None:
        """Work, with what the journal tells of it where there is one.

        Raises:
            TreadleError: it cannot.
        """
        self._prepare(said)
        name = f"{self._above.start.run_id} {self.path}"
        self.task = asyncio.get_running_loop().create_task(self._carry_out(), name=name)

    def _prepare(self, said: Message | None = None) -> None:
        above = self._above
        setup = resolved(above, member_of(self._crew, self.agent))
        origin = Origin(above, ChildCall("", above.span), self.path, background=True)
        goes_on = None if above.recorder is None else Resumption()
        self.work = child_work(setup, origin, input=said, resumption=goes_on)

    def take_up(self, child: ChildRun) -> None:
        """Go on with what the journal tells of it: it works if it was not over."""
        record, ended = child.view.runs[self._above.start.run_id], child.ended
        self.began_at = record.started_at
        if isinstance(child.data, dict):
            self.call_id = str(child.data.get("call", ""))
        if ended is not None:
            output = None if ended.output is UNSET else unpack(ended.output)
            status = replace(
                self.status, seconds=record.seconds, turns=ended.turns, usage=ended.usage
            )
            self.final = _ended(status, ended.stop_reason, output, ended.error or "")
            return
        try:
            self.start()
        except TreadleError as error:
            self.final = _ended(self.status, "failed", None, str(error))

    async def _carry_out(self) -> None:
        """Work to the end, however often it has to wait for somebody."""
        try:
            while self.work is not None:
                work = self.work
                result = await carried_out(work)
                if result.stop_reason != "paused":
                    await self._over(result.stop_reason, result, result.reason)
                    return
                self.seconds = result.seconds
                self.pause = Pause(result.reason, tuple(result.pending))
                self._news.tell()
                if work.stop is not None or self._stops:
                    return  # it rests with the run
                while not self.is_at_work:
                    await self._news.wait()
                self.pause = None
                self._prepare()
        except TreadleError as error:
            await self._over("failed", getattr(error, "result", None), str(error))

    async def _over(self, stop_reason: StopReason, result: AnyResult | None, why: str) -> None:
        """Take in what it came to."""
        status = self.status
        if result is not None:
            status = replace(status, seconds=result.seconds, turns=result.turns, usage=result.usage)
        output = None if result is None else result.output
        self.final = ended = _ended(status, stop_reason, output, why)
        try:
            await self._discard()
        except Exception:  # the run itself hears of it with its own next write
            log.exception("messages to %s could not be discarded", self.id)
        self.work = None
        self._above.tell(DelegateFinished, self.id, self.agent, stop_reason, ended.error)
        self._news.tell()

    async def _discard(self) -> None:
        """Write that messages were not heard: they came too late."""
        child = self.work
        if child is None or not child.inbox.waiting:
            return
        ids = tuple(child.inbox.waiting)
        child.inbox.waiting.clear()
        if child.recorder is not None:
            entry = InboxDiscarded(run_id=child.start.run_id, at=datetime.now(UTC), ids=ids)
            await child.recorder.write(entry)

    async def hear(self, text: str, call_id: str) -> None:
        """Take in what is said to it, for a call, which does so only once.

        Raises:
            ToolError: it is over.
        """
        message, child = steering([text]), self.work
        if child is None:
            raise ToolError(f"{self.id} is over and hears nothing any more; start another one.")
        message = replace(message, run_id=self._above.start.run_id, id=f"msg_{call_id}")
        recorder = child.recorder
        if recorder is None:
            child.inbox.put(message.id, message.message)
            return
        if message.id in recorder.view.mail.receipts:
            return  # a process that died had said it
        child.inbox.put(message.id, message.message)  # before it ends, or else it is too late
        await recorder.write(message)
        if recorder.at_rest:
            await self._discard()
            raise ToolError(f"{self.id} was over before it could hear that; start another one.")

    def stop(self, stop_reason: StopReason, why: str) -> None:
        """End in this way, as soon as what is under way lets go; its task has begun."""
        self._stops = True
        if self.task is None or self.final is not None:
            return
        if self.pause is not None:
            self.task.cancel()
        elif self.work is not None and self.work.task is not None:  # it is not ending
            self.work.end_early(Ending(stop_reason=stop_reason, reason=why))

    async def leave(self, stop_reason: StopReason, why: str) -> None:
        """Be over, where it waited for somebody."""
        child = self.work
        if self.final is not None or child is None:
            return
        if child.recorder is not None and not child.recorder.at_rest:
            usage, turns = child.budget.usage, child.budget.turns
            end = child.recorder.end(stop_reason, "", usage, turns, error=why)
            await child.recorder.ended(end)
        await self._over(stop_reason, None, why)


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
