"""`python -m benchmarks`: measure, print the table, and fail when a target is missed."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.lab import LANES, LabError, open_lab, tell_progress
from benchmarks.measures import MEASURES, OWN_ONLY
from benchmarks.table import Row, render
from benchmarks.work import WrongWork

ROUNDS = 9
QUICK_ROUNDS = 3
LIBRARIES = ("treadle", "aiohttp", "msgspec", "pydantic", "openai")


class Options(msgspec.Struct, frozen=True):
    """What the command line asked for."""

    names: Sequence[str]
    lanes: Sequence[str]
    rounds: int
    json: Path | None


class Outcome(msgspec.Struct, frozen=True):
    """One whole benchmark, as it is written to a file."""

    python: str
    machine: str
    libraries: dict[str, str]
    rounds: int
    rows: Sequence[Row]


def main() -> int:
    """Run the measures that were named, or all; return the exit code."""
    options = read_options(sys.argv[1:])
    rows: list[Row] = []
    failed: list[str] = []
    with open_lab(rounds=options.rounds, lanes=options.lanes) as lab:
        for name in options.names:
            try:
                rows += MEASURES[name](lab)
            except (LabError, WrongWork) as error:
                failed.append(name)
                print(f"\nbenchmarks: {name}: {error}", file=sys.stderr)
        tell_progress("")
    print(render(rows))
    if options.json is not None:
        write_outcome(options.json, options.rounds, rows)
    if failed:
        print(f"\nnot measured: {', '.join(failed)}")
    missed = count_missed(rows)
    return 2 if failed else 1 if missed else 0


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line; end the program with a message when it makes no sense."""
    listed = "\n".join(f"  {name:10}{measure.__doc__}" for name, measure in MEASURES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure what Treadle costs, against a loop by hand and one over the openai "
        "SDK.\nCPU time of one process on one core, median (least..most) of all rounds.",
        epilog=f"measures:\n{listed}\n\nexit code: 0 all targets met, 1 a target missed, "
        "2 not measured",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="measure", help="what to measure (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds only")
    parser.add_argument("--rounds", type=int, help=f"how many rounds (default: {ROUNDS})")
    parser.add_argument("--lanes", default=",".join(LANES), help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE too")
    given = parser.parse_args(arguments)
    lanes = [lane for lane in LANES if lane in given.lanes.split(",")]
    if len(lanes) != len(given.lanes.split(",")):
        parser.error(f"--lanes {given.lanes!r}: a lane is one of {', '.join(LANES)}")
    possible = [name for name in MEASURES if "treadle" in lanes or name not in OWN_ONLY]
    for name in given.names:
        if name not in possible:
            parser.error(f"measure {name!r} is not one of {', '.join(possible)}")
    rounds = given.rounds if given.rounds is not None else QUICK_ROUNDS if given.quick else ROUNDS
    if rounds < 1:
        parser.error(f"--rounds {rounds}: at least one round is needed")
    if given.json is not None and not given.json.parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    return Options(given.names or possible, lanes, rounds, given.json)


def write_outcome(path: Path, rounds: int, rows: Sequence[Row]) -> None:
    """Write every figure, and what it was measured with, as JSON."""
    outcome = Outcome(
        python=platform.python_version(),
        machine=platform.platform(),
        libraries={name: version(name) for name in LIBRARIES},
        rounds=rounds,
        rows=rows,
    )
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcome)) + b"\n")


def count_missed(rows: Sequence[Row]) -> int:
    """Say how many targets were met; return how many were not."""
    judged = [row for row in rows if row.met is not None]
    missed = [row.what for row in judged if not row.met]
    print(f"\n{len(judged) - len(missed)} of {len(judged)} targets met")
    if missed:
        print(f"missed: {'; '.join(missed)}")
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
