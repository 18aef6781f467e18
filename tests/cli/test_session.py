"""`treadle` on a real terminal: prompts, Ctrl-C, Ctrl-D and being asked."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sessions import CTRL_C, CTRL_D, SECONDS, Session, start

pytestmark = pytest.mark.e2e


def test_a_conversation(started: list[Session]) -> None:
    """The program greets, answers at its prompt with history, and Ctrl-D leaves."""
    session = start(started, "chat", "tests.cli.agents:counter")
    session.until("counter on function:count. /help shows the commands, Ctrl-D leaves.\n> ")
    session.type("one\n")
    session.until("1: one\n> ")
    session.type("two\n")
    session.until("3: two\n> ")
    session.type(CTRL_D)

    assert session.end() == 0


def test_ctrl_c_stops_the_run_and_not_the_program(started: list[Session]) -> None:
    """The prompt comes back, the history is valid, and the conversation goes on."""
    session = start(started, "chat", "tests.cli.agents:waiter")
    session.until("> ")
    session.type("wait\n")
    session.until("-> wait()\n")
    session.type(CTRL_C)
    session.until("[cancelled: Interrupted.]\n> ")
    session.type("go on\n")
    session.until("Here.\n> ")
    session.type(CTRL_D)

    assert session.end() == 0


def test_ctrl_c_twice_at_the_prompt_leaves(started: list[Session]) -> None:
    """The first says how to leave; a line in between starts anew."""
    session = start(started, "chat", "tests.cli.agents:counter")
    session.until("> ")
    session.type(CTRL_C)
    session.until("[press Ctrl-C again, or Ctrl-D, to leave]\n> ")
    session.type("one\n")
    session.until("1: one\n> ")
    session.type(CTRL_C)
    session.until("to leave]\n> ")
    session.type(CTRL_C)

    assert session.end() == 130


def test_a_command_runs_only_after_a_yes(started: list[Session]) -> None:
    """A no, an empty line and Ctrl-D are no yes; each call is asked about."""
    session = start(started, "chat", "tests.cli.asking:asker")
    session.until("> ")
    for answer in ("n\n", "\n", "yeah\n", CTRL_D):
        session.type("echo done\n")
        session.until('As you wish.\n-> bash(command="echo done")\nbash:\n  command: echo done\n')
        session.until("Run this? [y/N] ")
        session.type(answer)
        session.until("It said: \"The user said no to this call of 'bash'; it did not run.\"\n> ")
    session.type("echo done\n")
    session.until("Run this? [y/N] ")
    session.type("y\n")
    session.until("<- done\n   [exit code 0]\n")
    session.until("It said: 'done\\n[exit code 0]'\n> ")


def test_a_yes_typed_too_early_is_none(started: list[Session]) -> None:
    """Nobody says yes to a question that they have not seen."""
    session = start(started, "chat", "tests.cli.asking:asker")
    session.until("> ")
    session.type("echo done\ny\n")
    session.until("Run this? [y/N] ")
    session.type("n\n")
    session.until("The user said no")


def test_ctrl_c_at_the_question_runs_nothing(started: list[Session], tmp_path: Path) -> None:
    """Whoever leaves the question open has not said yes; after a yes the same command runs."""
    session = start(started, "chat", "tests.cli.asking:asker", folder=tmp_path)
    session.until("> ")
    for answer, shown in ((CTRL_C, "[cancelled: Interrupted.]\n> "), ("y\n", "[exit code 0]'\n> ")):
        assert os.listdir(tmp_path) == []
        session.type("touch made\n")
        session.until("Run this? [y/N] ")
        session.type(answer)
        session.until(shown)

    assert os.listdir(tmp_path) == ["made"]


def test_ctrl_c_stops_a_command(started: list[Session], tmp_path: Path) -> None:
    """A command that runs ends with the run; nothing of it is left."""
    sleep = f"sleep 300.{os.getpid()}"
    session = start(started, "chat", "tests.cli.asking:asker", folder=tmp_path)
    session.until("> ")
    session.type(f"touch begun; {sleep} & {sleep}\n")
    session.until("Run this? [y/N] ")
    session.type("y\n")
    assert _becomes(lambda: (tmp_path / "begun").exists() and _running(sleep) == 2)
    session.type(CTRL_C)
    session.until("[cancelled: Interrupted.]\n> ")

    assert _becomes(lambda: _running(sleep) == 0)


def _running(command: str) -> int:
    """How many processes run a command."""
    found = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True)
    return found.stdout.splitlines().count(command)


def _becomes(true: Callable[[], bool]) -> bool:
    """Whether it is so before long."""
    until = time.monotonic() + SECONDS
    while not true() and time.monotonic() < until:
        select.select([], [], [], 0.02)
    return true()


def test_an_interrupted_run_prints_what_there_was() -> None:
    """`treadle run` answers Ctrl-C with the text so far and exit code 130."""
    program = subprocess.Popen(
        [sys.executable, "-m", "treadle", "run", "tests.cli.agents:waiter", "wait"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert program.stderr is not None
    assert program.stderr.readline() == "waiting\n"
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=SECONDS)

    assert program.returncode == 130
    assert err == "treadle: the run stopped (cancelled). Interrupted.\n"
    assert out == "One moment.\n"
