"""A journal as lines of text: each carries its entries, and the head that they made.

So the last line tells all of the head but the lease, and the two can never disagree. What a crash
left behind the last whole line was never acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.errors import CorruptJournal
from treadle.journal import AnyEntry
from treadle.ports.store import PLAIN, Batch, ConversationStatus, Head, Lease
from treadle.stores.codec import decode_batch
from treadle.stores.heads import microseconds, moment

FORMAT = 1
"""The version of the folder: what files there are, and what lines look like."""

MEDIA = b"blob:sha256:"
"""Stands in every line that names media."""
_BEGIN = b'{"entries":'
_HEAD = b',"head":{'
"""Cannot stand in a text, where quotes are escaped; the last one in a line is ours."""
_BLOCK = 8192


class LineHead(Struct, frozen=True, omit_defaults=True, gc=False):
    """The head as a line tells it, times as microseconds. `let_go` is the last fence that ended."""

    revision: int
    created_at: int
    updated_at: int
    status: ConversationStatus = "new"
    run_id: str | None = None
    pending: int = 0
    fence: int = 0
    let_go: int = 0
    reader: int = PLAIN


class LeaseNote(Struct, frozen=True, gc=False):
    """What the file beside the journal tells of the lease; `owner` is None when it was let go."""

    fence: int
    owner: str | None
    until: int


class Line(Struct, frozen=True, gc=False):
    """One whole line: where it ends in the file, the head in it, and the rest as it stands."""

    end: int
    head: LineHead
    rest: bytes


class _Whole(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    entries: tuple[AnyEntry, ...]
    head: LineHead


class _Opening(Struct, frozen=True):
    format: int
    conversation_id: str


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(LineHead).decode
_decode_lines = msgspec.json.Decoder(_Whole).decode_lines


def header(conversation_id: str, head: LineHead) -> bytes:
    """Return the first line of a journal."""
    opening = _encode(_Opening(FORMAT, conversation_id))
    return opening[:-1] + b',"head":' + _encode(head) + b"}\n"


def batch_line(data: bytes, head: LineHead) -> bytes:
    """Return the line of one batch."""
    return _BEGIN + data + b',"head":' + _encode(head) + b"}\n"


def copied_line(line: Line, head: LineHead) -> bytes:
    """Return the same line with another head."""
    return line.rest + b',"head":' + _encode(head) + b"}\n"


def line_head(head: Head, let_go: int) -> LineHead:
    """Return a head as a line tells it."""
    return LineHead(
        revision=head.revision,
        created_at=microseconds(head.created_at),
        updated_at=microseconds(head.updated_at),
        status=head.status,
        run_id=head.run_id,
        pending=head.pending,
        fence=head.fence,
        let_go=head.fence if head.lease is None else let_go,
        reader=head.reader,
    )


def whole_head(conversation_id: str, line: LineHead, note: LeaseNote | None) -> Head:
    """Return the head that the last line and the note of the lease tell together.

    Raises:
        OverflowError: a time in them is beyond the calendar.
    """
    lease: Lease | None = None
    if note is not None and note.owner is not None and note.fence > line.let_go:
        lease = Lease(conversation_id, note.owner, note.fence, moment(note.until))
    return Head(
        conversation_id=conversation_id,
        revision=line.revision,
        status=line.status,
        run_id=line.run_id,
        pending=line.pending,
        created_at=moment(line.created_at),
        updated_at=moment(line.updated_at),
        fence=max(line.fence, 0 if note is None else note.fence),
        lease=lease,
        reader=line.reader,
    )


def new_head(now: datetime) -> LineHead:
    """Return the head of a journal that begins."""
    at = microseconds(now)
    return LineHead(revision=0, created_at=at, updated_at=at)


def last_line(fd: int, path: Path) -> Line:
    """Return the last whole line, reading no more than is needed from the end of the file.

    Zeros are what a loss of power leaves where the last, unacknowledged, line was to be.

    Raises:
        CorruptJournal: there is none, or it cannot be read.
    """
    start = os.fstat(fd).st_size
    read = b""
    while True:
        end = read.rfind(b"\n") + 1
        begin = read.rfind(b"\n", 0, end - 1) + 1 if end else 0
        if end and (begin or not start):
            if b"\0" not in read[begin:end]:
                return parsed(read[begin:end], start + end, f"{path}: the last line")
            read = read[:begin]
        elif not start:
            raise CorruptJournal(f"{path} has no whole line. Restore a copy, or delete its folder.")
        else:
            step = min(max(_BLOCK, len(read)), start)
            start -= step
            read = os.pread(fd, step, start) + read


def lines_after(fd: int, path: Path, revision: int) -> Iterator[Line]:
    """Give the lines after a revision, oldest first; -1 gives the first line, too.

    The file is read from its end, as far back as is needed.
    """
    end = last_line(fd, path).end
    start = 0 if revision <= 0 else max(0, end - _BLOCK * 8)
    while start and not _reaches(_first_after(fd, start, end), path, revision):
        start = max(0, end - (end - start) * 4)
    text = _first_after(fd, start, end) if start else _read(fd, 0, end)
    position = end - len(text)
    expected: int | None = 0 if start == 0 else None
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        position += len(line)
        found = _line(line, position)
        if found is None or (expected is not None and found.head.revision != expected):
            which = f"line {number}" if start == 0 else f"the line that ends at byte {position}"
            at = parsed(line, position, f"{path}: {which}").head.revision
            raise CorruptJournal(f"{path}: {which} has revision {at}, not {expected}.")
        expected = found.head.revision + 1
        if found.head.revision > revision:
            yield found


def all_batches(fd: int, path: Path) -> list[Batch] | None:
    """Return the batches of a whole journal at once, or None where lines want a closer look.

    They do when one is damaged or of a newer version, and when media are kept beside it.
    """
    text = _read(fd, 0, last_line(fd, path).end)
    if MEDIA in text or b"\r" in text:
        return None
    first, *lines = text.split(b"\n")[:-1]
    opening = _line(first + b"\n", 0)
    if opening is None or opening.head.revision != 0 or not all(map(_is_plain, lines)):
        return None
    try:
        found = _decode_lines(memoryview(text)[len(first) + 1 :])
    except msgspec.DecodeError:
        return None
    if [line.head.revision for line in found] != list(range(1, len(lines) + 1)):
        return None
    return [Batch(line.head.revision, line.entries) for line in found]


def line_at(fd: int, start: int, end: int, path: Path) -> Line | None:
    """Return the line that begins at a byte, or None where the whole lines end before it.

    Raises:
        CorruptJournal: a whole line should begin there, and does not.
    """
    if start >= end:
        return None
    where = f"{path}: the line at byte {start}"
    read = _read(fd, max(0, start - 1), min(start + _BLOCK, end))
    if start < 1 or not read.startswith(b"\n"):
        raise _corrupt(read[1:], where, "no line begins there")
    text = read[1:]
    while b"\n" not in text:
        text = _read(fd, start, min(start + 2 * len(text), end))
    text = text[: text.index(b"\n") + 1]
    return parsed(text, start + len(text), where)


def parsed(text: bytes, end: int, where: str) -> Line:
    """Return a line that ends at this byte, or raise `CorruptJournal`."""
    found = _line(text, end)
    if found is None:
        raise _corrupt(text, where, "it is not a line of a journal")
    return found


def _is_plain(line: bytes) -> bool:
    """Whether a line looks as ours do, where JSON alone would let more pass."""
    return line.startswith(_BEGIN) and line.endswith(b"}}") and line.rfind(_HEAD) > 0


def _line(text: bytes, end: int) -> Line | None:
    middle = text.rfind(_HEAD)
    if middle < 0 or not text.endswith(b"}}\n"):
        return None
    try:
        head = _decode_head(text[middle + len(_HEAD) - 1 : -2])
    except msgspec.DecodeError:
        return None
    return Line(end, head, text[:middle])


def batch_of(line: Line, path: str) -> Batch:
    """Return the batch of a line; large media in it are still digests."""
    revision = line.head.revision
    if not line.rest.startswith(_BEGIN):
        raise _corrupt(line.rest, f"{path}: revision {revision}", "it has no entries")
    return Batch(revision, decode_batch(line.rest[len(_BEGIN) :], path, revision))


def _reaches(text: bytes, path: Path, revision: int) -> bool:
    """Whether this piece of the file begins at or before the line after that revision."""
    end = text.find(b"\n") + 1
    return bool(end) and parsed(text[:end], 0, str(path)).head.revision <= revision + 1


def _first_after(fd: int, start: int, end: int) -> bytes:
    text = _read(fd, start, end)
    return text[text.index(b"\n") + 1 :] if b"\n" in text else b""


def _read(fd: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _corrupt(text: bytes, where: str, problem: str) -> CorruptJournal:
    shown = text[:80].decode(errors="replace")
    return CorruptJournal(f"{where} cannot be read: {problem} ({shown!r})")
