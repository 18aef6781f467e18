"""Processes are killed, frozen, and raced against each other; every store keeps its word."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.crash.cases import AGENT
from tests.crash.checks import reference, wrong
from tests.crash.going import conversation_of
from tests.crash.killing import ANSWERS, EFFECTS, HELD
from tests.crash.nursery import ROOT
from tests.crash.scenario import ANSWERED, LOST, PAUSED
from tests.crash.sweep import KILLED, Sweep
from tests.databases import KINDS, url_of
from treadle.journal import RunResumed
from treadle.ports.store import Batch
from treadle.stores.open import open_store

pytestmark = pytest.mark.e2e
T = TypeVar("T")

HIT = (1, 58, 88)  # the beginning, the call that was approved, the message that steers
RESUMERS = 8
LEASE = 1.0
LINGER = 0.2
LONGEST = 60.0


@pytest.fixture(params=["sqlite", "file", *KINDS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind; servers that are not installed are skipped."""
    match request.param:
        case "sqlite":
            return f"sqlite:///{tmp_path}/chat.db"
        case "file":
            return f"file:{tmp_path}/chats"
        case kind:
            return url_of(kind)


def test_kills_before_and_after_appends(url: str, tmp_path: Path) -> None:
    """J1, J3, J4, J5, S56: nothing acknowledged is lost, nothing that finished is done again."""
    sweep = Sweep(AGENT, url, tmp_path, kills=12, seed=1, report=lambda _: None)
    sweep.run(HIT, deaths=6)

    assert sweep.violations == []
    assert sweep.kills >= 12


class Story:
    """One run in an SQLite file, and the processes that work on it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/chat.db"
        self.run_id = "r"
        self.folder = folder

    def begin(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a process."""
        command = [sys.executable, "-m", "tests.crash.scenario"]
        return subprocess.Popen(
            [*command, self.url, self.run_id, str(self.folder), *options], cwd=ROOT
        )

    def live(self, *options: str) -> int:
        """Let a process do its part; return how it ended."""
        return self.begin(*options).wait(LONGEST)

    def look(self, look: Callable[[Any], Awaitable[T]]) -> T:
        """Look into the store with a new handle."""

        async def opened() -> T:
            store = open_store(self.url)
            try:
                return await look(store)
            finally:
                await store.close()

        return asyncio.run(opened())

    def journal(self) -> Sequence[Batch]:
        """Return the journal as it is."""
        return self.look(lambda store: store.read(conversation_of(self.run_id)))

    def problems(self, kills: int) -> list[str]:
        """Return what is wrong with the run when it has ended."""
        expected = asyncio.run(reference())
        return self.look(lambda store: wrong(store, self.run_id, self.folder, expected, kills))

    def lines(self, name: str) -> list[str]:
        """Return what processes told in a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A run that has not begun."""
    return Story(tmp_path)


def resumed(batches: Iterable[Batch]) -> int:
    """How often the run was resumed."""
    return sum(isinstance(entry, RunResumed) for batch in batches for entry in batch.entries)


def test_one_of_many_resumers_does_the_work(story: Story) -> None:
    """J7: the others wait for it and get its result."""
    assert story.live() == PAUSED
    assert story.live("--approve", "--kill-after", "20") == KILLED
    before = resumed(story.journal())
    processes = [story.begin() for _ in range(RESUMERS)]

    assert [process.wait(LONGEST) for process in processes] == [ANSWERED] * RESUMERS
    assert resumed(story.journal()) == before + 1
    answers = story.lines(ANSWERS)
    assert len(answers) == RESUMERS
    assert len(set(answers)) == 1
    assert story.problems(kills=1) == []
    calls = [line.split()[1] for line in story.lines(EFFECTS)]
    assert len(calls) - len(set(calls)) <= 1, "of a call that was killed, which may run again"


@pytest.mark.parametrize("where", ["model", "tool"])
def test_a_frozen_owner_that_wakes_cannot_append(story: Story, where: str) -> None:
    """J7: its lease has ended, another process has finished the run, and the journal stays."""
    lease = ("--lease", str(LEASE))
    frozen = story.begin(*lease, "--hold", f"{where}:5:{LINGER}")
    await_line(story, HELD)
    frozen.send_signal(signal.SIGSTOP)
    try:
        assert story.live(*lease) == PAUSED
        assert story.live(*lease, "--approve") == ANSWERED
        before = story.journal()
    finally:
        frozen.send_signal(signal.SIGCONT)

    assert frozen.wait(LONGEST) == LOST
    assert story.journal() == before
    assert story.problems(kills=1) == []
    assert resumed(before) == 2


def await_line(story: Story, name: str) -> None:
    """Wait until a process has told something in a file."""
    until = time.monotonic() + LONGEST
    while not story.lines(name):
        assert time.monotonic() < until
        time.sleep(0.005)  # noqa: TID251 nothing tells when a file is written
