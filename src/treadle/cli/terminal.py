"""The terminal that somebody sits at: what it can show, and asking them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import termios
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO, cast

from treadle.values.secret import hidden

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that move the cursor, change colours or the direction of text: not for strangers."""


class Terminal:
    """Standard input and output, which may be a terminal or not."""

    def __init__(
        self, stdin: TextIO, stdout: TextIO, stderr: TextIO, environment: Mapping[str, str]
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._environment = environment

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask."""
        return self.stdin.isatty() and self.stderr.isatty()

    @property
    def width(self) -> int:
        """Columns of the terminal; 80 when that is not known."""
        return max(20, shutil.get_terminal_size().columns)

    def paint(self, stream: TextIO) -> Paint:
        """Return the colours for a stream: none unless it is a terminal (or NO_COLOR is set)."""
        plain = self._environment.get("NO_COLOR") or self._environment.get("TERM") == "dumb"
        return Paint(on=stream.isatty() and not plain)

    async def confirm(self, question: str) -> bool:
        """Ask a question; only y or yes is a yes. What was typed before it does not count."""
        self._pose(f"{question} [y/N] ")
        answer = await _line(self.stdin.fileno())
        if not answer.endswith("\n"):
            self.stderr.write("\n")
        return answer.strip().lower() in ("y", "yes")

    def ask(self, question: str) -> str | None:
        """Ask while no event loop runs; return what was typed, or None after Ctrl-D.

        What was typed before the question does not count.
        """
        self._pose(question)
        answer = self.stdin.readline()
        if not answer.endswith("\n"):
            self.stderr.write("\n")
        return answer.strip() if answer else None

    def _pose(self, question: str) -> None:
        with suppress(OSError, termios.error):  # an input without a device has nothing waiting
            termios.tcflush(self.stdin.fileno(), termios.TCIFLUSH)
        self.stdout.flush()
        self.stderr.write(question)
        self.stderr.flush()


class _Unseen:
    """A stream to which no secret is written that this process knows."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        return self._stream.write(hidden(text))


def unseen(stream: TextIO) -> TextIO:
    """Return the stream without the secrets that this process knows, text by text."""
    return cast("TextIO", _Unseen(stream))


class Paint:
    """Colours and weights, or nothing where there are none."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def dim(self, text: str) -> str:
        """Return text that stands back."""
        return self._in(2, text)

    def bold(self, text: str) -> str:
        """Return text that stands out."""
        return self._in(1, text)

    def cyan(self, text: str) -> str:
        """Return the colour of what a model asks for."""
        return self._in(36, text)

    def red(self, text: str) -> str:
        """Return the colour of errors."""
        return self._in(31, text)

    def _in(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text


def visible(text: str) -> str:
    """Return text that shows its control characters instead of letting them act."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


def cut(text: str, columns: int) -> str:
    """Return text that fits into so many columns; wide characters take two."""
    if len(text) <= columns and text.isascii():
        return text
    used, fits = 0, 0
    for index, character in enumerate(text):
        used += _columns_of(character)
        if used > columns:
            return f"{text[:fits]}..."
        if used <= columns - 3:
            fits = index + 1
    return text


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


async def _line(descriptor: int) -> str:
    """Read a line from a terminal without a thread, so that a cancel leaves nobody waiting."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 4096).decode(errors="replace")
