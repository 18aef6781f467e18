"""Kill a run before and after each of its appends, and again and again: does anything get lost?

`python -m tests.crash.sweep --url sqlite --story swarm` shows how far it is, and a table. It exits
with 1 when anything was not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from tests.crash.cases import CASES, Case
from tests.crash.checks import lost
from tests.crash.killing import ACKNOWLEDGED
from tests.crash.nursery import Nursery
from tests.crash.scenario import ANSWERED, PAUSED
from tests.databases import KINDS as KINDS_OF_SERVERS
from tests.databases import running
from treadle.stores.open import open_store

Kind = Literal["before", "after", "harsh"]
KINDS: tuple[Kind, ...] = ("before", "after", "harsh")
KILLED = -9
AT_ONCE = 2
MOST_PROCESSES = 2_000
LONGEST_LIFE = 60.0  # milliseconds of a process that is killed at a random time


@dataclass(kw_only=True)
class Trial:
    """One run on its way through processes, to its end: how often was it killed, what was wrong."""

    case: Case
    url: str
    run_id: str
    folder: Path
    nursery: Nursery
    processes: int = 0
    kills: int = 0
    paused: int = 0
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
        place = [self.url, self.run_id, str(self.folder), "--story", self.case.name]
        code = self.nursery.run([*place, *approve, *options])
        if code == KILLED:
            self.kills += 1
            self.problems += self._look(lambda store: lost(store, self.run_id, self.folder))
        elif code == PAUSED:
            self.paused += 1
            if self.paused > self.case.pauses:
                self.problems.append("it paused again after it had been approved")
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

    def judge(self, expected: Any) -> None:
        """Look at how it ended."""
        if self.answered:
            wrong, told = self.case.wrong, (self.run_id, self.folder, expected, self.kills)
            self.problems += self._look(lambda store: wrong(store, *told))

    def _look(self, look: Callable[[Any], Any]) -> list[str]:
        """Look with a new handle, as any other process would."""

        async def opened() -> list[str]:
            store = open_store(self.url)
            try:
                return await look(store)
            finally:
                await store.close()

        return asyncio.run(opened())


def die_once(trial: Trial, kind: Literal["before", "after"], number: int) -> None:
    """Kill the run before or after its N-th append, if it gets there, and let it finish."""
    while not trial.over and not trial.kills:
        left = number - trial.appends
        if left < 1:
            break
        trial.live(f"--kill-{kind}", str(left))
    trial.finish()


def die_often(trial: Trial, chance: random.Random, most: int) -> None:
    """Kill every process of the run, until one is quick enough or `most` are dead."""
    while not trial.over and trial.kills < most:
        if chance.random() < 0.3:
            trial.live("--kill-at", f"{chance.uniform(1, LONGEST_LIFE):.2f}")
        else:
            trial.live(
                f"--kill-{chance.choice(('before', 'after'))}",
                str(chance.randint(2, trial.case.life)),
            )
    trial.finish()


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
        self,
        case: Case,
        url: str,
        folder: Path,
        *,
        kills: int,
        seed: int,
        report: Callable[[str], None],
    ) -> None:
        self._case = case
        self._url = url
        self._folder = folder
        self._wanted = kills
        self._seed = seed
        self._report = report
        self._lock = threading.Lock()
        self._mark = secrets.token_hex(3)
        self.expected = asyncio.run(case.reference())
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
        trial = Trial(case=self._case, nursery=nursery, url=self._url, run_id=run_id, folder=folder)
        if kind == "harsh":
            die_often(trial, random.Random(f"{self._seed} {number}"), deaths)  # noqa: S311
        else:
            die_once(trial, kind, number)
        trial.judge(self.expected)
        with self._lock:
            self._note(kind, trial)

    def _note(self, kind: Kind, trial: Trial) -> None:
        if kind != "harsh" and not trial.kills:
            self.ended = True
        sum_of = self.counts[kind]
        sum_of.runs += 1
        sum_of.processes += trial.processes
        sum_of.kills += trial.kills
        sum_of.violations += len(trial.problems)
        self.violations += [f"{trial.run_id}: {problem}" for problem in trial.problems]
        runs = sum(each.runs for each in self.counts.values())
        self._report(f"{runs} runs, {self.kills} kills, {len(self.violations)} violations")


def lines_of(sweep: Sweep, names: str, seconds: float) -> Iterator[str]:
    """Yield the lines of the table for one story on one store, and what was wrong."""
    total = Count()
    for kind in KINDS:
        each = sweep.counts[kind]
        yield f"{names}{kind:8}{_row(each)}"
        total.runs += each.runs
        total.processes += each.processes
        total.kills += each.kills
        total.violations += each.violations
    yield f"{names}{'all':8}{_row(total)}{seconds:8.0f} s{total.kills / seconds:7.1f} kills/s"
    yield from sweep.violations


def _row(row: Count) -> str:
    return f"{row.runs:8}{row.processes:12}{row.kills:8}{row.violations:12}"


@contextmanager
def place_of(url: str, folder: Path) -> Generator[str]:
    """Give the URL of a store: the one that is named, or one of its kind that is ours alone."""
    if url == "sqlite":
        yield f"sqlite:///{folder}/chat.db"
    elif url == "file":
        yield f"file:{folder}/chats"
    elif url in KINDS_OF_SERVERS:
        with running(url, durable=True) as server:
            yield server.url
    else:
        yield url


def sweep_one(
    url: str, cases: Sequence[Case], *, kills: int | None, seed: int
) -> tuple[list[str], bool]:
    """Sweep one store; return the lines to show, and whether all was well."""
    lines, well, name = list[str](), True, url.partition(":")[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="treadle-crash-")))
        place = stack.enter_context(place_of(url, folder))
        for case in cases:
            names, started = f"{case.name:12}{name:12}", time.monotonic()
            most = case.kills if kills is None else kills
            report = partial(_progress, names)
            sweep = Sweep(case, place, folder, kills=most, seed=seed, report=report)
            sweep.run()
            lines += lines_of(sweep, names, time.monotonic() - started)
            well = well and not sweep.violations
            print()
    return lines, well


def main(arguments: Sequence[str]) -> int:
    """Sweep each story on each store, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.sweep", description=__doc__)
    every = ["sqlite", "file", *KINDS_OF_SERVERS]
    parser.add_argument(
        "--url",
        action="append",
        help=f"a store, or a kind of store, which gets a place of its own: {', '.join(every)} "
        "(those of each story); may be given several times",
    )
    parser.add_argument(
        "--story", action="append", choices=CASES, help="what is killed (all); may be repeated"
    )
    parser.add_argument("--kills", type=int, help="at least so many a story and store")
    parser.add_argument("--seed", type=int, default=1, help="for what is random (1)")
    options = parser.parse_args(arguments)
    chosen = [CASES[name] for name in options.story or CASES]
    lines = [f"{'story':12}{'store':12}{'killed':8}{_HEADS}"]
    well = True
    for url in options.url or every:
        cases = chosen if options.url else [each for each in chosen if url in each.stores]
        if cases:
            shown, fine = sweep_one(url, cases, kills=options.kills, seed=options.seed)
            lines += shown
            well = well and fine
    print(*lines, sep="\n")
    return int(not well)


_HEADS = f"{'runs':>8}{'processes':>12}{'kills':>8}{'violations':>12}"


def _progress(names: str, text: str) -> None:
    print(f"\r{names}{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
