"""What is measured, and the targets it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.lab import Lab, LabError, Load, Reports, rotated, tell_progress
from benchmarks.table import Row, Spread, pairwise, spread
from benchmarks.work import CALLS
from benchmarks.worker import Report

Samples = Mapping[str, Sequence[float]]
"""For each lane, one figure for each round."""

Measure = Callable[[Lab], Sequence[Row]]

TURNS = 200
WINDOW = 10
"""Turn 10 is the mean of turns 6 to 15, turn 200 that of turns 191 to 200."""

CHUNKS = 5_000
PACED_CHUNKS = 300
CROWD = 500
SDK_CROWD = 50
STEPS_PER_RUN = 2


def turn(lab: Lab) -> Sequence[Row]:
    """One question and its answer: a whole run of one turn."""
    before = lab.connections()
    load = Load(count=40, slices=11)
    reports = lab.compare("ask", {"floor": load, "treadle": load, "sdk": Load(count=10, slices=3)})
    opened = lab.connections() - before - 1
    if opened > len(reports):
        raise LabError(
            f"{len(reports)} lanes opened {opened} connections for questions asked one after "
            "another; each of them is to reuse one"
        )
    costs = _samples(reports, lambda report: report.cpu / report.count * 1e6)
    return [
        _ratio("turn", "one turn", "us", costs, limit=1.3),
        *_overhead("turn", "our own overhead of a turn", costs, limit=60),
    ]


def tools(lab: Lab) -> Sequence[Row]:
    """A turn of a run with ten tool turns and an answer."""
    load = Load(count=4, slices=11)
    reports = lab.compare("tool_runs", {"floor": load, "treadle": load, "sdk": Load(count=2)})
    costs = _samples(reports, lambda report: report.cpu / report.count / CALLS * 1e6)
    return [
        _ratio("tools", "a turn in a run of ten tool turns", "us", costs, limit=1.3),
        *_overhead("tools", "our own overhead of such a turn", costs, limit=60),
    ]


def history(lab: Lab) -> Sequence[Row]:
    """Turn 200 of a conversation of 200 runs, each given the messages of the one before."""
    load = Load(count=TURNS, slices=7)
    sdk = Load(count=TURNS, rounds=1)
    reports = lab.compare("chat", {"floor": load, "treadle": load, "sdk": sdk})
    return _long_chat("history", "history=", reports)


def store(lab: Lab) -> Sequence[Row]:
    """Turn 200 of one conversation that is kept in a store in memory."""
    load = Load(count=TURNS, slices=7)
    reports = lab.compare("stored_chat", {"floor": load, "treadle": load})
    return _long_chat("store", "stored", reports, limit=2.0)


def kept(lab: Lab) -> Sequence[Row]:
    """Turns 10 and 200 of one conversation in an SQLite file; the floor writes thrice a turn."""
    load = Load(count=TURNS, slices=2)
    reports = lab.compare("kept_chat", {"floor": load, "treadle": load})
    rows = list(_long_chat("kept", "in SQLite", reports, limit=2.0))
    early = _samples(reports, lambda report: _mean_turn(report, WINDOW + WINDOW // 2) * 1e6)
    return [*rows, _ratio("kept", "turn 10, in SQLite", "us", early, limit=2.0)]


def burst(lab: Lab) -> Sequence[Row]:
    """A stream of 5,000 chunks that comes at once, event by event."""
    load = Load(count=CHUNKS, slices=5)
    reports = lab.compare("burst", {"floor": load, "treadle": load, "sdk": Load(count=CHUNKS)})
    costs = _samples(reports, lambda report: report.cpu / report.count * 1e6)
    return [_ratio("burst", f"a chunk of {CHUNKS:,} in one burst", "us", costs, limit=2.5)]


def paced(lab: Lab) -> Sequence[Row]:
    """A stream whose chunks come one in a read."""
    load = Load(count=PACED_CHUNKS, slices=3)
    loads = {"floor": load, "treadle": load, "sdk": Load(count=PACED_CHUNKS)}
    reports = lab.compare("paced", loads)
    costs = _samples(reports, lambda report: report.cpu / report.count * 1e6)
    return [_ratio("paced", "a chunk, one in each read", "us", costs, limit=1.3)]


def crowd(lab: Lab) -> Sequence[Row]:
    """500 runs with ten tool calls each at the same time in one process."""
    load = Load(count=CROWD)
    sdk = Load(count=SDK_CROWD, rounds=2)
    reports = lab.compare("crowd", {"floor": load, "treadle": load, "sdk": sdk})
    rates = _samples(reports, lambda report: report.count / report.cpu)
    row = _ratio("crowd", f"{CROWD} runs at once", "runs/s", rates, limit=0.75, at_least=True)
    return [row]


def memory(lab: Lab) -> Sequence[Row]:
    """The memory of one of 500 runs at once, in processes of their own."""
    held: dict[str, list[float]] = {lane: [] for lane in lab.lanes}
    for number in range(lab.rounds):
        for lane in rotated(lab.lanes, number):
            runs = SDK_CROWD if lane == "sdk" else CROWD
            with lab.fresh_worker(lane) as worker:
                report = worker.order("memory", runs)
            held[lane].append(report.figures[0] / 1024)
        tell_progress(f"memory: round {number + 1} of {lab.rounds}")
    what = f"memory of one of {CROWD} runs at once"
    return [_excess("memory", what, "KiB", held, limit=20)]


def step(lab: Lab) -> Sequence[Row]:
    """A step without network: runs of one tool turn and an answer with a scripted model."""
    worker = lab.worker("in_process")
    worker.order("steps", 50)
    reports = [worker.order("steps", 500) for _ in range(lab.rounds)]
    costs = spread(report.cpu / report.count / STEPS_PER_RUN * 1e6 for report in reports)
    return [_own("step", "a step with a scripted model", "us", costs, limit=60)]


def asking(lab: Lab) -> Sequence[Row]:
    """A run that asks another agent, which takes a tool turn, against two runs like that."""
    worker = lab.worker("in_process")
    ratios: list[float] = []
    costs: list[float] = []
    for job in ("steps", "asking"):
        worker.order(job, 50)
    for _ in range(lab.rounds):
        plain, asked = worker.order("steps", 500), worker.order("asking", 250)
        ratios.append(asked.cpu / plain.cpu)
        costs.append((asked.cpu / asked.count - plain.cpu / plain.count) * 1e6)
    return [
        _own("asking", "a run with a child run, to two such runs", "x", spread(ratios), limit=1.15),
        _own("asking", "what the child run costs", "us", spread(costs), limit=200),
    ]


def branches(lab: Lab) -> Sequence[Row]:
    """100 branches of a graph at once, each an agent of five turns, against as many single runs."""
    worker = lab.worker("flow_served")
    for job in ("singles", "branches"):
        worker.order(job, 1)
    reports = [(worker.order("branches", 3), worker.order("singles", 3)) for _ in range(lab.rounds)]
    cpu = spread(branch.cpu / single.cpu for branch, single in reports)
    wall = spread(branch.wall / single.wall for branch, single in reports)
    what = "100 branches of five turns, to as many single runs at once"
    return [
        _own("branches", what, "x", cpu, limit=1.15),
        _own("branches", f"{what}, by the clock", "x", wall, limit=1.15),
    ]


def build(lab: Lab) -> Sequence[Row]:
    """Making an agent with three tools that are ready."""
    worker = lab.worker("in_process")
    worker.order("build", 100)
    reports = [worker.order("build", 2_000) for _ in range(lab.rounds)]
    costs = spread(report.cpu / report.count * 1e6 for report in reports)
    sizes = [worker.order("build_bytes", 1_000).figures[0] / 1024 for _ in range(lab.rounds)]
    return [
        _own("build", "making an agent with three tools", "us", costs, limit=10),
        _own("build", "what such an agent keeps", "KiB", spread(sizes), limit=4),
    ]


def imports(lab: Lab) -> Sequence[Row]:
    """The CPU time of `import treadle`, without that of the bare interpreter."""
    programs = {
        "bare": "pass",
        "treadle": "import treadle",
        "names": "from treadle import Agent, tool",
    }
    costs: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        lab.run_python("-c", program)  # writes the compiled modules that later rounds read
    for number in range(lab.rounds):
        for name, program in programs.items():
            costs[name].append(lab.run_python("-c", program)[0] * 1e3)
        tell_progress(f"import: round {number + 1} of {lab.rounds}")
    whole = _difference(costs["treadle"], costs["bare"])
    names = _difference(costs["names"], costs["bare"])
    return [
        _own("import", "import treadle", "ms", whole, limit=100),
        Row(
            measure="import",
            what="from treadle import Agent, tool",
            unit="ms",
            lanes={"treadle": names},
        ),
    ]


def cold(lab: Lab) -> Sequence[Row]:
    """A new process until it has its first answer."""
    programs: dict[str, str] = {
        f"cold_{lane}": lane for lane in ("floor", "treadle", "sdk") if lane in lab.lanes
    }
    costs: dict[str, list[float]] = {program: [] for program in programs}
    if "treadle" in lab.lanes:
        costs["cold_treadle_tool"] = []
    for program in costs:
        lab.run_cold(program)  # writes the compiled modules that later rounds read
    for number in range(lab.rounds):
        for program, figures in costs.items():
            figures.append(lab.run_cold(program) * 1e3)
        tell_progress(f"cold: round {number + 1} of {lab.rounds}")
    samples: Samples = {lane: costs[program] for program, lane in programs.items()}
    rows = [_ratio("cold", "a cold process to its answer", "ms", samples, limit=1.6)]
    if "treadle" in lab.lanes:
        with_tool = {"treadle": spread(costs["cold_treadle_tool"])}
        rows.append(Row(measure="cold", what="the same with a tool", unit="ms", lanes=with_tool))
    return rows


MEASURES: Mapping[str, Measure] = {
    "turn": turn,
    "tools": tools,
    "history": history,
    "store": store,
    "kept": kept,
    "burst": burst,
    "paced": paced,
    "crowd": crowd,
    "memory": memory,
    "step": step,
    "asking": asking,
    "branches": branches,
    "build": build,
    "import": imports,
    "cold": cold,
}

OWN_ONLY = ("step", "asking", "branches", "build", "import")
"""Measures that have no floor: they need Treadle itself."""


def _long_chat(measure: str, how: str, reports: Reports, *, limit: float = 1.3) -> Sequence[Row]:
    late = _samples(reports, lambda report: _mean_turn(report, TURNS) * 1e6)
    early = _samples(reports, lambda report: _mean_turn(report, WINDOW + WINDOW // 2) * 1e6)
    rows = [_ratio(measure, f"turn {TURNS}, {how}", "us", late, limit=limit)]
    lanes = {lane: spread(figures) for lane, figures in early.items()}
    if "treadle" not in early:
        return [*rows, Row(measure=measure, what=f"turn 10, {how}", unit="us", lanes=lanes)]
    own = Row(
        measure=measure,
        what=f"turn 10, {how}",
        unit="us",
        lanes=lanes,
        judged="own turn 200/10",
        value=pairwise(late["treadle"], early["treadle"]),
        target=1.3,
    )
    return [*rows, own]


def _mean_turn(report: Report, last: int) -> float:
    """Return the mean CPU seconds of the ten turns that end with turn `last`."""
    return (report.figures[last - 1] - report.figures[last - WINDOW - 1]) / WINDOW


def _samples(reports: Reports, read: Callable[[Report], float]) -> Samples:
    """Return one figure for each round: the median of what `read` finds in its slices."""
    return {
        lane: [median(map(read, slices)) for slices in rounds] for lane, rounds in reports.items()
    }


def _ratio(
    measure: str,
    what: str,
    unit: str,
    samples: Samples,
    *,
    limit: float,
    at_least: bool = False,
) -> Row:
    """Return a row that holds Treadle's figure over the floor's against a limit."""
    value: Spread | None = None
    if "treadle" in samples and "floor" in samples:
        value = pairwise(samples["treadle"], samples["floor"])
    return Row(
        measure=measure,
        what=what,
        unit=unit,
        lanes={lane: spread(figures) for lane, figures in samples.items()},
        judged="treadle/floor",
        value=value,
        target=limit,
        at_least=at_least,
    )


def _overhead(measure: str, what: str, samples: Samples, *, limit: float) -> Sequence[Row]:
    """Return a row for what Treadle adds to the floor, if both were measured."""
    if "treadle" not in samples or "floor" not in samples:
        return []
    added = _difference(samples["treadle"], samples["floor"])
    return [_own(measure, what, "us", added, limit=limit)]


def _excess(measure: str, what: str, unit: str, samples: Samples, *, limit: float) -> Row:
    """Return a row that holds what Treadle needs above the floor against a limit."""
    value: Spread | None = None
    if "treadle" in samples and "floor" in samples:
        value = _difference(samples["treadle"], samples["floor"])
    return Row(
        measure=measure,
        what=what,
        unit=unit,
        lanes={lane: spread(figures) for lane, figures in samples.items()},
        judged="treadle-floor",
        value=value,
        target=limit,
    )


def _own(measure: str, what: str, unit: str, value: Spread, *, limit: float) -> Row:
    """Return a row that holds a figure of Treadle alone against a limit."""
    return Row(
        measure=measure, what=what, unit=unit, lanes={}, judged="treadle", value=value, target=limit
    )


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    return spread(one - other for one, other in zip(ours, theirs, strict=True))
