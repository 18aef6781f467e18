"""llama.cpp in this process: models loaded once, and generations that can be stopped."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from types import ModuleType
from typing import Protocol, TypeVar

from msgspec import Struct

from treadle.errors import MissingExtra, ModelFilesError

T = TypeVar("T")

MOST_THREADS = 4
"""More threads than this wait for each other more than they compute, for models of this size."""
BATCH = 256
"""Tokens of a prompt that are read at once; a generation can be stopped between two batches."""
PROMPT_CACHE_MIB = 256
END_SECONDS = 5.0
"""How long the end of the process waits for each thread to notice that it was stopped."""


class ModelFile(Struct, frozen=True):
    """What is loaded: a GGUF file, with room for `context` tokens, on this many threads."""

    path: Path
    context: int
    threads: int


class Server(Protocol):
    """What is used of llama.cpp's server."""

    def handle_chat_completions(self, body: bytes, take: Callable[[bytes], bool], /) -> object:
        """Answer; blocks. `take` gets each chunk and ends the reply by returning True."""
        ...


class Generation:
    """One reply being written, in a thread of its own; its chunks are read on an event loop.

    A chunk is the JSON of a Chat Completions chunk, or of an object with an `error`.
    """

    def __init__(self, server: Server, body: bytes) -> None:
        self._server = server
        self._body = body
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="treadle-local", daemon=True)

    def start(self) -> None:
        """Begin."""
        _running.add(self)
        _end_well()
        self._thread.start()

    async def next(self) -> bytes | None:
        """Wait for a chunk, None when there are no more.

        Raises:
            Exception: what the library raised.
        """
        chunk = await self._chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def stop(self) -> None:
        """Let the model stop at its next token; nothing waits for that."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait until it has stopped."""
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            self._server.handle_chat_completions(self._body, self._take)
        except Exception as error:  # noqa: BLE001 it is raised where the reply is waited for
            self._put(error)
        else:
            self._put(None)
        finally:
            _running.discard(self)

    def _take(self, chunk: bytes) -> bool:
        """Take a chunk from llama.cpp; True stops it."""
        return self._stopped.is_set() or not self._put(chunk)

    def _put(self, chunk: bytes | Exception | None) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
        except RuntimeError:  # the loop is closed: nobody reads this any more
            return False
        return True


class Llama:
    """A loaded model. Safe to use from several threads and event loops: replies queue up."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether it computes in this process: a fork has its memory but not its threads."""
        return self._process == os.getpid()

    def outlive(self) -> None:
        """Never be freed: in a fork, that would wait for threads that are not there."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))

    def generate(self, body: bytes) -> Generation:
        """Begin to answer a streamed Chat Completions request."""
        generation = Generation(self._server, body)
        generation.start()
        return generation


def load(file: ModelFile) -> Llama:
    """Return the loaded model; it is loaded once in a process and stays. Blocks for a second.

    Raises:
        MissingExtra: llama.cpp is not installed.
        ModelFilesError: llama.cpp cannot load this file.
    """
    with _loading:
        if file not in _loaded:
            _loaded[file] = Llama(_server(file))
        return _loaded[file]


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Call what blocks in a thread of its own.

    `work` gets an event that is set when nobody waits for it any more; it should then end soon.
    """
    job: Future[T] = Future()
    job.set_running_or_notify_cancel()
    given_up = threading.Event()

    def run() -> None:
        try:
            job.set_result(work(given_up))
        except BaseException as error:  # noqa: BLE001 it is raised where it is waited for
            job.set_exception(error)
        finally:
            _working.pop(threading.current_thread(), None)

    thread = threading.Thread(target=run, name="treadle-local-load", daemon=True)
    _working[thread] = given_up
    _end_well()
    thread.start()
    try:
        return await asyncio.wrap_future(job)
    finally:
        given_up.set()


def usable_threads() -> int:
    """Return how many threads to compute with: one for each core, up to a few."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(cores, MOST_THREADS))


def library() -> ModuleType:
    """Import llama.cpp; its threads must not spin while they wait, which a neighbour would pay.

    Raises:
        MissingExtra: it is not installed.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return import_module("xllamacpp")
    except ImportError as error:
        raise MissingExtra(
            'Local models need llama.cpp, which is not installed: pip install "treadle[local]" '
            '(from a clone: pip install ".[local]"), or use a model with a key, '
            'such as "openai:gpt-5.2".'
        ) from error


def _server(file: ModelFile) -> Server:
    """Load llama.cpp's server. It insists on listening: where none but this process can ask."""
    llama = library()
    params = llama.CommonParams()
    params.model.path = str(file.path)
    params.n_ctx = file.context
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = file.threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.verbosity = 0  # nothing on stderr; what fails is raised
    params.ui = False
    params.n_threads_http = 1
    params.endpoint_metrics = True
    params.api_keys = [secrets.token_hex(32)]
    params.cors_origins = "http://127.0.0.1"
    place = _unreachable_place()
    params.hostnames = [str(place / "unused.sock")] if place else ["127.0.0.1"]
    try:
        server = llama.Server(params)
        server.handle_metrics()  # waits for its loop: freed before that runs, it hangs for ever
        return server
    except RuntimeError as error:
        raise ModelFilesError(
            f"llama.cpp cannot load {str(file.path)!r}: the file is broken or of a kind that it "
            f"does not know, or {file.context} tokens of context need more memory than there is."
        ) from error
    finally:
        if place:
            rmtree(place, ignore_errors=True)


def _unreachable_place() -> Path | None:
    """Return a folder for a socket that nobody can open once it is removed; Windows has none."""
    return None if os.name == "nt" else Path(tempfile.mkdtemp(prefix="treadle-"))


@cache
def _end_well() -> None:
    """See to it, once, that neither the end of the process nor a fork of it hangs."""
    atexit.register(_end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release)
        os.register_at_fork(after_in_child=_forget)


def _end() -> None:
    """Stop what runs: the interpreter cannot end while a thread of it is inside llama.cpp."""
    generations, threads = list(_running), dict(_working)
    for generation in generations:
        generation.stop()
    for given_up in threads.values():
        given_up.set()
    for each in (*generations, *threads):
        each.join(END_SECONDS)


def _forget() -> None:
    """Begin anew in a fork: it loads its own model when it needs one.

    Such a process has to end by `os._exit`, as those of multiprocessing do: at an ordinary exit
    llama.cpp waits for threads that a fork does not have.
    """
    for llama in _loaded.values():
        llama.outlive()
    _loaded.clear()
    _running.clear()
    _working.clear()
    _loading.release()


_loading = threading.Lock()
_loaded: dict[ModelFile, Llama] = {}
_running: set[Generation] = set()
_working: dict[threading.Thread, threading.Event] = {}
