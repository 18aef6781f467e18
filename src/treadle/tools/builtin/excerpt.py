"""The head and the tail of a text that arrives in pieces."""

from __future__ import annotations

from codecs import getincrementaldecoder

FEW_BYTES = 512
_Decoder = getincrementaldecoder("utf-8")


class Excerpt:
    """Keeps the ends of what arrives, within `most` bytes, and counts the rest."""

    __slots__ = ("_head", "_most", "_size", "_tail")

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, piece: bytes) -> None:
        """Take in the next piece."""
        self._size += len(piece)
        room = self._most - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._most:  # now and then, not for every piece
            del self._tail[: -self._most]

    def text(self) -> str:
        """Return the whole text, or its head, how many bytes are left out, and its tail.

        Where there is little room it is mostly the head. No character is cut in two.
        """
        if self._size <= self._most:
            return self._fitting(self._head.decode(errors="replace"))
        room = max(0, self._most - len(_note(self._size, self._size)))
        at_end = room // 2 if room > FEW_BYTES else room // 4
        ends = self._head + self._tail
        head = _Decoder("replace").decode(ends[: room - at_end])  # without half a character
        tail = _from_character(ends[len(ends) - at_end :]).decode(errors="replace")
        note = _note(self._size, self._size - room)
        return self._fitting(f"{head}{note if room else ''}{tail}")

    def _fitting(self, text: str) -> str:
        """Bytes that are no text are shown in three bytes each; where that is too much, in one."""
        return text if len(text.encode()) <= self._most else text.replace("\ufffd", "?")


def _note(size: int, dropped: int) -> str:
    return f"\n[... {size} bytes in all, {dropped} in the middle are left out ...]\n"


def _from_character(cut: bytearray) -> bytearray:
    """Leave out the rest of a character that the cut went through."""
    begin = next((at for at, byte in enumerate(cut[:4]) if byte & 0xC0 != 0x80), 0)
    return cut[begin:]
