"""The command line, run in this process."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from treadle.cli.main import main


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Treadle = Callable[..., Ended]


@pytest.fixture
def treadle(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Treadle:
    """Run `treadle` with these words; `stdin` is what comes on standard input."""

    def run(*words: str, stdin: str = "") -> Ended:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(words)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run
