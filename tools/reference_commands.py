"""The help of every command, for its reference page."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO

from treadle.cli.main import main as treadle_command

Cells = tuple[str, ...]
COLUMNS = "80"


def commands_below(words: Cells) -> Iterator[tuple[Cells, str]]:
    """Yield a command with its help, and then those that its help lists."""
    text = help_of(words)
    yield words, text
    listed = text.partition("\ncommands:\n")[2].partition("\n\n")[0]
    for name in re.findall(r"^    (\w+)  ", listed, re.MULTILINE):
        yield from commands_below((*words, name))


def help_of(words: Cells) -> str:
    """Return what a command prints for --help on a terminal of a fixed width."""
    output = StringIO()
    with fixed_width(), redirect_stdout(output):
        treadle_command([*words, "--help"])
    return output.getvalue()


@contextmanager
def fixed_width() -> Generator[None]:
    """Let argparse take the terminal for one of 80 columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
