"""The processes of one benchmark: a provider, a worker for each lane, programs started cold."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, getrusage
from typing import IO
from urllib.request import urlopen

import msgspec

from benchmarks.cores import pin, split_cores
from benchmarks.work import ANSWER, expect
from benchmarks.worker import Order, Report

LANES: tuple[str, ...] = ("floor", "treadle", "sdk")

MODULES: Mapping[str, str] = {
    "floor": "benchmarks.floor",
    "treadle": "benchmarks.treadle_loop",
    "sdk": "benchmarks.sdk_loop",
    "in_process": "benchmarks.in_process",
    "flow_served": "benchmarks.flow_served",
}


class LabError(Exception):
    """A process of the benchmark did not do its part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much of a job one round is: `count` units, `slices` times.

    The lanes take turns slice by slice, so that whatever else the machine does hits all of them
    alike. `rounds` is the most rounds a slow lane takes part in; 0 means all of them.
    """

    count: int
    slices: int = 1
    rounds: int = 0

    @property
    def warm_up(self) -> int:
        """How much is done before the first round: all that a slice uses, little in a slow lane."""
        return min(self.count, 10) if self.rounds else self.count


Reports = Mapping[str, Sequence[Sequence[Report]]]
"""For each lane, for each round, the reports of its slices."""


class Worker:
    """One worker process, of this interpreter or of another."""

    def __init__(
        self, module: str, arguments: Sequence[str] = (), python: str = sys.executable
    ) -> None:
        self.module = module
        self._process = subprocess.Popen(  # noqa: S603 - our own module, the user's interpreter
            [python, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=surroundings(),
        )

    def order(self, job: str, count: int) -> Report:
        """Have a job done and return what it cost."""
        into, out = _pipes(self._process)
        try:
            into.write(msgspec.json.encode(Order(job, count)) + b"\n")
            into.flush()
            line = out.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise LabError(
                f"{self.module} ended with exit code {self._process.wait()} before it had done "
                f"{job!r}; what went wrong stands above"
            )
        return msgspec.json.decode(line, type=Report)

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Let the worker end by itself and wait for it."""
        _stop(self._process)


class Lab:
    """Where the measuring is done; `open_lab` makes one."""

    def __init__(
        self, provider: str, *, rounds: int, lanes: Sequence[str], stack: ExitStack
    ) -> None:
        self.provider = provider
        self.rounds = rounds
        self.lanes = lanes
        self._stack = stack
        self._workers: dict[str, Worker] = {}

    def worker(self, name: str) -> Worker:
        """Return the worker of a lane (or `in_process`), started at its first use.

        One that failed at an order has ended; the next measure gets a new one.
        """
        if name not in self._workers or self._workers[name].ended:
            self._workers[name] = self._stack.enter_context(self.fresh_worker(name))
        return self._workers[name]

    @contextmanager
    def fresh_worker(self, name: str) -> Generator[Worker]:
        """Start a worker that has done nothing before, for as long as the context lasts."""
        arguments = [] if name == "in_process" else [self.provider]
        self.run_python("-c", f"import {MODULES[name]}")  # writes the compiled modules it will read
        worker = Worker(MODULES[name], arguments)
        try:
            yield worker
        finally:
            worker.stop()

    def compare(self, job: str, loads: Mapping[str, Load]) -> Reports:
        """Do a job in every lane that has a load, round by round, taking turns."""
        lanes = [lane for lane in self.lanes if lane in loads]
        reports: dict[str, list[list[Report]]] = {lane: [] for lane in lanes}
        for lane in lanes:
            self.worker(lane).order(job, loads[lane].warm_up)
        for number in range(self.rounds):
            present = [lane for lane in lanes if number < (loads[lane].rounds or self.rounds)]
            for lane in present:
                reports[lane].append([])
            for piece in range(max(loads[lane].slices for lane in present)):
                for lane in rotated(present, number + piece):
                    if piece < loads[lane].slices:
                        report = self.worker(lane).order(job, loads[lane].count)
                        reports[lane][-1].append(report)
            tell_progress(f"{job}: round {number + 1} of {self.rounds}")
        return reports

    def run_cold(self, program: str) -> float:
        """Run one of `benchmarks/programs` to its answer; return the CPU seconds of its process."""
        cpu, output = self.run_python("-m", f"benchmarks.programs.{program}", self.provider)
        expect(f"answer of {program}", output.strip(), ANSWER)
        return cpu

    def run_python(self, *arguments: str) -> tuple[float, str]:
        """Run an interpreter to its end; return its CPU seconds and what it printed."""
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603 - our own program, our own interpreter
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=surroundings(),
        )
        after = getrusage(RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise LabError(
                f"python {' '.join(arguments)} ended with exit code {done.returncode}; what went "
                "wrong stands above"
            )
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return cpu, done.stdout

    def connections(self) -> int:
        """Return how many connections the provider has accepted so far."""
        with urlopen(f"{self.provider}/counts") as response:  # noqa: S310 - our own provider
            return msgspec.json.decode(response.read(), type=dict[str, int])["connections"]


def surroundings() -> dict[str, str]:
    """Return the environment of processes that are measured: they read compiled modules.

    One that compiles what it imports has its memory elsewhere, and costs a fifth more for ever.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def open_lab(*, rounds: int, lanes: Sequence[str]) -> Generator[Lab]:
    """Start a provider, and stop it and every worker at the end.

    This process and its workers stay on one core, the provider on another.
    """
    client_core, provider_core = split_cores()
    pin(client_core)
    command = [sys.executable, "-m", "benchmarks.provider"]
    if provider_core is not None:
        command += ["--core", str(provider_core)]
    provider = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with ExitStack() as stack:
        stack.callback(_stop, provider)
        port = _pipes(provider)[1].readline()
        if not port:
            raise LabError(f"the provider did not start: exit code {provider.wait()}")
        address = f"http://127.0.0.1:{int(port)}"
        yield Lab(address, rounds=rounds, lanes=lanes, stack=stack)


def tell_progress(what: str) -> None:
    """Say on the terminal how far things are, over what was said before."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


def rotated(lanes: Sequence[str], by: int) -> Sequence[str]:
    """Return the lanes, beginning with another one each time."""
    start = by % len(lanes)
    return [*lanes[start:], *lanes[:start]]


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise LabError(f"process {process.pid} was started without pipes")
    return process.stdin, process.stdout


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process by ending its input; make it end when it does not."""
    into, out = _pipes(process)
    try:
        into.close()
        process.wait(timeout=10)
    except BrokenPipeError:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    out.close()
