"""Messages between a program and its worker processes: a length, and a pickled tuple."""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any, Protocol

MOST_BYTES = 64 * 1024 * 1024
LENGTH = Struct("!Q")

Frame = tuple[Any, ...]
"""A word that says what it is, then what belongs to it: texts, numbers, bytes and tuples."""


class Readable(Protocol):
    """A buffered file."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end only."""
        ...


class FrameTooLarge(Exception):
    """A message is larger than `MOST_BYTES`; `size` is in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes, and at most {MOST_BYTES} can be sent at once")


def frame_bytes(frame: Frame) -> bytes:
    """Return a frame as it is sent.

    Raises:
        FrameTooLarge: it is larger than `MOST_BYTES`.
    """
    content = pickle.dumps(frame, pickle.HIGHEST_PROTOCOL)
    if len(content) > MOST_BYTES:
        raise FrameTooLarge(len(content))
    return LENGTH.pack(len(content)) + content


def read_frame(file: Readable) -> Frame:
    """Wait for the next frame.

    Raises:
        EOFError: the other side is gone.
    """
    header = file.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError
    (size,) = LENGTH.unpack(header)
    content = file.read(size)
    if len(content) < size:
        raise EOFError
    return pickle.loads(content)  # noqa: S301 the other side is this very program
