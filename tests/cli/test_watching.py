"""Watching a run to its end, or to where somebody has enough."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli import agents
from treadle import AuthenticationFailed, ToolStarted
from treadle.cli.watching import watch
from treadle.events import AnyEvent


async def test_the_result_comes_after_all_events() -> None:
    """The last event is shown before the result is there."""
    shown: list[AnyEvent] = []

    result = await watch(agents.adder.start("20 + 3?"), shown.append)

    assert result.output == "It is 23."
    assert shown[-1].type == "run.finished"


async def test_a_failed_run_raises() -> None:
    """The error is the run's own, with what there is."""
    with pytest.raises(AuthenticationFailed):
        await watch(agents.failing.start("hello"), lambda _: None)


async def test_a_cancel_gives_what_there_was() -> None:
    """Cancelling the watcher ends the run; the events of its end are shown too."""
    shown: list[AnyEvent] = []
    begun = asyncio.Event()

    def show(event: AnyEvent) -> None:
        shown.append(event)
        if isinstance(event, ToolStarted):
            begun.set()

    watching = asyncio.ensure_future(watch(agents.waiter.start("wait"), show))
    await begun.wait()
    watching.cancel()
    result = await watching

    assert result.stop_reason == "cancelled"
    assert [event.type for event in shown[-2:]] == ["tool.finished", "run.finished"]


async def test_whoever_cannot_show_ends_the_run() -> None:
    """Nothing goes on unseen after the output is gone."""
    run = agents.waiter.start("wait")

    def show(event: AnyEvent) -> None:
        if isinstance(event, ToolStarted):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await watch(run, show)
    assert run.done
