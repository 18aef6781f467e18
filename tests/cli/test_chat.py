"""`treadle chat`, fed from a pipe; `test_session.py` has the terminal."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Treadle

AGENTS = "tests.cli.agents"


def test_each_line_is_a_question_with_history(treadle: Treadle) -> None:
    """The agent hears all that was said before; blank lines say nothing."""
    ended = treadle("chat", f"{AGENTS}:counter", stdin="one\n\n  two  \nthree")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "1: one\n3: two\n5: three\n"


def test_calls_are_shown_among_the_text(treadle: Treadle) -> None:
    """A conversation shows what happens in the order in which it does."""
    ended = treadle("chat", f"{AGENTS}:adder", stdin="20 + 3?\n")

    assert ended.out == "Let me see.\n-> add(a=20, b=3)\n<- 23\nIt is 23.\n"


def test_lines_can_go_on(treadle: Treadle) -> None:
    """A backslash at the end joins lines to one question."""
    ended = treadle("chat", f"{AGENTS}:counter", stdin="one\\\ntwo\n")

    assert ended.out == "1: one\ntwo\n"


def test_new_forgets(treadle: Treadle) -> None:
    """After /new the history and the usage begin anew."""
    ended = treadle("chat", f"{AGENTS}:counter", stdin="one\n/new\ntwo\n/usage\n")

    assert "1: two\n" in ended.out
    assert "1 requests" in ended.out


def test_usage_is_summed(treadle: Treadle) -> None:
    """/usage tells what the whole conversation took."""
    ended = treadle("chat", f"{AGENTS}:adder", stdin="a\nb\n/usage\n")

    assert ended.out.endswith("0 tokens in, 0 out, 4 requests, 2 tool calls\n")


def test_tools_are_listed(treadle: Treadle) -> None:
    """/tools shows names and what they are for."""
    ended = treadle("chat", f"{AGENTS}:adder", stdin="/tools\n")

    assert ended.out == "add  Add two numbers.\n"


def test_the_model_can_be_changed(treadle: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """/model takes a name that exists, and stays with the old one otherwise."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    lines = "/model\n/model nobody:x\n/model\n/model openai:gpt-5.2\n/model\n"

    ended = treadle("chat", f"{AGENTS}:counter", stdin=lines)

    assert ended.out.split() == ["function:count"] * 2 + ["openai:gpt-5.2"] * 2
    assert "'nobody:x' names no installed provider" in ended.err


@pytest.mark.parametrize("word", ["/quit", "/exit", "/q"])
def test_quitting_ends_it(treadle: Treadle, word: str) -> None:
    """Nothing after it is asked."""
    assert treadle("chat", f"{AGENTS}:counter", stdin=f"{word}\none\n").out == ""


def test_help_and_mistyped_commands(treadle: Treadle) -> None:
    """A word with a slash is a command; a path at the start of a question is not."""
    ended = treadle("chat", f"{AGENTS}:counter", stdin="/help\n/hlep\n/xyzzy\n/etc/hosts?\n")

    assert "/usage  " in ended.out
    assert "There is no command /hlep; did you mean /help?" in ended.out
    assert "There is no command /xyzzy; see /help." in ended.out
    assert ended.out.endswith("1: /etc/hosts?\n")


def test_a_failure_is_not_the_end(treadle: Treadle) -> None:
    """An error is one line, what was shown before it stays, and the next question can be asked."""
    ended = treadle("chat", f"{AGENTS}:failing", stdin="one\ntwo\n")

    assert ended.code == 0
    assert ended.out == "Well, \nWell, \n"
    assert ended.err == "treadle: The key was refused. Check it.\n" * 2


def test_a_limit_is_told(treadle: Treadle) -> None:
    """A run that stops early says so behind its text."""
    ended = treadle("chat", f"{AGENTS}:adder", "--max-turns", "1", stdin="20 + 3?\n")

    assert ended.out.endswith("[limit]\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing"], "'nothing' names no agent"),
        ([f"{AGENTS}:counter", "--model", "nobody:x"], "names no installed provider"),
    ],
)
def test_what_cannot_begin_is_told_at_once(treadle: Treadle, words: list[str], told: str) -> None:
    """Not at the first question."""
    ended = treadle("chat", *words, stdin="hello\n")

    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
