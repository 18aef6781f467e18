"""The command table: help, version, usage errors and how failures are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Treadle
from treadle import __version__
from treadle.cli.main import main


def test_without_a_command_help_is_shown(treadle: Treadle) -> None:
    """Somebody who types only `treadle` learns what there is."""
    ended = treadle()

    assert ended.code == 0
    for command in ("run", "chat", "resume", "conversations", "models"):
        assert f"\n    {command} " in ended.out


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("run",),
        ("chat",),
        ("resume",),
        ("conversations",),
        ("conversations", "list"),
        ("conversations", "show"),
        ("conversations", "fork"),
        ("conversations", "delete"),
        ("models",),
        ("models", "pull"),
        ("mcp",),
    ],
)
def test_each_command_has_help(treadle: Treadle, command: tuple[str, ...]) -> None:
    """--help describes the command and ends well."""
    ended = treadle(*command, "--help")

    assert ended.code == 0
    assert ended.out.startswith(" ".join(["usage: treadle", *command]))


def test_the_version_is_shown(treadle: Treadle) -> None:
    """--version prints what is installed."""
    assert treadle("--version").out == f"treadle {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("run", "--nonsense", "x"),
        ("run", "x", "--max-turns", "0"),
        ("run", "x", "--max-turns", "many"),
        ("chat", "a", "b"),
        ("models", "nonsense"),
        ("resume", "run_1", "--nonsense"),
        ("resume", "run_1", "--edit"),
    ],
)
def test_wrong_usage_is_2(treadle: Treadle, words: tuple[str, ...]) -> None:
    """What argparse refuses is told on stderr, with the usage."""
    ended = treadle(*words)

    assert ended.code == 2
    assert "usage: treadle" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("place", [0, 1, 3])
def test_debug_shows_the_traceback(treadle: Treadle, place: int) -> None:
    """--debug may stand anywhere; without it an error is one line."""
    words = ["run", "tests.cli.agents:nobody", "hello"]
    plain = treadle(*words)
    words.insert(place, "--debug")
    debugged = treadle(*words)

    assert plain.err.count("\n") == 1
    assert "Traceback" not in plain.err
    assert "Traceback" in debugged.err
    assert debugged.err.endswith(plain.err)
    assert plain.code == debugged.code == 2


@pytest.mark.parametrize("closed", [("stdin",), ("stderr",), ("stdin", "stderr")])
def test_closed_streams_are_empty_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], closed: tuple[str, ...]
) -> None:
    """`<&-` and `2>&-`: nothing to read and nobody to tell, but an answer all the same."""
    for name in closed:
        monkeypatch.setattr(f"sys.{name}", None)

    assert main(["run", "tests.cli.agents:counter", "hi"]) == 0
    assert capsys.readouterr().out == "1: hi\n"


def test_a_closed_output_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`>&-`: there is nowhere to put an answer, so none is asked for."""
    monkeypatch.setattr("sys.stdout", None)

    assert main(["run", "tests.cli.agents:counter", "hi"]) == 2
    assert capsys.readouterr().err == (
        "treadle: standard output is closed; leave it open, or send it to /dev/null.\n"
    )


@pytest.mark.parametrize("words", [("--stream",), ()])
def test_a_full_output_is_told(words: tuple[str, ...]) -> None:
    """A disk without room is one clear line, once."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "treadle", "run", "tests.cli.agents:counter", "hi", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )

    assert ended.returncode == 1
    assert ended.stderr == (
        "treadle: the output cannot be written: No space left on device; "
        "send it elsewhere, or make room.\n"
    )


@pytest.mark.e2e
def test_the_package_runs_as_a_program() -> None:
    """`python -m treadle` and `treadle` are the same program."""
    module = subprocess.run(
        [sys.executable, "-m", "treadle", "--version"], capture_output=True, text=True, check=True
    )
    script = subprocess.run(
        [Path(sys.executable).with_name("treadle"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert module.stdout == script.stdout == f"treadle {__version__}\n"


@pytest.mark.e2e
def test_a_reader_that_leaves_is_no_error() -> None:
    """`treadle run ... | head -1` ends quietly."""
    words = "-m treadle run tests.cli.agents:counter --json --stream x"
    ended = subprocess.run(
        ["sh", "-c", f'"$0" {words} | head -1', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.startswith('{"type":"run.started"')
    assert ended.stderr == ""
