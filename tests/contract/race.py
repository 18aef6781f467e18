"""Processes that append to the same conversations all at once, or die in the middle of it.

`race(url)` works with the URL of any store, and fails on anything lost, doubled or out of turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.errors import ConversationBusy, LeaseLost, RevisionConflict
from treadle.ids import new_stamp
from treadle.journal import MessageAdded, MessageQueued
from treadle.messages import Text
from treadle.stores.open import open_store
from treadle.testing.store_handles import queued, said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from treadle.ports.store import Store

ROOT = Path(__file__).parents[2]
SHARED = 3
TURNS = 20
PATIENCE = 300


def chosen(processes: int, appends: int) -> tuple[int, int]:
    """Return how many processes append how often: TREADLE_RACE=4x1500, or these."""
    first, _, second = os.environ.get("TREADLE_RACE", f"{processes}x{appends}").partition("x")
    return int(first), int(second)


async def race(url: str, processes: int = 4, appends: int = 1500) -> None:
    """Let processes append at once, and check all that came of it."""
    place = f"race_{new_stamp()}"
    store = open_store(url)
    names = [f"{place}_{number}" for number in range(SHARED)]
    try:
        for name in [*names, place]:
            await store.create(name)
        jobs = [["append", url, place, f"p{n}", str(appends)] for n in range(processes)]
        results = await _results(jobs)
        await _check_shared(store, names, [each["appended"] for each in results])
        await _check_owned(store, place, [each["owned"] for each in results])
        for name in [*names, place]:
            await store.delete(name)
    finally:
        await store.close()


async def crash(url: str, enough: int = 60) -> None:
    """J1: kill a process that appends without end; what it was told of is there, and one more."""
    store = open_store(url)
    name = f"crash_{new_stamp()}"
    try:
        await store.create(name)
        async with asyncio.timeout(PATIENCE), _started(["endless", url, name, "p", "0"]) as child:
            told = 0
            assert child.stdout is not None
            while told < enough:
                told = int(await child.stdout.readline())
            child.kill()
            rest = (await child.stdout.read()).split(b"\n")[:-1]
            told = int(rest[-1]) if rest else told
        written = await _texts(store, name)
        assert written == [f"p.{n}" for n in range(len(written))]
        assert told <= len(written) <= told + 1, f"{told} were acknowledged"
        assert (await store.head(name)).revision == len(written)
        assert await store.append(name, len(written), [queued("after")]) == len(written) + 1
        await store.delete(name)
    finally:
        await store.close()


async def start_together(
    urls: Sequence[str], processes: int = 4, tasks: int = 8, appends: int = 50
) -> None:
    """BS-39: open each fresh place from all processes at once, each task with its conversation."""
    jobs = [["round", f"{tasks}", f"p{n}", "p", f"{appends}"] for n in range(processes)]
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        children = [await stack.enter_async_context(_started(job)) for job in jobs]
        for url in urls:
            for child in children:
                assert child.stdin is not None
                child.stdin.write(f"{url}\n".encode())
            for child in children:
                assert child.stdout is not None
                assert await child.stdout.readline() == b"done\n", url
            store = open_store(url)
            try:
                count = processes * tasks
                heads = await store.list(limit=count + 2)
                revisions = {head.conversation_id: head.revision for head in heads}
                assert revisions.pop("all") == count
                assert list(revisions.values()) == [appends] * count
            finally:
                await store.close()


async def _check_shared(store: Store, names: Sequence[str], told: Sequence[list[str]]) -> None:
    written: list[str] = []
    for name in names:
        batches = await store.read(name)
        head = await store.head(name)
        assert [batch.revision for batch in batches] == list(range(1, len(batches) + 1))
        assert (head.revision, head.pending) == (len(batches), len(batches))
        written += await _texts(store, name)
    assert len(written) == len(set(written)), "doubled"
    assert sorted(written) == sorted(each for those in told for each in those), "lost"


async def _check_owned(store: Store, name: str, told: Sequence[list[str]]) -> None:
    written = await _texts(store, name)
    assert sorted(written) == sorted(each for those in told for each in those)
    fences = [int(text.partition(":")[0]) for text in written]
    assert fences == sorted(fences), "somebody wrote after another had taken over"


async def _texts(store: Store, name: str) -> list[str]:
    texts: list[str] = []
    for batch in await store.read(name):
        for entry in batch.entries:
            assert isinstance(entry, MessageAdded | MessageQueued)
            texts += [part.text for part in entry.message.parts if isinstance(part, Text)]
    return texts


async def _results(jobs: Sequence[Sequence[str]]) -> list[dict[str, list[str]]]:
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        children = [await stack.enter_async_context(_started(job)) for job in jobs]
        for child in children:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
        return [json.loads((await child.communicate())[0]) for child in children]


@asynccontextmanager
async def _started(job: Sequence[str]) -> AsyncGenerator[Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.contract.race",
        *job,
        stdin=PIPE,
        stdout=PIPE,
        cwd=ROOT,
        limit=1 << 24,
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


async def _append(store: Store, name: str, texts: Sequence[str]) -> None:
    """Append each at whatever revision is the newest by then."""
    revision = (await store.head(name)).revision
    for text in texts:
        while True:
            try:
                revision = await store.append(name, revision, [queued(text)])
            except RevisionConflict:
                await asyncio.sleep(random.uniform(0, 0.002))  # noqa: S311 not a secret
                revision = (await store.head(name)).revision
            else:
                break


async def _own(store: Store, name: str, worker: str) -> list[str]:
    """Take the conversation over again and again; return what was written as its owner."""
    told: list[str] = []
    for turn in range(TURNS):
        with suppress(ConversationBusy):
            fence = (await store.head(name)).fence
            head, lease = await store.claim(name, worker, 60, instead_of=fence)
            revision = head.revision
            with suppress(LeaseLost, RevisionConflict):
                for number in range(5):
                    text = f"{lease.fence}:{worker}.{turn}.{number}"
                    revision = await store.append(name, revision, [said(text)], fence=lease.fence)
                    told.append(text)
                    await asyncio.sleep(0)
    return told


async def _compete(url: str, place: str, worker: str, appends: int) -> dict[str, Any]:
    store = open_store(url)
    names = [f"{place}_{number}" for number in range(SHARED)]
    for name in names:
        await store.head(name)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    texts = [[f"{worker}.{n}" for n in range(kind, appends, SHARED)] for kind in range(SHARED)]
    async with asyncio.TaskGroup() as group:
        for name, those in zip(names, texts, strict=True):
            group.create_task(_append(store, name, those))
        owning = group.create_task(_own(store, place, worker))
    await store.close()
    return {"appended": [text for those in texts for text in those], "owned": owning.result()}


async def _go_on(url: str, name: str, worker: str) -> None:
    store = open_store(url)
    revision = 0
    while True:
        revision = await store.append(name, revision, [queued(f"{worker}.{revision}")])
        print(revision, flush=True)


async def _round(url: str, place: str, tasks: int, appends: int) -> None:
    store = open_store(url)

    async def work(name: str) -> None:
        await store.create(name)
        for revision in range(appends):
            assert await store.append(name, revision, [queued("x")]) == revision + 1

    # All begin it, and only one can make it.
    await store.create("all")
    for number in range(tasks):
        await _append(store, "all", [f"{place}.{number}"])
    async with asyncio.TaskGroup() as group:
        for number in range(tasks):
            group.create_task(work(f"{place}_{number}"))
    await store.close()


def main(kind: str, url: str, place: str, worker: str, appends: str) -> None:
    """Be one of the processes."""
    if kind == "endless":
        asyncio.run(_go_on(url, place, worker))
    elif kind == "round":
        for line in sys.stdin:
            asyncio.run(_round(line.strip(), place, int(url), int(appends)))
            print("done", flush=True)
    else:
        print(json.dumps(asyncio.run(_compete(url, place, worker, int(appends)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
