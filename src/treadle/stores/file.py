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

from msgspec.structs import replace

from treadle.errors import ConfigError, ConversationNotFound, CorruptJournal
from treadle.journal import AnyEntry
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.store import Batch, ConversationStatus, Head, Lease, begins
from treadle.stores.codec import digest_of, digests_in, encode_batch, with_media
from treadle.stores.file_disk import failure
from treadle.stores.file_folder import Folder, Journal
from treadle.stores.file_lines import MEDIA, batch_of
from treadle.stores.file_runs import RunIsThere, Runs, runs_in
from treadle.stores.heads import appended, claimed, place, readable, released, renewed
from treadle.stores.refusals import content_not_found, fork_gone, run_taken, taken
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

    async def _run(self, work: Callable[[_Files], T]) -> T:
        return await self._threads().run(work)

    def _threads(self) -> _Threads:
        """Return the threads of this process; a forked child must have its own."""
        found = self._here.get(os.getpid())
        if found is None:
            files = _Files(Folder(self._root, self._patience), self._clock)
            found = self._here.setdefault(os.getpid(), _Threads(self._root, files))
            weakref.finalize(self, found.abandon)
        return found


class _Threads:
    """What a store has in one process: threads that wait for the disk, and who waits for news."""

    def __init__(self, root: Path, files: _Files) -> None:
        self._root = root
        self._files = files
        self._lock = threading.Lock()  # event loops of several threads may share the store
        self._pool: ThreadPoolExecutor | None = None
        self.waiters = Waiters(self._look)

    async def run(self, work: Callable[[_Files], T]) -> T:
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

    def _work(self, work: Callable[[_Files], T]) -> T:
        try:
            self._files.folder.prepare()
            return work(self._files)
        except OSError as error:
            raise failure(error, self._root) from error

    async def _look(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        return await self.run(lambda files: files.revisions(conversation_ids))


class _Files:
    """What the methods of a store do, in a thread."""

    def __init__(self, folder: Folder, clock: Clock) -> None:
        self.folder = folder
        self.runs = Runs(folder)
        self._clock = clock

    def create(self, conversation_id: str) -> Head:
        """Begin a conversation where there is none."""
        while True:
            self.folder.begin(conversation_id, self._clock.now())
            try:
                return self.head(conversation_id)
            except ConversationNotFound:
                continue  # somebody deleted it in between

    def head(self, conversation_id: str) -> Head:
        """Return the head."""
        with self.folder.opened(conversation_id) as journal:
            return journal.head

    def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: tuple[AnyEntry, ...],
        fence: int | None,
    ) -> int:
        """Write one batch."""
        data, media = encode_batch(entries)
        run_ids = begins(entries)
        if len(set(run_ids)) < len(run_ids):
            raise run_taken(max(run_ids, key=run_ids.count))
        while True:
            try:
                with self.folder.opened(conversation_id, alone=True) as journal:
                    now = self._clock.now()
                    head = appended(journal.head, expected_revision, entries, fence, now)
                    self._write(journal, head, data, media, run_ids)
                    return head.revision
            except RunIsThere as error:
                if not self.runs.settle(error.run_id):
                    raise run_taken(error.run_id) from None

    def read(self, conversation_id: str, after: int) -> list[Batch]:
        """Return the batches after a revision."""
        with self.folder.opened(conversation_id) as journal:
            readable(journal.head)
            if after == 0 and (whole := journal.batches()) is not None:
                return whole
            lines, name = journal.lines(after), str(journal.path)
            found = [batch_of(line, name) for line in lines]
            for number, line in enumerate(lines):
                if MEDIA in line.rest:
                    found[number] = _restored(journal, found[number])
            return found

    def listed(
        self, status: ConversationStatus | None, limit: int, after: Head | None
    ) -> list[Head]:
        """Return heads in order."""
        kept = [
            head
            for head in self.folder.heads()
            if status in (None, head.status) and (after is None or place(head) > place(after))
        ]
        return sorted(kept, key=place)[:limit]

    def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a conversation."""
        with self.folder.opened(conversation_id) as journal:
            readable(journal.head)
            if not 0 <= revision <= journal.head.revision:
                raise fork_gone(journal.head, revision)
            if not self.folder.copy(journal, revision, new_id, self._clock.now()):
                raise taken(new_id)
        return self.head(new_id)

    def delete(self, conversation_id: str) -> None:
        """Forget a conversation and its runs."""
        try:
            with self.folder.opened(conversation_id, alone=True) as journal:
                run_ids, created_at = _runs_of(journal)
                gone = self.folder.delete(journal)
        except ConversationNotFound:
            return
        self.runs.forget(conversation_id, created_at, run_ids)
        self.folder.discard(gone)

    def claim(
        self, conversation_id: str, owner: str, seconds: float, instead_of: int | None
    ) -> tuple[Head, Lease]:
        """Take a conversation."""
        while True:
            self.folder.begin(conversation_id, self._clock.now())
            try:
                with self.folder.opened(conversation_id, alone=True) as journal:
                    now = self._clock.now()
                    head, lease = claimed(journal.head, owner, seconds, instead_of, now)
                    journal.lease(head)
                    return head, lease
            except ConversationNotFound:
                continue  # somebody deleted it in between

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep a lease longer."""
        with self.folder.opened(lease.conversation_id, alone=True) as journal:
            head, held = renewed(journal.head, lease, seconds, self._clock.now())
            journal.lease(head)
            return held

    def release(self, lease: Lease) -> None:
        """Let a lease go."""
        try:
            with self.folder.opened(lease.conversation_id, alone=True) as journal:
                head = released(journal.head, lease)
                if head is not journal.head:
                    journal.lease(head)
        except ConversationNotFound:
            return

    def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content."""
        digest = digest_of(content)
        with self.folder.opened(conversation_id, alone=True) as journal:
            journal.keep({digest: content})
        return digest

    def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content."""
        with self.folder.opened(conversation_id) as journal:
            found = journal.content(digest)
        if found is None:
            raise content_not_found(conversation_id, digest)
        return found

    def revisions(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        """Return the revisions of those conversations that there are."""
        found = {each: self.folder.revision(each) for each in conversation_ids}
        return {each: revision for each, revision in found.items() if revision is not None}

    def _write(
        self,
        journal: Journal,
        head: Head,
        data: bytes,
        media: Mapping[str, bytes],
        run_ids: Sequence[str],
    ) -> None:
        journal.keep(media)
        self.runs.begin(journal, run_ids)
        try:
            journal.append(head, data)
        except OSError:
            self.runs.undo(run_ids)
            raise


def _restored(journal: Journal, batch: Batch) -> Batch:
    media = {
        digest: content
        for digest in digests_in(batch.entries)
        if (content := journal.content(digest)) is not None
    }
    return replace(batch, entries=with_media(batch.entries, media))


def _hear(ended: asyncio.Future[T]) -> None:
    """Take note of an error that nobody waits for any more: asyncio would log it."""
    if not ended.cancelled():
        ended.exception()


def _runs_of(journal: Journal) -> tuple[list[str], int]:
    """Return the runs of a conversation and when it began; none where that cannot be read."""
    try:
        return runs_in(journal.lines(0), journal.path), journal.created_at
    except CorruptJournal:
        return [], 0
