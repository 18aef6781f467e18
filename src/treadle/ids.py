"""Identifiers of runs, conversations, calls and spans: making and checking them."""

from __future__ import annotations

import os
import random
import time
import unicodedata
from typing import NewType

from treadle.errors import InvalidId

RunId = NewType("RunId", str)
ConversationId = NewType("ConversationId", str)
CallId = NewType("CallId", str)

LONGEST_ID = 200  # bytes of UTF-8

# IDs must be unique, not secret: a generator of our own spares a system call for each. Nobody who
# seeds the global one makes them repeat, and a forked child starts from a seed of its own.
_random = random.Random(os.urandom(32))  # noqa: S311 unique, not secret
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


def new_stamp() -> str:
    """Return 48 bits of milliseconds and 80 random bits in hex, so that stamps sort by time."""
    return f"{time.time_ns() // 1_000_000:012x}{_random.getrandbits(80):020x}"


def new_span_id() -> str:
    """Return 64 random bits as 16 hex digits, the width of a W3C trace-context span ID."""
    return f"{_random.getrandbits(64):016x}"


def check_id(value: str, kind: str) -> str:
    """Return `value` when it is a usable ID.

    An ID is 1 to 200 bytes of UTF-8 without control characters, slashes or backslashes, and
    is not a dot or two. Stores rely on this and check nothing again.

    Raises:
        InvalidId: with the value, cut to 60 characters, and the rule it breaks.
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers are not all typed
        raise InvalidId(f"A {kind} ID is a str, got {type(value).__name__}.")
    if (
        value.isascii()
        and value.replace("_", "").replace("-", "").isalnum()
        and len(value) <= LONGEST_ID
    ):
        return value
    problem = _problem(value)
    if problem:
        raise InvalidId(f"{kind} ID {value[:60]!r} {problem}")
    return value


def _problem(value: str) -> str:
    if not value or value.isspace():
        return "is empty; give at least one visible character."
    if value in (".", ".."):
        return "is a path step; choose a name."
    for character in value:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Cn") or character in "/\\\u2028\u2029":
            return f"contains {character!r}; leave out slashes and control characters."
    if len(value.encode()) > LONGEST_ID:
        return f"has {len(value.encode())} bytes; at most {LONGEST_ID} are allowed."
    return ""
