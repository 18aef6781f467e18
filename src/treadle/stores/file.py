"""Keep conversations in a folder: files that people and their tools can read."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from treadle.errors import ConfigError
from treadle.journal import AnyEntry
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.store import Batch, ConversationStatus, Head, Lease
from treadle.stores.file_disk import failure
from treadle.stores.file_folder import Folder
from treadle.stores.file_steps import Files
from treadle.stores.waiting import Waiters

T = TypeVar("T")
_AT_ONCE = 8


class FileStore:
    """A store in a folder, which any number of processes on this machine may share.

    Each conversation is a file of lines that is only added to, with its media beside it. What
    `append` returned survives the loss of power. A file that others keep locked is waited for,
    `patience` seconds. Listing looks at each conversation: for many of them, take `SQLiteStore`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        patience: float = 30.0,
    ) -> None:
        self._root = Path(folder).absolute()
        self._clock = clock
        self._patience = patience
        self._here: dict[int, _Threads] = {}

    @classmethod
    def from_url(cls, url: str) -> FileStore:
        """Return the store that "file:relative" or "file:/absolute" or "file:///absolute" names.

        Raises:
            ConfigError: the URL is of another form.
        """
        parts = urlsplit(url)
        if parts.netloc or parts.query or parts.fragment or not parts.path:
            raise ConfigError(
                "The URL of a file store names a folder of this machine, without options: "
                "file:relative/folder or file:///absolute/folder"
            )
        return cls(unquote(parts.path))

    def __repr__(self) -> str:
        return f"FileStore({str(self._root)!r})"

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        return await self._run(lambda files: files.create(conversation_id))

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        return await self._run(lambda files: files.head(conversation_id))

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision; see the port."""
        batch = tuple(entries)
        revision = await self._run(
            lambda files: files.append(conversation_id, expected_revision, batch, fence)
        )
        self._threads().waiters.notify(conversation_id, revision)
        return revision

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        return await self._run(lambda files: files.read(conversation_id, max(0, from_revision)))

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        return await self._threads().waiters.wait(conversation_id, after_revision, seconds)

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        return await self._run(lambda files: files.runs.find(run_id))

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        return await self._run(lambda files: files.listed(status, max(0, limit), after))

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision` under a new ID; see the port."""
        return await self._run(lambda files: files.fork(conversation_id, revision, new_id))

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        await self._run(lambda files: files.delete(conversation_id))
        self._threads().waiters.notify(conversation_id, None)

    async def close(self) -> None:
        """Let go of threads; no file stays open between calls. What is used again begins again."""
        threads = self._here.get(os.getpid())
        if threads is not None:
            threads.abandon()

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; see the port."""
        return await self._run(
            lambda files: files.claim(conversation_id, owner, seconds, instead_of)
        )

    async def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take the conversation and write its next batch, in one step; see the port."""
        batch = tuple(entries)
        head, lease = await self._run(
            lambda files: files.claim_and_append(conversation_id, owner, seconds, batch, known)
        )
        self._threads().waiters.notify(conversation_id, head.revision)
        return head, lease

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        return await self._run(lambda files: files.renew(lease, seconds))

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        await self._run(lambda files: files.release(lease))

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content and return its SHA-256 in hex, or raise `ConversationNotFound`."""
        return await self._run(lambda files: files.put(conversation_id, content))

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content by its digest, or raise `ConversationNotFound`."""
        return await self._run(lambda files: files.get(conversation_id, digest))

    async def _run(self, work: Callable[[Files], T]) -> T:
        return await self._threads().run(work)

    def _threads(self) -> _Threads:
        """Return the threads of this process; a forked child must have its own."""
        found = self._here.get(os.getpid())
        if found is None:
            files = Files(Folder(self._root, self._patience), self._clock)
            found = self._here.setdefault(os.getpid(), _Threads(self._root, files))
            weakref.finalize(self, found.abandon)
        return found


class _Threads:
    """What a store has in one process: threads that wait for the disk, and who waits for news."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._lock = threading.Lock()  # event loops of several threads may share the store
        self._pool: ThreadPoolExecutor | None = None
        self.waiters = Waiters(self._look)

    async def run(self, work: Callable[[Files], T]) -> T:
        """Return what comes of the work, done by a thread. It is done even if nobody waits."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="treadle-files")
            working = self._pool.submit(self._work, work)
        ended = asyncio.wrap_future(working)
        ended.add_done_callback(_hear)
        return await asyncio.shield(ended)

    def abandon(self) -> None:
        """Let the threads end when they have done what waits. The next work begins anew."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    def _work(self, work: Callable[[Files], T]) -> T:
        try:
            self._files.folder.prepare()
            return work(self._files)
        except OSError as error:
            raise failure(error, self._root) from error

    async def _look(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        return await self.run(lambda files: files.revisions(conversation_ids))


def _hear(ended: asyncio.Future[T]) -> None:
    """Take note of an error that nobody waits for any more: asyncio would log it."""
    if not ended.cancelled():
        ended.exception()
