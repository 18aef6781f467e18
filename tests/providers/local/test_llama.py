"""llama.cpp in this process, with a made-up library in its place."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.providers.local.made_up import FakeServer, Library, piece
from treadle.errors import ModelFilesError
from treadle.providers.local.llama import Llama, ModelFile, in_thread, load, usable_threads


def test_a_model_is_loaded_once_for_each_context(library: Library, tmp_path: Path) -> None:
    """Whoever asks for the same file with the same window shares it."""
    small, large = ModelFile(tmp_path / "m", 512, 2), ModelFile(tmp_path / "m", 1024, 2)

    assert load(small) is load(ModelFile(tmp_path / "m", 512, 2))
    assert load(large) is not load(small)
    assert [params.n_ctx for params in library.made] == [512, 1024]
    assert library.made[0].cpuparams.n_threads == 2


def test_threads_that_ask_at_once_share_one_load(library: Library, tmp_path: Path) -> None:
    """Two first requests do not load half a gigabyte twice."""
    file = ModelFile(tmp_path / "shared", 512, 2)
    threads = [threading.Thread(target=load, args=(file,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(library.made) == 1


@pytest.mark.skipif(os.name == "nt", reason="there is no such socket on Windows")
def test_nobody_else_can_ask_the_model(library: Library, tmp_path: Path) -> None:
    """llama.cpp listens on a socket that is gone at once, and would want a key."""
    load(ModelFile(tmp_path / "quiet", 512, 2))

    (params,) = library.made
    assert params.was_there
    assert not params.place.exists()
    assert len(params.api_keys[0]) == 64


def test_its_threads_do_not_spin(library: Library, tmp_path: Path) -> None:
    """The library reads this when it is imported; a user's own choice stands."""
    load(ModelFile(tmp_path / "a", 512, 2))
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"

    os.environ["OMP_WAIT_POLICY"] = "ACTIVE"
    load(ModelFile(tmp_path / "b", 512, 2))
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_a_file_that_cannot_be_loaded_is_told(library: Library, tmp_path: Path) -> None:
    """The message names the file and what may be wrong; the next attempt is a new one."""
    library.broken = True
    file = ModelFile(tmp_path / "broken.gguf", 512, 2)
    with pytest.raises(ModelFilesError, match=r"broken\.gguf.*512 tokens"):
        load(file)

    library.broken = False
    assert load(file).is_here


def test_threads_are_few() -> None:
    """At least one, and never more than help."""
    assert 1 <= usable_threads() <= 4


async def test_what_the_library_raises_reaches_who_waits() -> None:
    """It is not lost in the thread."""
    generation = Llama(FakeServer(raises=ValueError("no"))).generate(b"{}")

    with pytest.raises(ValueError, match="no"):
        await generation.next()


async def test_a_reply_that_nobody_waits_for_stops() -> None:
    """Also when its event loop is gone."""
    server = FakeServer(piece("a"), endless=True)

    async def leave() -> None:
        await Llama(server).generate(b"{}").next()

    await asyncio.to_thread(asyncio.run, leave())

    assert await asyncio.to_thread(server.stopped.wait, 5)


async def test_work_in_a_thread_learns_that_nobody_waits() -> None:
    """A download ends when its request is cancelled."""
    ended = threading.Event()

    def work(given_up: threading.Event) -> None:
        given_up.wait(5)
        ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await in_thread(work)

    assert await asyncio.to_thread(ended.wait, 5)


async def test_work_in_a_thread_returns_and_raises() -> None:
    """As if it were called here."""

    def fail(_: threading.Event) -> None:
        raise KeyError("x")

    assert await in_thread(lambda _: 7) == 7
    with pytest.raises(KeyError):
        await in_thread(fail)
