"""The command line, run in this process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.sessions import Session
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


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def seated(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Treadle:
    """Run `treadle` for somebody who sits at a terminal and types `stdin`."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words: str, stdin: str = "") -> Ended:
        screen = Screen()
        monkeypatch.setattr("sys.stdin", Screen(stdin))
        monkeypatch.setattr("sys.stderr", screen)
        code = main(words)
        return Ended(code, capsys.readouterr().out, screen.getvalue())

    return run


@pytest.fixture(params=["sqlite:///{}/chat.db", "file:{}/chats"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that other commands find again."""
    return str(request.param).format(tmp_path)


@pytest.fixture
def started() -> Iterator[list[Session]]:
    """Sessions to be closed at the end."""
    sessions: list[Session] = []
    yield sessions
    for session in sessions:
        session.close()
