"""What is a step of a flow, and how steps are taken at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec import UNSET, Struct

from treadle.agent.nesting import Nesting
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.ports.children import ChildPaused, Pause
from treadle.state.scoped import StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import Plain
from treadle.view import ChildRun

T = TypeVar("T")


class Step(Struct):
    """A step that begins, or that was begun and goes on, at its `path`; `found` in the journal.

    `attempt` counts how often it has begun. A flow that tells of it in an event with a span of its
    own sets `span`: what happens in the step has that for its parent. `work` is that of a child run
    which was under way in this process.
    """

    name: str
    path: str
    found: ChildRun | None = None
    attempt: int = 1
    span: str = ""
    work: Nesting | None = None

    @property
    def answers(self) -> tuple[dict[str, Any], ...]:
        """What a function has been told that asked."""
        opened = None if self.found is None else self.found.view.open
        return () if opened is None else opened.answers.get(self.path, ())

    @property
    def asked(self) -> ApprovalAsked | None:
        """What a function has asked last."""
        opened = None if self.found is None else self.found.view.open
        return None if opened is None else opened.asked.get(self.path)

    @property
    def decided(self) -> ApprovalDecided | None:
        """What was decided on that."""
        opened = None if self.found is None else self.found.view.open
        return None if opened is None else opened.decided.get(self.path)


class StepEnd(Struct, frozen=True):
    """What a step came to, and where the flow goes `to`. `data` is what the flow keeps of it.

    `usage` is what a function used itself, `writes` what it, or branches, changed in the state.
    """

    output: Any = UNSET
    ok: bool = True
    error: str = ""
    usage: Usage = NOTHING
    writes: tuple[StateWrite, ...] = ()
    to: str = ""
    data: Plain = None


DONE = StepEnd()


async def side_by_side(
    jobs: Iterable[Callable[[], Awaitable[T]]], limit: int | None = None
) -> list[T | Exception]:
    """Run jobs at the same time, at most `limit` of them, and return what each came to, in order.

    Errors are returned; all jobs run to their end. A cancellation stops all, and waits for them.
    """
    jobs = list(jobs)
    places = asyncio.Semaphore(limit) if limit is not None and limit < len(jobs) else None

    async def run(job: Callable[[], Awaitable[T]]) -> T | Exception:
        try:
            if places is None:
                return await job()
            async with places:
                return await job()
        except Exception as error:  # noqa: BLE001 it is returned
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(job)) for job in jobs]
    return [task.result() for task in tasks]


def paused_together(outcomes: Iterable[object]) -> ChildPaused | None:
    """Return the pause that several came to, None when none has paused."""
    pauses = [each.pause for each in outcomes if isinstance(each, ChildPaused)]
    if not pauses:
        return None
    pending = tuple(call for pause in pauses for call in pause.pending)
    return ChildPaused(Pause(pauses[0].reason, pending))
