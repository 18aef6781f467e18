"""Find messages in what a server writes to its standard output, among whatever else it prints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeGuard

import msgspec

from treadle.values import is_array, is_object

MOST_LINE = 64 * 1024 * 1024
"""Bytes of one message; a server that writes a longer line is not talking MCP."""
_TRIES = 50
_FEW_TRIES = 3
_LARGE = 1024 * 1024
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
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

    Bytes that are not UTF-8 inside a message are replaced, and so is what only some call JSON: NaN,
    halves of characters. What stands after such a message is dropped.
    """
    if not line.strip():
        return [], b""
    if b"jsonrpc" not in line:
        return [], line
    whole = _messages(line)
    if whole:
        return whole, b""
    tries = _TRIES if len(line) < _LARGE else _FEW_TRIES
    places = [found.start() for found in islice(_BEGINNING.finditer(line), tries)]
    for place in places:
        rest = _messages(line[place:])
        if rest:
            return rest, line[:place]
    for place in places[:_FEW_TRIES]:
        value = _leniently(line[place:])
        if _is_message(value):
            return [_strict(value)], line[:place]
    return [], line


def unreadable(message: bytes) -> bytes | None:
    """Return, in place of an answer that breaks the protocol, one that says so.

    Whoever waits for it hears at once. None when it is no answer to anybody.
    """
    return _refusal(message, asks=False, text="its answer is none that the protocol knows")


def refused(message: bytes) -> bytes | None:
    """Return the answer to a request that breaks the protocol, None when it is none."""
    return _refusal(message, asks=True, text="The request is none that the protocol knows.")


def _refusal(message: bytes, *, asks: bool, text: str) -> bytes | None:
    value = _leniently(message)
    if not _is_message(value) or ("method" in value) != asks:
        return None
    if not isinstance(value.get("id"), int | str):
        return None
    error = {"code": INVALID_REQUEST if asks else INTERNAL_ERROR, "message": text}
    return _strict({"jsonrpc": "2.0", "id": value["id"], "error": error})


def _messages(line: bytes) -> list[bytes]:
    text = line.decode(errors="replace").encode()
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    items: list[Any] = value if is_array(value) else [value]
    if not items or not all(map(_is_message, items)):
        return []
    return [msgspec.json.encode(item) for item in items] if is_array(value) else [text]


def _is_message(value: Any) -> TypeGuard[dict[str, Any]]:
    return is_object(value) and "jsonrpc" in value


def _leniently(text: bytes) -> Any:
    """Read a value as most readers of JSON do, whatever comes after it."""
    try:
        return _READER.raw_decode(text.decode(errors="replace"))[0]
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


_READER = json.JSONDecoder(parse_float=_number, parse_constant=lambda _: None, strict=False)


def _strict(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
