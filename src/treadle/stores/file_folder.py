"""The folder of a file store: one folder for each conversation, begun and forgotten as a whole.

format                     the version of all this
conversations/<ID>/        journal.jsonl, lease.json, blobs/<digest>
runs/<ID>                  where each run began
temp/                      what is being made, or deleted
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from treadle.errors import CorruptJournal, NewerJournal
from treadle.ids import new_stamp
from treadle.ports.store import Batch, Head
from treadle.stores.codec import digest_of
from treadle.stores.file_disk import (
    cut_at,
    file_name,
    locked,
    prepared,
    replace_quickly,
    sync_folder,
    write_at,
    write_fresh,
    write_new,
)
from treadle.stores.file_lines import (
    FORMAT,
    LeaseNote,
    Line,
    LineHead,
    all_batches,
    batch_line,
    copied_line,
    header,
    last_line,
    line_head,
    lines_after,
    new_head,
    whole_head,
)
from treadle.stores.heads import microseconds
from treadle.stores.refusals import not_found
from treadle.values.logs import logger

_DIGEST = re.compile(r"[0-9a-f]{64}")
_OLD = 3600.0
_IS_THERE = {errno.EEXIST, errno.ENOTEMPTY}
_TRIES = 10
_decode_note = msgspec.json.Decoder(LeaseNote).decode

log = logger(__name__)


class Journal:
    """One conversation, open and locked: for one who changes it, or for readers."""

    def __init__(self, conversation_id: str, path: Path, fd: int) -> None:
        self.fd = fd
        self.path = path
        self._folder = path.parent
        self._line = last_line(fd, path)
        note = self._note()
        try:
            self.head = whole_head(conversation_id, self._line.head, note)
        except OverflowError as error:
            raise CorruptJournal(
                f"{path}: the last line, or lease.json beside it, has a time that is beyond the "
                f"calendar ({error})."
            ) from error

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self._line.end

    @property
    def created_at(self) -> int:
        """When it began, which tells it from another of the same ID."""
        return self._line.head.created_at

    def append(self, head: Head, data: bytes) -> None:
        """Write the batch that makes this head."""
        line = batch_line(data, line_head(head, self._line.head.let_go))
        write_at(self.fd, self._line.end, line)

    def enter(self, head: Head, data: bytes) -> None:
        """Write the batch that makes this head, with its lease; both or nothing."""
        if head.lease is None:  # it came and went: the line tells of it
            self.append(head, data)
            return
        path = self._folder / "lease.json"
        with prepared(path, _note_of(head)) as beside:
            self.append(head, data)
            try:
                os.replace(beside, path)
            except OSError:
                cut_at(self.fd, self._line.end)
                raise

    def lease(self, head: Head) -> None:
        """Note the lease of this head. Whoever holds it ends with the power, so no disk waits."""
        replace_quickly(self._folder / "lease.json", _note_of(head))

    def lines(self, after: int) -> list[Line]:
        """Return the lines after a revision; -1 gives the first line, too."""
        return list(lines_after(self.fd, self.path, after))

    def batches(self) -> list[Batch] | None:
        """Return all batches at once, or None where their lines want a closer look."""
        return all_batches(self.fd, self.path)

    def keep(self, contents: Mapping[str, bytes]) -> None:
        """Keep content by its digest."""
        if not contents:
            return
        blobs = self._folder / "blobs"
        if not blobs.is_dir():
            blobs.mkdir()
            sync_folder(self._folder)
        for digest, content in contents.items():
            if not (blobs / digest).exists():
                write_new(blobs / digest, content)
        sync_folder(blobs)

    def content(self, digest: str) -> bytes | None:
        """Return content by its digest, or None when there is none."""
        if not _DIGEST.fullmatch(digest):
            return None
        try:
            found = (self._folder / "blobs" / digest).read_bytes()
        except FileNotFoundError:
            return None
        if digest_of(found) != digest:
            raise CorruptJournal(f"{self._folder}/blobs/{digest} is not what was written there.")
        return found

    def blobs(self) -> list[Path]:
        """Return the files of its content."""
        try:
            every = list((self._folder / "blobs").iterdir())
            return [each for each in every if _DIGEST.fullmatch(each.name)]
        except FileNotFoundError:
            return []

    def _note(self) -> LeaseNote | None:
        try:
            return _decode_note((self._folder / "lease.json").read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:  # a loss of power: nobody is left who held it
            return None


class Folder:
    """All conversations of a store."""

    def __init__(self, root: Path, patience: float) -> None:
        self.root = root
        self.runs = root / "runs"
        self._patience = patience
        self._conversations = root / "conversations"
        self._temp = root / "temp"
        self._ready = False

    def prepare(self) -> None:
        """Make the folders, or refuse those of a newer version; then clear what crashes left."""
        if self._ready:
            return
        mark = self.root / "format"
        if not mark.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            write_new(mark, b"%d\n" % FORMAT)
            sync_folder(self.root)
        found = mark.read_bytes().strip()
        if found != b"%d" % FORMAT:
            raise NewerJournal(
                f"{self.root} was written by a newer version of this package: it has format "
                f"{found.decode(errors='replace')}, this version knows {FORMAT}. "
                "Upgrade the package; nothing was touched."
            )
        folders = (self._conversations, self.runs, self._temp)
        missing = [each for each in folders if not each.exists()]  # copies drop empty ones
        for each in missing:
            each.mkdir(exist_ok=True)
        if missing:
            sync_folder(self.root)
        self._clear()
        self._ready = True

    @contextmanager
    def opened(self, conversation_id: str, *, alone: bool = False) -> Generator[Journal]:
        """Give a conversation, locked; or raise `ConversationNotFound`."""
        path = self._journal(conversation_id)
        with ExitStack() as stack:
            try:
                fd = stack.enter_context(locked(path, alone=alone, patience=self._patience))
            except FileNotFoundError:
                raise not_found(conversation_id) from None
            yield Journal(conversation_id, path, fd)

    @contextmanager
    def begun(self, conversation_id: str, now: datetime) -> Generator[Journal | None]:
        """Make a conversation and give it, locked from its first moment; None when there is one.

        Whoever fails with it has not made it: it is taken away again before others can use it.
        """
        if self._journal(conversation_id).exists():
            yield None
            return
        gone: Path | None = None
        try:
            with self._prepared([header(conversation_id, new_head(now))], ()) as beside:
                first = beside / "journal.jsonl"
                with locked(first, alone=True, patience=self._patience) as fd:
                    if not self._placed(beside, conversation_id):
                        yield None
                        return
                    journal = Journal(conversation_id, self._journal(conversation_id), fd)
                    try:
                        yield journal
                    except BaseException:
                        gone = self.delete(journal)
                        raise
        finally:
            if gone is not None:
                self.discard(gone)

    def copy(self, source: Journal, revision: int, new_id: str, now: datetime) -> bool:
        """Make a conversation of another's first lines and its content; False when there is one."""
        at = microseconds(now)

        def of_copy(head: LineHead) -> LineHead:
            return msgspec.structs.replace(head, created_at=at, updated_at=at, fence=0, let_go=0)

        first, *lines = [line for line in source.lines(-1) if line.head.revision <= revision]
        copied = [header(new_id, of_copy(first.head))]
        copied += [copied_line(line, of_copy(line.head)) for line in lines]
        with self._prepared(copied, source.blobs()) as beside:
            return self._placed(beside, new_id)

    def delete(self, journal: Journal) -> Path:
        """Take a conversation away; `discard` what is returned."""
        gone = self._temp / f"gone-{new_stamp()}"
        os.rename(journal.path.parent, gone)
        sync_folder(self._conversations)
        return gone

    def discard(self, gone: Path) -> None:
        """Delete what was taken away."""
        shutil.rmtree(gone, ignore_errors=True)

    def heads(self) -> list[Head]:
        """Return the heads of all conversations, as they are while others may be writing."""
        found: list[Head] = []
        for folder in self._conversations.iterdir():
            try:
                found.append(self._head_in(folder / "journal.jsonl"))
            except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile, or none of ours
                continue
            except CorruptJournal as error:  # the others are not affected
                log.warning("left out of a list: %s", error)
        return found

    def revision(self, conversation_id: str) -> int | None:
        """Return the revision of a conversation, or None where there is none."""
        path = self._journal(conversation_id)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return last_line(fd, path).head.revision
        finally:
            os.close(fd)

    @contextmanager
    def settling(self) -> Generator[None]:
        """Lock the index of runs against others who take runs out of it."""
        lock = self.root / "runs.lock"
        lock.touch()
        with locked(lock, alone=True, patience=self._patience):
            yield

    def _journal(self, conversation_id: str) -> Path:
        return self._conversations / file_name(conversation_id) / "journal.jsonl"

    def _head_in(self, path: Path) -> Head:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.pread(fd, 4096, 0).split(b"\n", 1)[0]
            return Journal(_named(first, path), path, fd).head
        finally:
            os.close(fd)

    @contextmanager
    def _prepared(self, lines: Iterable[bytes], blobs: Iterable[Path]) -> Generator[Path]:
        """Give what may become the folder of a conversation by its name."""
        beside = self._temp / f"new-{new_stamp()}"
        beside.mkdir()
        try:
            write_fresh(beside / "journal.jsonl", b"".join(lines))
            _link_all(blobs, beside / "blobs")
            sync_folder(beside)
            yield beside
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _placed(self, beside: Path, conversation_id: str) -> bool:
        journal = self._journal(conversation_id)
        for left in reversed(range(_TRIES)):
            try:
                os.rename(beside, journal.parent)
            except OSError as error:
                if journal.exists():
                    return False
                if left and error.errno in _IS_THERE:
                    continue  # somebody deleted it in between
                raise
            break
        sync_folder(self._conversations)
        return True

    def _clear(self) -> None:
        now = self._temp.stat().st_mtime
        for each in self._temp.iterdir():
            with suppress(FileNotFoundError):
                if each.name.startswith("gone-") or now - each.stat().st_mtime > _OLD:
                    self.discard(each)


def _note_of(head: Head) -> bytes:
    until = 0 if head.lease is None else microseconds(head.lease.expires_at)
    return msgspec.json.encode(LeaseNote(head.fence, head.owner, until))


def _link_all(blobs: Iterable[Path], folder: Path) -> None:
    folder_is_there = False
    for each in blobs:
        if not folder_is_there:
            folder.mkdir()
            folder_is_there = True
        try:
            os.link(each, folder / each.name)
        except OSError:  # no links on this file system, or too many
            write_fresh(folder / each.name, each.read_bytes())
    if folder_is_there:
        sync_folder(folder)


class _Named(msgspec.Struct):
    conversation_id: str


def _named(first: bytes, path: Path) -> str:
    try:
        return msgspec.json.decode(first, type=_Named).conversation_id
    except msgspec.DecodeError as error:
        raise CorruptJournal(f"{path}: line 1 cannot be read: {error}") from error
