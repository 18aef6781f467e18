"""The work of several agents that every lane does: nodes, handoffs, branches.

What the models say stands here once, as functions of what they are asked. They answer at once, so
that what is measured is everything around them. A lane has these methods, each does so many runs:

* `nodes`: a graph whose nodes are functions; each adds one to a number in the graph's state;
* `kept_nodes`: the same, each step kept in memory where the lane can keep steps;
* `agent_nodes`: a graph whose nodes ask a model; each is given what the one before said;
* `handoffs`: the work is handed on from member to member; the last one answers;
* `fan_out`: many branches at once, each an agent with a tool, and their answers are joined;
* `singles`: the agent of the branches by itself, as often as there are branches, in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import FrameType

from benchmarks.work import CITIES
from benchmarks.worker import Job, Jobs

RING: Sequence[str] = ("first", "second", "third", "fourth")
"""The nodes of a graph, in a cycle that is left when the number is there."""

NODES = 200
"""How often a node that is a function is entered in one run: 50 times around."""

AGENT_NODES = 100
"""How often a node that is an agent is entered in one run: 25 times around."""

HANDOFFS = 10
MEMBERS: Sequence[str] = tuple(f"member_{number}" for number in range(HANDOFFS + 1))
"""A chain: each member hands over to the next, the last one answers."""

TASK = "Find out who can answer this, and answer it."
REASON = "The next one knows more about it."

BRANCHES = 100
TURNS = 5
"""Turns of one branch: four of them call a tool, the last one answers."""


def count_on(text: str) -> str:
    """Return what the model of an agent node says: the number after the one it was given."""
    return str(int(text) + 1)


def tool_arguments(turn: int) -> Mapping[str, str] | None:
    """Return what the model of a branch calls its tool with in a turn; None where it answers."""
    return {"city": CITIES[turn], "unit": "C"} if turn < TURNS - 1 else None


def branch_question(number: int) -> str:
    """Return what one branch is asked."""
    return f"What is the weather like in the four largest cities of region {number}?"


def flow_jobs(lane: object) -> Jobs:
    """Return what can be ordered from a lane: each of its public methods, which does so many runs.

    Each comes a second time as `count_` and its name: the function calls of one run.
    """
    jobs: dict[str, Job] = {
        name: getattr(lane, name) for name in dir(lane) if not name.startswith("_")
    }
    counting = {f"count_{name}": partial(count_calls, job) for name, job in jobs.items()}
    return Jobs(by_name=jobs | counting, close=nothing_to_close)


async def count_calls(job: Job, runs: int) -> Sequence[float]:
    """Return how often a function was entered, one in Python and one in C, in each of the runs."""
    counts = {"call": 0, "c_call": 0}

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in counts:
            counts[event] += 1

    await job(1)
    sys.setprofile(count)
    try:
        await job(runs)
    finally:
        sys.setprofile(None)
    return [counts["call"] / runs, counts["c_call"] / runs]


async def nothing_to_close() -> None:
    """End at once: nothing here is open."""
