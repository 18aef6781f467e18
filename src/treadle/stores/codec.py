"""Entries as bytes and back: what every durable store keeps.

A batch is one JSON array, without line breaks. Large media stand in it by their digest and are kept
once beside it. Kinds of entries and fields that this version does not know are passed over, so an
older version reads what a newer one added; a journal that needs more says so in `Head.reader`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from treadle.errors import CorruptJournal, NotStorable
from treadle.journal import (
    AnyEntry,
    CallEnded,
    ChildBegan,
    MessageAdded,
    MessageQueued,
    ModelReplied,
    RunBegan,
    ViewReset,
)
from treadle.messages import Audio, File, Image, Message, ToolResult

LARGE = 1024
"""Media of so many bytes and more are kept by digest."""
_BLOB = "blob:sha256:"
"""Begins the URL of a medium that is kept by digest. Its content is empty, which tells it from one
of this form that somebody else wrote."""
_Media = Image | Audio | File
_MEDIA = (Image, Audio, File)

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(tuple[AnyEntry, ...])
_decode, _decode_lines = _decoder.decode, _decoder.decode_lines
_decode_raw = msgspec.json.Decoder(list[Raw]).decode
_decode_one = msgspec.json.Decoder(AnyEntry).decode
_KNOWN = frozenset(str(kind.__struct_config__.tag) for kind in AnyEntry.__args__)

PartT = TypeVar("PartT")


class _Any(Struct):
    """What every entry has, whatever else a newer version put there."""

    type: str
    run_id: str
    at: Any = None
    path: str = ""


_decode_any = msgspec.json.Decoder(_Any).decode


def encode_batch(entries: Sequence[AnyEntry]) -> tuple[bytes, dict[str, bytes]]:
    """Return the batch as JSON, and the media that it names by digest.

    Raises:
        NotStorable: a text holds half a character, or a value has no JSON form.
    """
    media: dict[str, bytes] = {}
    lightened = [_lightened(entry, media) for entry in entries]
    try:
        return _encode(lightened), media
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotStorable(f"An entry cannot be stored: {error}") from error


def decode_batch(data: bytes, journal: str, revision: int) -> tuple[AnyEntry, ...]:
    """Return the entries of a batch; large media in it are still digests.

    `journal` and `revision` name the place for the error.

    Raises:
        CorruptJournal: it cannot be read.
    """
    try:
        return _decode(data)
    except msgspec.DecodeError:
        try:
            return tuple(_one(bytes(raw)) for raw in _decode_raw(data))
        except (msgspec.DecodeError, TypeError) as error:
            shown = data[:80].decode(errors="replace")
            raise CorruptJournal(
                f"{journal}: revision {revision} cannot be read: {error} ({shown!r})"
            ) from error


def decode_batches(lines: bytes) -> list[tuple[AnyEntry, ...]] | None:
    """Return the entries of batches, one to a line, all at once.

    None stands for a line that wants `decode_batch`, which knows what newer versions write.
    """
    try:
        return _decode_lines(lines)
    except msgspec.DecodeError:
        return None


def digests_in(entries: Sequence[AnyEntry]) -> set[str]:
    """Return the digests of media that the entries name."""
    return {
        digest
        for entry in entries
        for message in _messages(entry)
        for part in _media(message)
        if (digest := _digest_in(part)) is not None
    }


def with_media(entries: Sequence[AnyEntry], media: Mapping[str, bytes]) -> tuple[AnyEntry, ...]:
    """Return the entries with their media in place of digests.

    Raises:
        CorruptJournal: one is not there.
    """

    def restored(part: PartT) -> PartT:
        if not isinstance(part, _MEDIA) or (digest := _digest_in(part)) is None:
            return part
        if digest not in media:
            raise CorruptJournal(f"The content {digest} that the journal names is not there.")
        return replace(part, content=media[digest], url=None)

    return tuple(_changed(entry, restored) for entry in entries)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of content, in hex."""
    return hashlib.sha256(content).hexdigest()


def _digest_in(part: _Media) -> str | None:
    if part.content != b"" or part.url is None or not part.url.startswith(_BLOB):
        return None
    return part.url[len(_BLOB) :]


def _one(raw: bytes) -> AnyEntry:
    found = _decode_any(raw)
    if found.type in _KNOWN:
        return _decode_one(raw)
    at = msgspec.convert(found.at, type=Any)
    known = {"type": "unknown", "run_id": found.run_id, "at": at, "path": found.path}
    return _decode_one(_encode({**known, "kind": found.type}))


def _lightened(entry: AnyEntry, media: dict[str, bytes]) -> AnyEntry:
    def lightened(part: PartT) -> PartT:
        if not isinstance(part, _MEDIA) or part.content is None:
            return part
        if part.url is not None:  # large or not, both stay: nothing may be lost
            return replace(part, content=None) if _digest_in(part) is not None else part
        if len(part.content) < LARGE:
            return part
        digest = digest_of(part.content)
        media[digest] = part.content
        return replace(part, content=b"", url=f"{_BLOB}{digest}")

    return _changed(entry, lightened)


def _changed(entry: AnyEntry, change: Any) -> AnyEntry:
    """Return the entry with each medium changed; the entry itself where there is none."""
    if not any(_media(message) for message in _messages(entry)):
        return entry
    if isinstance(entry, CallEnded):
        links = tuple(_result(link, change) for link in entry.links)
        return replace(entry, result=_result(entry.result, change), links=links)
    if isinstance(entry, ViewReset):
        return replace(entry, messages=tuple(_said(m, change) for m in entry.messages))
    if isinstance(entry, RunBegan | ChildBegan):
        history = tuple(_said(message, change) for message in entry.history)
        said = None if entry.input is None else _said(entry.input, change)
        return replace(entry, input=said, history=history)
    if isinstance(entry, ModelReplied | MessageAdded | MessageQueued):
        return replace(entry, message=_said(entry.message, change))
    return entry


def _said(message: Message, change: Any) -> Message:
    parts = tuple(
        _result(part, change) if isinstance(part, ToolResult) else change(part)
        for part in message.parts
    )
    return replace(message, parts=parts)


def _result(result: ToolResult, change: Any) -> ToolResult:
    return replace(result, parts=tuple(change(part) for part in result.parts))


def _messages(entry: AnyEntry) -> tuple[Message, ...]:
    """Return the messages of an entry; a call's results count as one."""
    if isinstance(entry, ModelReplied | MessageAdded | MessageQueued):
        return (entry.message,)
    if isinstance(entry, CallEnded):
        return (Message("tool", (entry.result, *entry.links)),)
    if isinstance(entry, RunBegan | ChildBegan):
        return entry.history if entry.input is None else (*entry.history, entry.input)
    return entry.messages if isinstance(entry, ViewReset) else ()


def _media(message: Message) -> list[_Media]:
    found: list[_Media] = []
    for part in message.parts:
        if isinstance(part, _MEDIA):
            found.append(part)
        elif isinstance(part, ToolResult):
            found += [item for item in part.parts if isinstance(item, _MEDIA)]
    return found
