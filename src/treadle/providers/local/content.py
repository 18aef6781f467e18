"""Model files known by what is in them: their hash, and a note that it was checked."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.errors import ModelFilesError
from treadle.providers.local.catalogue import KnownModel, known_models

_CHUNK = 1 << 20
_MAGIC = b"GGUF"


class _Mark(Struct, frozen=True):
    """What a file was when its hash was taken: while these stand, its content does."""

    size: int
    mtime_ns: int
    sha256: str


def hash_of(path: Path, marks: Path) -> str:
    """Return the SHA-256 of a file, from the note in the folder `marks` if it still holds.

    Raises:
        OSError: the file cannot be read.
    """
    state = path.stat()
    note = _note(path, marks)
    with suppress(OSError, msgspec.MsgspecError):
        mark = msgspec.json.decode(note.read_bytes(), type=_Mark)
        if (mark.size, mark.mtime_ns) == (state.st_size, state.st_mtime_ns):
            return mark.sha256
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    remember(path, digest.hexdigest(), marks)
    return digest.hexdigest()


def remember(path: Path, sha256: str, marks: Path) -> None:
    """Note the hash of a file as it is now. A folder that cannot be written to costs time only."""
    state = path.stat()
    mark = _Mark(state.st_size, state.st_mtime_ns, sha256)
    note = _note(path, marks)
    fresh = note.with_suffix(".new")
    with suppress(OSError):
        marks.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(msgspec.json.encode(mark))
        fresh.replace(note)


def is_content_of(path: Path, model: KnownModel, marks: Path) -> bool:
    """Whether a file is this model, to the last byte."""
    try:
        return path.stat().st_size == model.size and hash_of(path, marks) == model.sha256
    except OSError:
        return False


def identify(path: Path, marks: Path) -> KnownModel | None:
    """Return the known model that a file is, whatever its name."""
    return next((model for model in known_models() if is_content_of(path, model, marks)), None)


def check_gguf(path: Path, said_by: str) -> Path:
    """Return `path` if it is a GGUF file; `said_by` names who asked for it.

    Raises:
        ModelFilesError: there is no such file, or it is something else.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelFilesError(
            f"{said_by} names {str(path)!r}, which cannot be read: {error.strerror}. "
            "Give it the path of a GGUF file."
        ) from error
    if start != _MAGIC:
        raise ModelFilesError(
            f"{said_by} names {str(path)!r}, which is not a GGUF file: it begins with {start!r}. "
            "Give it the path of a GGUF file."
        )
    return path


def _note(path: Path, marks: Path) -> Path:
    return marks / (hashlib.sha256(str(path).encode()).hexdigest()[:32] + ".json")
