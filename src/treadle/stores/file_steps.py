"""What the methods of a file store do, each in a thread that waits for the disk."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from msgspec.structs import replace

from treadle.errors import ConversationNotFound, CorruptJournal
from treadle.journal import AnyEntry
from treadle.ports.clock import Clock
from treadle.ports.store import Batch, ConversationStatus, Head, Lease
from treadle.stores.codec import digest_of, digests_in, encode_batch, with_media
from treadle.stores.file_folder import Folder, Journal
from treadle.stores.file_lines import MEDIA, batch_of
from treadle.stores.file_runs import RunIsThere, Runs, runs_in
from treadle.stores.heads import (
    appended,
    beginnings,
    claimed,
    entered,
    place,
    readable,
    released,
    renewed,
)
from treadle.stores.refusals import content_not_found, fork_gone, not_the_same, run_taken, taken


class Files:
    """What the methods of a store do, in a thread."""

    def __init__(self, folder: Folder, clock: Clock) -> None:
        self.folder = folder
        self.runs = Runs(folder)
        self._clock = clock

    def create(self, conversation_id: str) -> Head:
        """Begin a conversation where there is none."""
        while True:
            with self.folder.begun(conversation_id, self._clock.now()) as journal:
                if journal is not None:
                    return journal.head
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
        run_ids = beginnings(entries)
        while True:
            try:
                with self.folder.opened(conversation_id, alone=True) as journal:
                    now = self._clock.now()
                    head = appended(journal.head, expected_revision, entries, fence, now)
                    with self._beginning(journal, media, run_ids):
                        journal.append(head, data)
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
        with self._there(conversation_id, None) as journal:
            now = self._clock.now()
            head, lease = claimed(journal.head, owner, seconds, instead_of, now)
            journal.lease(head)
            return head, lease

    def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: tuple[AnyEntry, ...],
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take a conversation and write its next batch."""
        data, media = encode_batch(entries)
        run_ids = beginnings(entries)
        while True:
            try:
                with self._there(conversation_id, known) as journal:
                    now = self._clock.now()
                    head, lease = entered(
                        journal.head, known, conversation_id, owner, seconds, entries, now
                    )
                    with self._beginning(journal, media, run_ids):
                        journal.enter(head, data)
                    return head, lease
            except ConversationNotFound:
                raise not_the_same(conversation_id) from None
            except RunIsThere as error:
                if not self.runs.settle(error.run_id):
                    raise run_taken(error.run_id) from None

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

    @contextmanager
    def _there(self, conversation_id: str, known: Head | None) -> Generator[Journal]:
        """Give a conversation to one who changes it; what nobody knows is made if it is missing."""
        with ExitStack() as stack:
            journal: Journal | None = None
            if known is not None:
                journal = stack.enter_context(self.folder.opened(conversation_id, alone=True))
            while journal is None:
                begun = self.folder.begun(conversation_id, self._clock.now())
                journal = stack.enter_context(begun)
                with suppress(ConversationNotFound):  # somebody deleted it in between
                    journal = journal or stack.enter_context(
                        self.folder.opened(conversation_id, alone=True)
                    )
            yield journal

    @contextmanager
    def _beginning(
        self, journal: Journal, media: Mapping[str, bytes], run_ids: Sequence[str]
    ) -> Generator[None]:
        """Prepare what a batch names; what begins with it has not, when it cannot be written."""
        journal.keep(media)
        self.runs.begin(journal, run_ids)
        try:
            yield
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


def _runs_of(journal: Journal) -> tuple[list[str], int]:
    """Return the runs of a conversation and when it began; none where that cannot be read."""
    try:
        return runs_in(journal.lines(0), journal.path), journal.created_at
    except CorruptJournal:
        return [], 0
