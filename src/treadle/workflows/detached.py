"""Agents in conversations of their own, which outlive the run that started them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import pending
from treadle.agent.background import CANCELLED
from treadle.agent.ending import Ending
from treadle.agent.member import STATES, Crew, check_room, unknown
from treadle.agent.options import ResumeOptions, RunOptions
from treadle.agent.outside import ask_to_stop, queue, read_view, steering
from treadle.agent.run import Run
from treadle.agent.setup import AgentDelegate, Resumption, RunStart, begin_run, resume_run
from treadle.agent.work import Work
from treadle.errors import (
    ConfigError,
    ConversationFinalized,
    ConversationNotFound,
    ToolError,
)
from treadle.events import DelegateStarted, Event, RunStarted
from treadle.ids import new_stamp
from treadle.journal import ChildLinked
from treadle.ports.background import DelegateStatus
from treadle.ports.children import step_name
from treadle.ports.store import Store
from treadle.run_record import RunRecord
from treadle.values import unpack
from treadle.view import View

NEWS_SECONDS = 5.0
"""How long a store is asked for news at a time, and a run elsewhere is given to stop."""

BEGINS_SECONDS = 0.01
"""How often one that is about to begin is looked at."""


class _Began:
    """An observer that tells when a run has begun."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, RunStarted):
            self.event.set()


class DetachedRuns:
    """Runs agents in conversations of their own for one run, in its store.

    The journal of the run has a link to each, and the metadata of each a link back.
    """

    def __init__(self, work: Work, crew: Crew) -> None:
        if work.start.store is None:
            raise ConfigError(
                "delegates(detached=True) begin conversations of their own, and there is no store "
                "to keep them: pass store=."
            )
        self._store: Store = work.start.store
        self._work = work
        self._crew = crew
        self._links: dict[str, ChildLinked] = {}
        self._runs: dict[str, Run[Any, Any]] = {}
        self._beginning = set[str]()
        self._lock = asyncio.Lock()

    @property
    def ids(self) -> Sequence[str]:
        """The IDs of all that were started, in order."""
        return list(self._links)

    async def begin(self, agent: str, task: str, call_id: str) -> str:
        """Begin a conversation, for a call, and return its ID; a call does so only once.

        Raises:
            ToolError: it cannot, or there are too many.
        """
        link = next((each for each in self._links.values() if each.call_id == call_id), None)
        if link is None:
            async with self._lock:  # calls of one reply begin at the same time
                await self._check_room()
                link = await self._linked(agent, call_id)
            self._work.tell(DelegateStarted, link.link, agent, task)
        try:
            if link.link not in self._runs and await self._look(link) is None:
                await self._start(link, self._begun(link, task))
        finally:
            self._beginning.discard(link.link)
        return link.link

    async def _check_room(self) -> None:
        states = [await self.status(id) for id in self._links]
        check_room(self._crew, len(self._links), [each.id for each in states if not each.is_over])

    async def _linked(self, agent: str, call_id: str) -> ChildLinked:
        """Choose a conversation and a run, and write that they belong to this run."""
        number = sum(link.agent == agent for link in self._links.values()) + 1
        stamp = new_stamp()
        link = ChildLinked(
            run_id=self._work.start.run_id,
            at=datetime.now(UTC),
            link=step_name(agent, number),
            agent=agent,
            conversation_id=f"conv_{stamp}",
            child_run_id=f"run_{stamp}",
            call_id=call_id,
        )
        self._links[link.link] = link
        self._beginning.add(link.link)
        try:
            if self._work.recorder is not None:
                await self._work.recorder.write(link)
        except BaseException:
            del self._links[link.link]
            self._beginning.discard(link.link)
            raise
        return link

    def _begun(self, link: ChildLinked, task: str) -> RunStart:
        """Return what the run of a link begins with."""
        above = self._work.start
        options = RunOptions(
            conversation=link.conversation_id,
            run_id=link.child_run_id,
            store=self._store,
            deps=above.deps,
            metadata={
                **above.metadata,
                "parent_conversation_id": above.conversation_id,
                "parent_run_id": above.run_id,
                "delegate_id": link.link,
            },
        )
        return begin_run(task, options, None)[0]

    async def _start(self, link: ChildLinked, start: RunStart) -> None:
        """Start a run, and wait until its own journal knows of it.

        Raises:
            ToolError: it could not begin.
        """
        began, delegate = _Began(), self._crew.agents.get(link.agent)
        if not isinstance(delegate, AgentDelegate):
            raise ToolError(f"There is no agent {link.agent!r} any more.")
        try:
            delegate.check_deps(start.deps)
            setup = delegate.resolve(self._work.setup.passes)
        except ConfigError as error:
            raise ToolError(f"{link.agent} cannot begin: {error}") from error
        run = self._runs[link.link] = Run(Work(setup, replace(start, observers=(began,))))
        waits = [asyncio.ensure_future(run.result()), asyncio.ensure_future(began.event.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.wait(waits)
            if not waits[0].cancelled():
                waits[0].exception()  # its status tells

    def _link(self, id: str) -> ChildLinked:
        found = self._links.get(id)
        if found is None:
            raise unknown(id, self.ids)
        return found

    async def _look(self, link: ChildLinked) -> View | None:
        """Return the conversation of a link, None where it never began."""
        try:
            view = await read_view(self._store, link.conversation_id)
        except ConversationNotFound:
            return None
        return view if link.child_run_id in view.runs else None

    async def _take_up(self, link: ChildLinked, record: RunRecord) -> None:
        """Go on with a run whose process has died, once; nothing where it is at work."""
        if record.status != "running" or link.link in self._runs:
            return
        await self._start(link, self._resumed(link))

    def _resumed(self, link: ChildLinked, *, cancels: str | None = None) -> RunStart:
        """Return what the run of a link goes on with, or is cancelled with."""
        deps = self._work.start.deps
        options = ResumeOptions(store=self._store, deps=deps, if_busy="raise")
        start = resume_run(link.child_run_id, options, None)
        if cancels is None:
            return start
        return replace(start, resumption=Resumption(on_change="accept", cancels=cancels))

    async def status(self, id: str) -> DelegateStatus:
        """Return how one is doing.

        Raises:
            ToolError: this run has none of this ID.
        """
        link = self._link(id)
        view = await self._look(link)
        if view is None:
            begins = id in self._beginning
            return DelegateStatus(
                id=id,
                agent=link.agent,
                state="running" if begins else "failed",
                started_at=link.at,
                error="" if begins else f"{link.agent} never began.",
                conversation_id=link.conversation_id,
            )
        record = view.runs[link.child_run_id]
        await self._take_up(link, record)
        return _status(link, record, view)

    async def wait(self, ids: Sequence[str], seconds: float | None) -> None:
        """Wait until these are over or wait for somebody, or for so long.

        Raises:
            ToolError: this run has none of this ID.
        """
        links = [self._link(id) for id in ids]
        try:
            async with asyncio.timeout(seconds):
                for link in links:
                    while (await self.status(link.link)).state == "running":
                        view = await self._look(link)
                        if view is None:
                            await asyncio.sleep(BEGINS_SECONDS)
                        elif view.runs[link.child_run_id].status == "running":
                            await self._store.wait(
                                link.conversation_id, view.revision, NEWS_SECONDS
                            )
        except TimeoutError:
            return

    async def cancel(self, id: str) -> None:
        """Stop one, and wait for its end; for a while, where another process has it.

        Raises:
            ToolError: this run has none of this ID.
        """
        link = self._link(id)
        if (await self.status(id)).state == "waiting":
            await self._start(link, self._resumed(link, cancels=CANCELLED))
        run = self._runs.get(id)
        if run is not None and not run.done:
            await run.cancel(CANCELLED)
        elif (await self.status(id)).state == "running":
            await ask_to_stop(self._store, link.conversation_id, CANCELLED)
            await self.wait([id], NEWS_SECONDS)

    async def send(self, id: str, text: str, call_id: str) -> None:
        """Say something to one while it works, for a call, which does so only once.

        Raises:
            ToolError: it is over, or this run has none of this ID.
        """
        link, message = self._link(id), replace(steering([text]), id=f"msg_{call_id}")
        view = await self._look(link)
        if view is not None and message.id in view.mail.receipts:
            return  # a process that died had said it
        if view is not None and _status(link, view.runs[link.child_run_id], view).is_over:
            raise _deaf(id)
        try:
            await queue(self._store, link.conversation_id, message)
        except (ConversationFinalized, ConversationNotFound) as error:
            raise _deaf(id) from error

    def go_on(self) -> None:
        """The run goes on: it knows what it had started."""
        if self._work.recorder is not None:
            self._links.update(self._work.recorder.view.links)

    async def changed(self) -> bool:
        """The run waits for none of them."""
        return False

    async def finish(self) -> None:
        """They outlive the run."""

    async def close(self, ending: Ending) -> None:
        """They outlive the run."""


def _deaf(id: str) -> ToolError:
    return ToolError(f"{id} is over and hears nothing any more; start another one.")


def _status(link: ChildLinked, record: RunRecord, view: View) -> DelegateStatus:
    """Return what the journal of its own tells of a run."""
    status = DelegateStatus(
        id=link.link,
        agent=link.agent,
        state="running",
        started_at=record.started_at,
        seconds=record.seconds,
        turns=record.turns,
        usage=replace(record.usage, tool_calls=record.tool_calls),
        conversation_id=link.conversation_id,
    )
    if record.status == "running":
        return status
    if record.status == "paused":
        calls = tuple(pending(view))
        return replace(status, state="waiting", reason=record.reason, pending=calls)
    if record.status == "answered":
        output = record.text if record.output is UNSET else unpack(record.output)
        return replace(status, state="done", output=output)
    stop = record.stop_reason
    why = record.error or record.reason or f"{link.agent} stopped without an answer ({stop})."
    return replace(status, state=STATES.get(stop, "stopped") if stop else "stopped", error=why)
