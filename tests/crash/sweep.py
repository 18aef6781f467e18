"""Kill a run before and after each of its appends, and again and again: does anything get lost?

`python -m tests.crash.sweep --url sqlite:////tmp/crash.db` shows how far it is, and a table. It
exits with 1 when anything was not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from tests.crash.checks import Reference, lost, reference, wrong
from tests.crash.killing import ACKNOWLEDGED
from tests.crash.nursery import Nursery
from tests.crash.scenario import ANSWERED, PAUSED
from treadle.stores.open import open_store

Kind = Literal["before", "after", "harsh"]
KINDS: tuple[Kind, ...] = ("before", "after", "harsh")
KILLED = -9
AT_ONCE = 2
MOST_PROCESSES = 2_000
LONGEST_LIFE = 60.0  # milliseconds of a process that is killed at a random time


@dataclass(kw_only=True)
class Story:
    """One run on its way through processes, to its end: how often was it killed, what was wrong."""

    url: str
    run_id: str
    folder: Path
    nursery: Nursery
    processes: int = 0
    kills: int = 0
    paused: bool = False
    answered: bool = False
    problems: list[str] = field(default_factory=list[str])

    @property
    def over(self) -> bool:
        """Whether nothing more can happen."""
        return self.answered or bool(self.problems)

    @property
    def appends(self) -> int:
        """How many appends its processes have made."""
        path = self.folder / ACKNOWLEDGED
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def live(self, *options: str) -> None:
        """Let one more process do its part, and see how it ended."""
        self.processes += 1
        approve = ["--approve"] if self.paused else []
        code = self.nursery.run([self.url, self.run_id, str(self.folder), *approve, *options])
        if code == KILLED:
            self.kills += 1
            self.problems += self._look(lambda store: lost(store, self.run_id, self.folder))
        elif code == PAUSED:
            if self.paused and "--approve" in approve:
                self.problems.append("it paused again after it had been approved")
            self.paused = True
        elif code == ANSWERED:
            self.answered = True
        else:
            self.problems.append(f"a process ended with {code}: {self.nursery.said()}")
        if self.processes == MOST_PROCESSES:
            self.problems.append(f"no end after {self.processes} processes")

    def finish(self) -> None:
        """Let it come to its end undisturbed."""
        while not self.over:
            self.live()

    def judge(self, expected: Reference) -> None:
        """Look at how it ended."""
        if self.answered:
            self.problems += self._look(
                lambda store: wrong(store, self.run_id, self.folder, expected, self.kills)
            )

    def _look(self, look: Callable[[Any], Any]) -> list[str]:
        """Look with a new handle, as any other process would."""

        async def opened() -> list[str]:
            store = open_store(self.url)
            try:
                return await look(store)
            finally:
                await store.close()

        return asyncio.run(opened())


def die_once(story: Story, kind: Literal["before", "after"], number: int) -> None:
    """Kill the run before or after its N-th append, if it gets there, and let it finish."""
    while not story.over and not story.kills:
        left = number - story.appends
        if left < 1:
            break
        story.live(f"--kill-{kind}", str(left))
    story.finish()


def die_often(story: Story, chance: random.Random, most: int) -> None:
    """Kill every process of the run, until one is quick enough or `most` are dead."""
    while not story.over and story.kills < most:
        if chance.random() < 0.3:
            story.live("--kill-at", f"{chance.uniform(1, LONGEST_LIFE):.2f}")
        else:
            story.live(f"--kill-{chance.choice(('before', 'after'))}", str(chance.randint(2, 5)))
    story.finish()


@dataclass(kw_only=True)
class Count:
    """What came of all runs of one kind."""

    runs: int = 0
    processes: int = 0
    kills: int = 0
    violations: int = 0


class Sweep:
    """All runs on one store, some at once."""

    def __init__(
        self, url: str, folder: Path, *, kills: int, seed: int, report: Callable[[str], None]
    ) -> None:
        self._url = url
        self._folder = folder
        self._wanted = kills
        self._seed = seed
        self._report = report
        self._lock = threading.Lock()
        self._mark = secrets.token_hex(3)
        self.expected = asyncio.run(reference())
        self.counts: dict[Kind, Count] = defaultdict(Count)
        self.violations: list[str] = []
        self.ended = False  # a number of an append was higher than there are

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(each.kills for each in self.counts.values())

    def run(self, numbers: Iterable[int] | None = None, *, deaths: int = MOST_PROCESSES) -> None:
        """Kill at every append, or at those of these numbers, then often, up to `deaths` a run."""
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
            logs = (self._folder / f"log-{number}" for number in range(AT_ONCE))
            free = [stack.enter_context(Nursery(log, self._url)) for log in logs]
            work = self._work(count(1) if numbers is None else numbers)
            list(pool.map(partial(self._take, work, deaths), free))

    def _work(self, numbers: Iterable[int]) -> Iterator[tuple[Kind, int]]:
        for number in numbers:
            if self.ended:
                break
            yield "before", number
            yield "after", number
        harsh = 0
        while self.kills < self._wanted or not harsh:
            harsh += 1
            yield "harsh", harsh

    def _take(self, work: Iterator[tuple[Kind, int]], deaths: int, nursery: Nursery) -> None:
        while True:
            with self._lock:
                taken = next(work, None)
            if taken is None:
                return
            self._one(*taken, nursery, deaths)

    def _one(self, kind: Kind, number: int, nursery: Nursery, deaths: int) -> None:
        run_id = f"{self._mark}-{kind}-{number}"
        folder = self._folder / run_id
        folder.mkdir()
        story = Story(url=self._url, run_id=run_id, folder=folder, nursery=nursery)
        if kind == "harsh":
            die_often(story, random.Random(f"{self._seed} {number}"), deaths)  # noqa: S311
        else:
            die_once(story, kind, number)
        story.judge(self.expected)
        with self._lock:
            self._note(kind, story)

    def _note(self, kind: Kind, story: Story) -> None:
        if kind != "harsh" and not story.kills:
            self.ended = True
        sum_of = self.counts[kind]
        sum_of.runs += 1
        sum_of.processes += story.processes
        sum_of.kills += story.kills
        sum_of.violations += len(story.problems)
        self.violations += [f"{story.run_id}: {problem}" for problem in story.problems]
        runs = sum(each.runs for each in self.counts.values())
        self._report(f"{runs} runs, {self.kills} kills, {len(self.violations)} violations")


def table(sweep: Sweep, seconds: float) -> Iterator[str]:
    """Yield the lines of the table at the end."""
    yield f"{'killed':10}{'runs':>8}{'processes':>12}{'kills':>8}{'violations':>12}"
    total = Count()
    for kind in KINDS:
        each = sweep.counts[kind]
        yield _row(kind, each)
        total.runs += each.runs
        total.processes += each.processes
        total.kills += each.kills
        total.violations += each.violations
    yield _row("all", total)
    yield f"{seconds:.0f} s, {total.kills / seconds:.1f} kills a second"


def _row(name: str, row: Count) -> str:
    numbers = f"{row.runs:8}{row.processes:12}{row.kills:8}{row.violations:12}"
    return f"{name:10}{numbers}"


def main(arguments: Sequence[str]) -> int:
    """Sweep one store, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.sweep", description=__doc__)
    parser.add_argument("--url", required=True, help="the store, for example sqlite:////tmp/c.db")
    parser.add_argument("--kills", type=int, default=500, help="at least so many (500)")
    parser.add_argument("--seed", type=int, default=1, help="for what is random (1)")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="treadle-crash-") as folder:
        sweep = Sweep(
            options.url, Path(folder), kills=options.kills, seed=options.seed, report=_progress
        )
        sweep.run()
    print()
    print(*sweep.violations, sep="\n", end="\n" if sweep.violations else "")
    print(*table(sweep, time.monotonic() - started), sep="\n")
    return int(bool(sweep.violations))


def _progress(text: str) -> None:
    print(f"\r{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
