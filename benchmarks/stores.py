"""`python -m benchmarks.stores`: what durable stores cost, and that it does not grow.

Everything runs in this process, without network. With `--peers PYTHON`, an interpreter that has
`langgraph-checkpoint-sqlite` and `openai-agents`, the same conversation is held with their SQLite
stores too, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.table import Row, Spread, render, spread
from treadle import Agent, Message, ToolCall, ToolResult, open_store
from treadle.fold import fold
from treadle.journal import AnyEntry, CallBegan, CallEnded, ModelReplied, RunBegan, RunEnded
from treadle.messages import Text
from treadle.ports.store import Store
from treadle.stores.codec import encode_batch
from treadle.testing import FunctionModel

ANSWER = "The loom is warped and ready. " * 66
"""About 2,000 bytes."""
APPENDS = 200
CONVERSATIONS = 200
PEER_TURNS = 200
PEERS = Path(__file__).parent / "programs" / "peer_stores.py"


def turn_of(run: str, number: int) -> list[list[AnyEntry]]:
    """Return the four batches of a turn with a tool call."""
    at = datetime.now(UTC)
    call = ToolCall.of("weather", {"city": f"city {number}"}, id=f"call_{run}")
    asked = Message("assistant", (call,))
    result = ToolResult(call.id, call.name, (Text(f"{number} C, light rain"),))
    began = RunBegan(run_id=run, at=at, agent="a", input=Message.user(f"Question {number}?"))
    replied = ModelReplied(run_id=run, at=at, message=asked)
    answered = ModelReplied(run_id=run, at=at, message=Message.assistant(ANSWER))
    ended = RunEnded(run_id=run, at=at, stop_reason="answer")
    return [
        [began],
        [replied, CallBegan(run_id=run, at=at, call_id=call.id)],
        [CallEnded(run_id=run, at=at, result=result)],
        [answered, ended],
    ]


async def grow(store: Store, name: str, begin: int, end: int) -> int:
    """Add turns to a conversation; return the bytes of their content."""
    size = 0
    for number in range(begin, end):
        head, lease = await store.claim(name, "bench", 60)
        revision = head.revision
        for batch in turn_of(f"{name}-{number}", number):
            size += len(encode_batch(batch)[0])
            revision = await store.append(name, revision, batch, fence=lease.fence)
    return size


async def appends(store: Store, name: str) -> float:
    """Return the CPU seconds of one append to a conversation that stays as long as it is."""
    head, lease = await store.claim(name, "bench", 60)
    batch = turn_of(f"{name}-{time.perf_counter_ns()}", 1)[2]
    revision, began = head.revision, time.process_time()
    for _ in range(APPENDS):
        revision = await store.append(name, revision, batch, fence=lease.fence)
    spent = time.process_time() - began
    await store.release(lease)
    return spent / APPENDS


async def flat(url: str, place: Path, rounds: int) -> list[Row]:
    """Appends to conversations of 10, 100 and 1,000 turns, interleaved; disk; opening."""
    store, kind = open_store(url), url.partition(":")[0]
    lengths = (10, 100, 1_000)
    size = 0
    for turns in lengths:
        size += await grow(store, f"long-{turns}", 0, turns)
    await store.close()
    disk = size_of(place)
    opening = [await opened(url, "long-1000") for _ in range(rounds)]
    costs: dict[int, list[float]] = {turns: [] for turns in lengths}
    grown: dict[int, list[float]] = {turns: [] for turns in lengths}
    store = open_store(url)
    for _ in range(rounds):
        for turns in lengths:
            await store.close()
            before = size_of(place)
            costs[turns].append(await appends(store, f"long-{turns}") * 1e6)
            await store.close()
            grown[turns].append((size_of(place) - before) / APPENDS)
    await store.close()
    ratio = spread(costs[1_000][n] / costs[10][n] for n in range(rounds))
    bytes_ratio = spread(grown[1_000][n] / max(1.0, grown[10][n]) for n in range(rounds))
    return [
        own(f"{kind}: append at turn 10, CPU", "us", spread(costs[10])),
        own(f"{kind}: append at turn 1,000, CPU", "us", spread(costs[1_000]), 1_000),
        own(f"{kind}: CPU at turn 1,000 / 10", "x", ratio, 1.1),
        own(f"{kind}: bytes of an append at turn 1,000 / 10", "x", bytes_ratio, 1.1),
        own(f"{kind}: disk / content of 1,110 turns", "x", spread([disk / size]), 1.3),
        own(f"{kind}: opening 1,000 turns", "ms", spread(opening), 50),
    ]


async def opened(url: str, name: str) -> float:
    """Return the milliseconds until a new handle has the history of a conversation."""
    began = time.perf_counter()
    store = open_store(url)
    view = fold((batch.revision, batch.entries) for batch in await store.read(name))
    spent = (time.perf_counter() - began) * 1e3
    if len(view.messages) < 4_000:
        raise SystemExit(f"{name} has {len(view.messages)} messages")
    await store.close()
    return spent


async def crowd(url: str, rounds: int) -> Row:
    """Appends of many conversations at once to one place, by the clock."""
    store, rates = open_store(url), list[float]()
    names = [f"crowd-{number}" for number in range(CONVERSATIONS)]
    batch = turn_of("crowd", 1)[2]

    async def work(name: str) -> None:
        head, lease = await store.claim(name, "bench", 60)
        revision = head.revision
        for _ in range(25):
            revision = await store.append(name, revision, batch, fence=lease.fence)
        await store.release(lease)

    for _ in range(rounds):
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(work(name))
        rates.append(CONVERSATIONS * 25 / (time.perf_counter() - began))
    await store.close()
    kind = url.partition(":")[0]
    what = f"{kind}: durable appends, {CONVERSATIONS} conversations at once"
    goal = 5_000 if kind == "sqlite" else None
    return own(what, "1/s", spread(rates), goal, at_least=True)


async def conversation(url: str, place: Path) -> dict[str, float]:
    """Hold a conversation as an agent does; return CPU at turns 10 and 200, and the size."""
    store = open_store(url)
    agent = Agent("a", FunctionModel(lambda _: ANSWER), store=store)
    clock: list[float] = []
    for number in range(PEER_TURNS):
        await agent.run(f"Question {number}?", conversation="long")
        clock.append(time.process_time())
    await store.close()
    return {
        "early": (clock[14] - clock[4]) / 10 * 1e3,
        "late": (clock[-1] - clock[-11]) / 10 * 1e3,
        "bytes": float(size_of(place)),
    }


def peers(python: str) -> dict[str, dict[str, float]]:
    """Return the same figures of others' stores, measured by another interpreter."""
    done = subprocess.run(  # noqa: S603 our own program, the user's interpreter
        [python, str(PEERS), str(PEER_TURNS), ANSWER], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{PEERS.name} failed under {python}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def size_of(place: Path) -> int:
    """Return the bytes of a file or a folder."""
    if place.is_file():
        return place.stat().st_size
    return sum(each.stat().st_size for each in place.rglob("*") if each.is_file())


def own(
    what: str, unit: str, value: Spread, target: float | None = None, *, at_least: bool = False
) -> Row:
    """Return a row of the table."""
    return Row(
        measure="stores",
        what=what,
        unit=unit,
        lanes={"treadle": value},
        judged="treadle",
        value=value,
        target=target,
        at_least=at_least,
    )


async def measure(rounds: int) -> list[Row]:
    """Measure SQLite and files."""
    rows: list[Row] = []
    for kind in ("sqlite", "file"):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "store"
            url = f"sqlite:///{place}" if kind == "sqlite" else f"file:{place}"
            rows += await flat(url, place, rounds)
            rows.append(await crowd(url, rounds))
    return rows


async def compare(python: str | None) -> None:
    """Print what a conversation of 200 turns costs here and elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "chat.db"
        found = {"Treadle, SQLite": await conversation(f"sqlite:///{place}", place)}
    if python is not None:
        found |= peers(python)
    print(f"\na conversation of {PEER_TURNS} turns, answers of {len(ANSWER):,} bytes")
    for name, figures in found.items():
        print(
            f"  {name:32} CPU a turn {figures['early']:8.2f} ms at turn 10, "
            f"{figures['late']:8.2f} ms at turn {PEER_TURNS}; disk {figures['bytes'] / 1e6:8.2f} MB"
        )
    if python is None:
        print("  others were not measured: give --peers PYTHON")


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the others")
    options = parser.parse_args()
    rows = asyncio.run(measure(options.rounds))
    print(render(rows))
    asyncio.run(compare(options.peers))
    missed = [row.what for row in rows if row.met is False]
    if missed:
        print(f"\nmissed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
