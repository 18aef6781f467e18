"""Find messages in what a server writes to its standard output, among whatever else it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from treadle.values import is_array, is_object

MOST_LINE = 64 * 1024 * 1024
"""Bytes of one message; a server that writes a longer line is not talking MCP."""
_TRIES = 50
_BEGINNING = re.compile(rb"\{\s*\"")


class TooLong(Exception):
    """A line has no end."""


class Lines:
    """Cuts bytes into lines, however they arrive."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Return the lines that end in `chunk`, without their ends.

        Raises:
            TooLong: the open line has more than 64 MiB.
        """
        first, *others = chunk.split(b"\n")
        self._keep(first)
        for following in others:
            yield b"".join(self._pieces).rstrip(b"\r")
            self._pieces, self._size = [], 0
            self._keep(following)

    def rest(self) -> bytes:
        """Return what stands after the last end of a line."""
        return b"".join(self._pieces)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_LINE:
            raise TooLong(f"a line of more than {MOST_LINE} bytes")
        self._pieces.append(piece)


def messages_in(line: bytes) -> tuple[list[bytes], bytes]:
    """Return the JSON-RPC messages of a line, and what in it is none.

        >>> messages_in(b'Loading... {"jsonrpc":"2.0","id":1,"result":{}}')
        ([b'{"jsonrpc":"2.0","id":1,"result":{}}'], b'Loading... ')

    Bytes that are not UTF-8 inside a message are replaced.
    """
    if not line.strip():
        return [], b""
    whole = _messages(line)
    if whole:
        return whole, b""
    for found in list(_BEGINNING.finditer(line))[:_TRIES]:
        rest = _messages(line[found.start() :])
        if rest:
            return rest, line[: found.start()]
    return [], line


def _messages(text: bytes) -> list[bytes]:
    value = _decoded(text)
    items: list[Any] = value if is_array(value) else [value]
    if not items or not all(is_object(item) and "jsonrpc" in item for item in items):
        return []
    return [msgspec.json.encode(item) for item in items] if is_array(value) else [_clean(text)]


def _clean(text: bytes) -> bytes:
    return text.decode(errors="replace").encode()


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(_clean(text))
    except (msgspec.DecodeError, RecursionError):
        return None
