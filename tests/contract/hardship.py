"""Programs that a store has to live through: a disk that fills up, a process that forks."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from treadle.errors import StoreUnavailable
from treadle.stores.file_disk import locked
from treadle.stores.open import open_store
from treadle.testing.store_handles import queued


async def full(url: str) -> None:
    """Append until no file may grow any more; what was acknowledged is there, and no more."""
    store = open_store(url)
    await store.create("c")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    told = 0
    refused = ""
    while not refused:
        try:
            told = await store.append("c", told, [queued("x" * 700)])
        except StoreUnavailable as error:
            refused = str(error)
    assert "Nothing was written" in refused, refused
    assert told > 5
    await _check(url, told)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert await store.append("c", told, [queued("room again")]) == told + 1
    await _check(url, told + 1)
    await store.close()
    print("passed", refused)


async def _check(url: str, told: int) -> None:
    other = open_store(url)
    assert (await other.head("c")).revision == told
    assert len(await other.read("c")) == told
    await other.close()


def forked(url: str) -> None:
    """Go on with the same store in a child."""
    store = open_store(url)

    async def write(revision: int) -> None:
        assert await store.append("c", revision, [queued("x")]) == revision + 1
        assert len(await store.read("c")) == revision + 1
        assert await store.wait("c", revision, 5) == revision + 1

    async def begin() -> None:
        await store.create("c")
        await write(0)

    asyncio.run(begin())
    child = os.fork()
    if not child:
        asyncio.run(write(1))
        asyncio.run(store.close())
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(write(2))
    asyncio.run(store.close())
    print("passed")


def held(url: str) -> None:
    """Fork in the middle of a write: the child never keeps what its parent has let go."""
    journal = Path(url.removeprefix("file:")) / "conversations" / "c" / "journal.jsonl"
    store = open_store(url)
    asyncio.run(store.create("c"))
    ends, goes_on = os.pipe()
    with locked(journal, alone=True, patience=0):
        child = os.fork()
        if not child:
            os.close(goes_on)
            os.read(ends, 1)  # until the parent has closed its end
            os._exit(0)
    with locked(journal, alone=True, patience=0):
        pass
    os.close(goes_on)
    os.waitpid(child, 0)
    asyncio.run(store.close())
    print("passed")


if __name__ == "__main__":
    if sys.argv[1] == "full":
        asyncio.run(full(sys.argv[2]))
    else:
        {"forked": forked, "held": held}[sys.argv[1]](sys.argv[2])
