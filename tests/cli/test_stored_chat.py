"""`treadle chat` and `treadle run` in conversations of a store."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Ended, Treadle

AGENTS = "tests.cli.agents"
CLERK = f"{AGENTS}:clerk"


def talk(treadle: Treadle, url: str, stdin: str, agent: str = CLERK) -> Ended:
    """Chat in the conversation `ann` of a store."""
    return treadle("chat", agent, "--store", url, "--conversation", "ann", stdin=stdin)


def test_runs_go_on_in_a_conversation(treadle: Treadle, url: str) -> None:
    """What was said in one process is history in the next."""
    words = ["--store", url, "--conversation", "ann"]
    first = treadle("run", f"{AGENTS}:counter", "one", *words)
    second = treadle("run", f"{AGENTS}:counter", "two", *words)

    assert (first.out, second.out) == ("1: one\n", "3: two\n")


@pytest.mark.parametrize("command", [["run", CLERK, "hello"], ["chat", CLERK]])
def test_a_conversation_needs_a_store(treadle: Treadle, command: list[str]) -> None:
    """An ID alone names nothing."""
    ended = treadle(*command, "--conversation", "ann")
    strange = treadle(*command, "--conversation", "a/b", "--store", "memory:")

    assert (ended.code, ended.out, strange.code) == (2, "", 2)
    assert "--store sqlite:///chat.db" in ended.err
    assert "conversation ID 'a/b' contains '/'" in strange.err


def test_a_chat_goes_on(treadle: Treadle, url: str) -> None:
    """The end of what was said is shown, and the agent hears all of it."""
    talk(treadle, url, "one\ntwo\n")
    ended = talk(treadle, url, "three\n/usage\n")

    assert ended.code == 0
    assert ended.out == (
        "[conversation ann goes on after 4 messages]\n"
        "> one\n1 heard.\n> two\n3 heard.\n5 heard.\n"
        "0 tokens in, 0 out, 3 requests, 0 tool calls\n"
    )


def test_only_the_last_messages_are_shown(treadle: Treadle, url: str) -> None:
    """A long conversation shows its end, from something that was said on."""
    talk(treadle, url, "a\nb\nc\nd\n")
    ended = talk(treadle, url, "")

    assert ended.out == (
        "[conversation ann goes on after 8 messages, the last of them:]\n"
        "> b\n3 heard.\n> c\n5 heard.\n> d\n7 heard.\n"
    )


def test_commands_of_a_stored_chat(treadle: Treadle, url: str) -> None:
    """/conversation, /fork and /new say where one is."""
    ended = talk(treadle, url, "/conversation\n/fork\none\n/fork\n/conversation\n/new\ntwo\n")
    lines = ended.out.splitlines()
    original = talk(treadle, url, "/conversation\n").out.splitlines()[-1]

    assert lines[0] == f"[ann (not begun) in {url}]"
    assert "There is nothing to fork yet" in ended.err
    assert lines[1] == "1 heard."
    fork = lines[2].removeprefix("[now in ").removesuffix(", a fork of ann]")
    assert lines[3] == f"[{fork} in {url}, revision 3]"
    assert lines[4:] == ["[a new conversation]", "1 heard."]
    assert original == f"[ann in {url}, revision 2]"


def test_commands_of_a_chat_without_a_store(treadle: Treadle) -> None:
    """They say what is missing; nothing else is different."""
    ended = treadle("chat", CLERK, stdin="/conversation\n/fork\n/resume\n/usage\nrefund INV-1\nx\n")

    assert ended.code == 0
    assert ended.out.count("[nothing is stored; begin with --store sqlite:///chat.db]\n") == 2
    assert "[there is nothing to resume]\n" in ended.out
    assert "[paused: Somebody has to decide on refund." in ended.out
    assert ended.out.endswith("4 heard.\n")


def test_a_pipe_stops_where_somebody_has_to_decide(treadle: Treadle, url: str) -> None:
    """The next line would take the place of what waits, so it is not asked."""
    ended = talk(treadle, url, "refund INV-1\nnever asked\n")
    again = talk(treadle, url, "never asked\n")

    assert ended.code == again.code == 3
    assert "never asked" not in ended.out + again.out
    assert ended.err.startswith('  c1  refund(invoice="INV-1", amount=500)\nTo go on: treadle ')
    assert "was left paused: Somebody has to decide on refund.]\n" in again.out
    assert "To go on: treadle resume " in again.err


def test_a_terminal_decides_in_the_chat(seated: Treadle, url: str) -> None:
    """S10: the run pauses, its calls are asked about, and it goes on with the answers."""
    typed = 'refund INV-1 and INV-2\ne\n{"amount": 5}\na\nthanks\n'
    ended = talk(seated, url, typed)

    assert ended.code == 0
    assert "Call c1 waits for a decision (1 of 2). refund:\n  invoice: INV-1\n" in ended.err
    assert "One moment.\n   refund waits for a decision\n" in ended.out
    assert "   refund: approved with other arguments\n" in ended.out
    assert "Done: 5 for INV-1" in ended.out
    assert "5 heard.\n" in ended.out  # with two messages of the first run's and its answer
    assert ended.out.count("One moment.") == 1
    assert f"[go on later: treadle chat {CLERK} --store {url} --conversation ann]" in ended.out


def test_what_was_put_off_can_be_decided_later(seated: Treadle, url: str) -> None:
    """/resume asks again; the next chat offers it."""
    first = talk(seated, url, "refund INV-1\nl\n/resume\nl\n")
    then = talk(seated, url, "\na\n/resume\n")

    assert "[/resume goes on with it; whatever else you ask takes its place]" in first.out
    assert "[later: treadle resume run_" in first.out
    assert first.err.count("[a]pprove") == 2
    assert "was left paused: Somebody has to decide on refund.]\n" in then.out
    assert "Go on with it? [Y/n] " in then.err
    assert "Done: 500 for INV-1\n" in then.out
    assert "[there is nothing to resume]\n" in then.out


def test_what_was_left_can_be_passed_over(seated: Treadle, url: str) -> None:
    """Whoever says no asks something else, which takes its place."""
    talk(seated, url, "refund INV-1\nl\n")
    ended = talk(seated, url, "n\nnever mind\n")

    assert "[later: treadle resume run_" in ended.out
    assert "4 heard.\n" in ended.out


def test_an_interrupted_run_is_resumed_by_command(seated: Treadle, url: str) -> None:
    """A pause that waits for no decision is told, and /resume goes on."""
    ended = talk(seated, url, "wait\n/resume\n", agent=f"{AGENTS}:interrupter")

    assert "[paused: a human has to look]\n" in ended.out
    assert "Seen.\n" in ended.out


def test_a_chat_in_memory(seated: Treadle) -> None:
    """Decisions need a store; one in memory will do while the chat lasts."""
    ended = seated("chat", CLERK, "--store", "memory:", stdin="refund INV-1\na\nrefund INV-2\nl\n")

    assert "Done: 500 for INV-1\n" in ended.out
    assert "[/resume goes on" in ended.out
    assert "later:" not in ended.out


def test_a_new_conversation_is_told(seated: Treadle, url: str) -> None:
    """An ID that is not there begins one."""
    assert "[a new conversation: ann]\n" in talk(seated, url, "").out


def test_a_chat_without_an_id_begins_a_conversation(treadle: Treadle, url: str) -> None:
    """Every chat its own; a command that fails is a line on stderr."""
    ended = treadle("chat", CLERK, "--store", url, stdin="one\n/model nobody:x\ntwo\n")
    again = treadle("chat", CLERK, "--store", url, stdin="one\n")

    assert (ended.code, ended.out, again.out) == (0, "1 heard.\n3 heard.\n", "1 heard.\n")
    assert "names no installed provider" in ended.err
