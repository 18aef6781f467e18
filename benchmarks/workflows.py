"""`python -m benchmarks.workflows`: what nodes, handoffs and branches cost around their models.

All models answer at once and nothing goes over a network. With `--peers PYTHON`, an interpreter
that has `langgraph`, `langgraph-swarm`, `langchain`, `openai-agents` and `msgspec`, the same work
is done with them too, and Treadle's cost is held against theirs.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from benchmarks.cores import pin, split_cores
from benchmarks.flow_work import AGENT_NODES, BRANCHES, HANDOFFS, NODES, TURNS
from benchmarks.lab import LabError, Worker, rotated, tell_progress
from benchmarks.table import Row, aligned, pairwise, spread
from benchmarks.worker import Report

ROUNDS = 9
QUICK_ROUNDS = 3
HALF = 0.5
"""The most that Treadle may cost of what a peer costs."""

OWN: Mapping[str, str] = {"floor": "benchmarks.flow_floor", "treadle": "benchmarks.flow_treadle"}
PEERS: Mapping[str, str] = {
    "langgraph": "benchmarks.programs.peer_langgraph",
    "openai_agents": "benchmarks.programs.peer_openai_agents",
}
LIBRARIES = ("langgraph", "langgraph-swarm", "langchain", "openai-agents")

CALLS = ("Python calls", "C calls")

Clock = Literal["cpu", "wall"]


class Lane(msgspec.Struct, frozen=True):
    """One way of doing a measure's work: a worker's job, so many runs of it in one slice.

    `held` is the title of the lane whose cost is told as a multiple of this one's, and `target` the
    most that it may be.
    """

    title: str
    worker: str
    job: str
    runs: int = 1
    held: str = "Treadle"
    target: float | None = None


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """Work that several lanes do, and how many units of it one run has."""

    what: str
    units: int
    lanes: Sequence[Lane]
    clocks: Sequence[Clock] = ("cpu",)
    slices: int = 3


MEASURES: Mapping[str, Measure] = {
    "nodes": Measure(
        what="a node that is a function",
        units=NODES,
        lanes=[
            Lane("by hand", "floor", "nodes", 50),
            Lane("Treadle", "treadle", "nodes", 4),
            Lane("LangGraph", "langgraph", "nodes", target=HALF),
            Lane("LangGraph, invoke", "langgraph", "nodes_in_sync", target=HALF),
        ],
    ),
    "kept": Measure(
        what="a node that is a function, each step kept in memory",
        units=NODES,
        lanes=[
            Lane("Treadle", "treadle", "kept_nodes", 4),
            Lane("LangGraph", "langgraph", "kept_nodes", target=HALF),
            Lane("LangGraph, invoke", "langgraph", "kept_nodes_in_sync", target=HALF),
        ],
    ),
    "agents": Measure(
        what="a node that is an agent of one turn",
        units=AGENT_NODES,
        lanes=[
            Lane("by hand", "floor", "agent_nodes", 50),
            Lane("Treadle", "treadle", "agent_nodes", 2),
            Lane("LangGraph, a model in a node", "langgraph", "agent_nodes", target=HALF),
            Lane("LangGraph, the same, invoke", "langgraph", "agent_nodes_in_sync", target=HALF),
            Lane("LangGraph, create_agent", "langgraph", "whole_agent_nodes", target=HALF),
            Lane("OpenAI Agents, Runner.run", "openai_agents", "agent_nodes", target=HALF),
        ],
    ),
    "handoffs": Measure(
        what=f"a handoff, {HANDOFFS} in a run",
        units=HANDOFFS,
        lanes=[
            Lane("by hand", "floor", "handoffs", 100),
            Lane("Treadle", "treadle", "handoffs", 8),
            Lane("langgraph-swarm", "langgraph", "handoffs", 2, target=HALF),
            Lane("OpenAI Agents", "openai_agents", "handoffs", 2, target=HALF),
        ],
    ),
    "fan": Measure(
        what=f"one of {BRANCHES} branches at once, each an agent of {TURNS} turns",
        units=BRANCHES,
        lanes=[
            Lane("by hand", "floor", "fan_out", 5),
            Lane("by hand, single runs", "floor", "singles", 5, held="by hand"),
            Lane("Treadle", "treadle", "fan_out"),
            Lane("Treadle, single runs", "treadle", "singles", target=1.15),
            Lane("LangGraph, Send", "langgraph", "fan_out"),
            Lane("LangGraph, single runs", "langgraph", "singles", held="LangGraph, Send"),
            Lane("OpenAI Agents, gather", "openai_agents", "fan_out"),
            Lane(
                "OpenAI Agents, single runs",
                "openai_agents",
                "singles",
                held="OpenAI Agents, gather",
            ),
        ],
        clocks=("cpu", "wall"),
        slices=1,
    ),
}


class Options(msgspec.Struct, frozen=True):
    """What the command line asked for."""

    names: Sequence[str]
    lanes: Sequence[str]
    rounds: int
    peers: str | None
    json: Path | None


class Outcome(msgspec.Struct, frozen=True):
    """One whole benchmark, as it is written to a file."""

    python: str
    machine: str
    libraries: Mapping[str, str]
    rounds: int
    rows: Sequence[Row]


class Samples(msgspec.Struct, frozen=True):
    """What one measure found: for each lane its reports by round, and its function calls."""

    reports: Mapping[str, Sequence[Sequence[Report]]]
    calls: Mapping[str, Sequence[float]]


def main() -> int:
    """Measure, print, and return 1 when a target is missed, 2 when something was not measured."""
    options = read_options(sys.argv[1:])
    rows: list[Row] = []
    failed: list[str] = []
    pin(split_cores()[0])
    for name in options.names:
        try:
            samples = sample(name, options)
        except LabError as error:
            failed.append(name)
            print(f"\nbenchmarks.workflows: {name}: {error}", file=sys.stderr)
        else:
            rows += rows_of(name, samples)
    tell_progress("")
    if rows:
        print(render(rows))
    if options.peers is None:
        print("\nothers were not measured: give --peers PYTHON")
    if options.json is not None:
        write_outcome(options, rows)
    if failed:
        print(f"\nnot measured: {', '.join(failed)}")
    missed = [f"{row.what}, {', '.join(row.lanes)}" for row in rows if row.met is False]
    if missed:
        print(f"\nmissed: {'; '.join(missed)}")
    return 2 if failed else 1 if missed else 0


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; end the program with a message when it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workflows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="measure", help=f"of {', '.join(MEASURES)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds only")
    parser.add_argument("--rounds", type=int, help=f"how many rounds (default: {ROUNDS})")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the others")
    parser.add_argument("--lanes", help=f"of {', '.join([*OWN, *PEERS])} (default: all there are)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE too")
    given = parser.parse_args(arguments)
    possible = [*OWN, *PEERS] if given.peers is not None else [*OWN]
    lanes: list[str] = given.lanes.split(",") if given.lanes is not None else possible
    rounds = given.rounds if given.rounds is not None else QUICK_ROUNDS if given.quick else ROUNDS
    for name in lanes:
        if name not in possible:
            hint = " with --peers PYTHON" if name in PEERS else ""
            parser.error(f"lane {name!r} is not one of {', '.join(possible)}{hint}")
    for name in given.names:
        if name not in MEASURES:
            parser.error(f"measure {name!r} is not one of {', '.join(MEASURES)}")
    if rounds < 1:
        parser.error(f"--rounds {rounds}: at least one round is needed")
    if given.json is not None and not given.json.parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    return Options(given.names or [*MEASURES], lanes, rounds, given.peers, given.json)


@contextmanager
def open_workers(names: Sequence[str], peers: str | None) -> Generator[Mapping[str, Worker]]:
    """Start a process for each lane, and stop them at the end."""
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in names:
            if name in OWN:
                workers[name] = Worker(OWN[name])
            elif peers is not None:
                workers[name] = Worker(PEERS[name], python=peers)
            stack.callback(workers[name].stop)
        yield workers


def sample(name: str, options: Options) -> Samples:
    """Do a measure's work in every lane that was asked for, slice by slice, taking turns."""
    measure = MEASURES[name]
    lanes = [lane for lane in measure.lanes if lane.worker in options.lanes]
    reports: dict[str, list[list[Report]]] = {lane.title: [] for lane in lanes}
    with open_workers(sorted({lane.worker for lane in lanes}), options.peers) as workers:
        calls = {
            lane.title: workers[lane.worker].order(f"count_{lane.job}", 1).figures
            for lane in lanes  # their first work, so that all is warm after it
        }
        for number in range(options.rounds):
            for lane in lanes:
                reports[lane.title].append([])
            for piece in range(measure.slices):
                for title in rotated([*reports], number + piece):
                    lane = next(lane for lane in lanes if lane.title == title)
                    report = workers[lane.worker].order(lane.job, lane.runs)
                    reports[title][-1].append(report)
            tell_progress(f"{name}: round {number + 1} of {options.rounds}")
    return Samples(reports, calls)


def rows_of(name: str, samples: Samples) -> Sequence[Row]:
    """Return what a unit costs in each lane, held against others, and its function calls."""
    measure = MEASURES[name]
    rows = [row for clock in measure.clocks for row in cost_rows(name, samples, clock)]
    for title, counts in samples.calls.items():
        for kind, count in zip(CALLS, counts, strict=True):
            value = spread([count / measure.units])
            rows.append(Row(measure=name, what=measure.what, unit=kind, lanes={title: value}))
    return rows


def cost_rows(name: str, samples: Samples, clock: Clock) -> Sequence[Row]:
    """Return a row for each lane: the microseconds of a unit, in each round the median slice's."""
    measure = MEASURES[name]
    costs = {
        title: [
            median(getattr(report, clock) / report.count / measure.units * 1e6 for report in slices)
            for slices in rounds
        ]
        for title, rounds in samples.reports.items()
    }
    rows: list[Row] = []
    for lane in measure.lanes:
        if lane.title not in costs:
            continue
        held = lane.held in costs and lane.held != lane.title
        row = Row(
            measure=name,
            what=measure.what,
            unit={"cpu": "us", "wall": "us by the clock"}[clock],
            lanes={lane.title: spread(costs[lane.title])},
            judged=f"{lane.held} to it" if held else "",
            value=pairwise(costs[lane.held], costs[lane.title]) if held else None,
            target=lane.target if held else None,
        )
        rows.append(row)
    return rows


def render(rows: Sequence[Row]) -> str:
    """Return the costs as a table, under a title for each measure and clock, calls beside them."""
    calls = {
        (row.measure, lane, row.unit): f"{figure.median:,.0f}"
        for row in rows
        for lane, figure in row.lanes.items()
    }
    costs = [row for row in rows if row.unit not in CALLS]
    lines: list[tuple[str, ...]] = []
    for row in costs:
        ((lane, figure),) = row.lanes.items()
        told = f"{row.judged} {row.value}" if row.value is not None else ""
        target = ""
        if row.target is not None:
            target = f"<= {row.target:g} {'ok' if row.met else 'MISSED'}"
        counts = " + ".join(calls[row.measure, lane, kind] for kind in CALLS)
        lines.append((f"  {lane}", str(figure), counts, told, target))
    table: list[str] = []
    for title, group in groupby(
        zip(costs, aligned(lines).splitlines(), strict=True),
        key=lambda pair: f"\n{pair[0].what}, {pair[0].unit}; function calls of it, Python + C",
    ):
        table += [title, *(line for _, line in group)]
    return "\n".join(table)


def write_outcome(options: Options, rows: Sequence[Row]) -> None:
    """Write every figure, and what it was measured with, as JSON."""
    libraries = {name: version(name) for name in ("treadle", "msgspec")}
    if options.peers is not None:
        libraries |= versions(options.peers)
    outcome = Outcome(
        python=platform.python_version(),
        machine=platform.platform(),
        libraries=libraries,
        rounds=options.rounds,
        rows=rows,
    )
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcome)) + b"\n")


def versions(python: str) -> Mapping[str, str]:
    """Return the versions of the others."""
    program = (
        "import json, sys; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    done = subprocess.run(  # noqa: S603 - our own program, the user's interpreter
        [python, "-c", program, *LIBRARIES], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
