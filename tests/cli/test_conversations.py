"""`treadle conversations`: list, show, fork and delete what a store has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Treadle
from treadle.cli.keeping import without_password

AGENTS = "tests.cli.agents"
CLERK = f"{AGENTS}:clerk"


def say(treadle: Treadle, url: str, conversation: str, question: str) -> dict[str, Any]:
    """Ask the clerk something in a conversation, and return the result."""
    words = ["--store", url, "--conversation", conversation, "--json"]
    record: dict[str, Any] = json.loads(treadle("run", CLERK, question, *words).out)
    return record


def listed(treadle: Treadle, url: str, *words: str) -> list[dict[str, Any]]:
    """Return what `list --json` has, a dict for each conversation."""
    ended = treadle("conversations", "list", "--store", url, "--json", *words)
    return [json.loads(line) for line in ended.out.splitlines()]


def test_the_list_is_a_table(treadle: Treadle, url: str) -> None:
    """The last changed comes first, each with how it stands."""
    first = say(treadle, url, "ann", "hello")
    second = say(treadle, url, "bob", "refund INV-1")
    ended = treadle("conversations", "list", "--store", url)
    lines = [re.split(r"  +", line) for line in ended.out.splitlines()]

    assert lines[0] == ["ID", "STATUS", "REVISION", "NEWEST RUN", "WAITING", "LAST CHANGE"]
    assert lines[1][:5] == ["bob", "paused", "3", second["run_id"], "0"]
    assert lines[2][:5] == ["ann", "answered", "2", first["run_id"], "0"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", lines[1][5])
    assert (ended.code, ended.err) == (0, "")


def test_the_list_has_pages(treadle: Treadle, url: str) -> None:
    """A full page says how to see the next, which ends the list."""
    for name in ("a", "b", "c"):
        say(treadle, url, name, "hello")
    words = ["conversations", "list", "--store", url, "--limit", "2", "--status", "answered"]
    first = treadle(*words)
    program, *more = first.err.removeprefix("More: ").split()
    second = treadle(*more)

    assert [line.split()[0] for line in first.out.splitlines()] == ["ID", "c", "b"]
    assert program == "treadle"
    assert [line.split()[0] for line in second.out.splitlines()] == ["ID", "a"]
    assert second.err == ""
    assert [each["conversation_id"] for each in listed(treadle, url, "--after", "b")] == ["a"]


def test_the_list_can_be_of_one_status(treadle: Treadle, url: str) -> None:
    """--status leaves the others out; none at all is said."""
    say(treadle, url, "ann", "hello")
    say(treadle, url, "bob", "refund INV-1")
    none = treadle("conversations", "list", "--store", url, "--status", "stopped")

    assert [each["conversation_id"] for each in listed(treadle, url, "--status", "paused")] == [
        "bob"
    ]
    assert none.out == "No conversations.\n"


def test_a_conversation_is_readable(treadle: Treadle, url: str) -> None:
    """Messages stand as a chat shows them, then what waits, then the runs."""
    run_id = say(treadle, url, "ann", "refund\nINV-1")["run_id"]
    out = treadle("conversations", "show", "ann", "--store", url).out

    assert out.startswith("ann: paused, revision 3\nchanged ")
    assert (
        "\n> refund\n. INV-1\nOne moment.\n"
        '-> refund(invoice="INV-1", amount=500)\n   refund waits for a decision\n'
        "\ncalls that wait for a decision\n"
        '  c1  refund(invoice="INV-1", amount=500)\n'
        f"\nruns\n  {run_id}  clerk  paused, 1 turn, "
    ) in out
    assert "    0 tokens in, 0 out, 1 requests, 0 tool calls\n" in out
    assert out.endswith("    Somebody has to decide on refund.\n")


def test_results_and_failures_are_readable(treadle: Treadle, url: str) -> None:
    """A result stands behind its call, an error behind its run."""
    words = ["--store", url, "--conversation"]
    treadle("run", f"{AGENTS}:adder", "20 + 3?", *words, "sum")
    treadle("run", f"{AGENTS}:failing", "hello", *words, "bad")

    added = treadle("conversations", "show", "sum", "--store", url).out
    failed = treadle("conversations", "show", "bad", "--store", url).out

    assert "> 20 + 3?\nLet me see.\n-> add(a=20, b=3)\n<- 23\nIt is 23.\n" in added
    assert "> hello\nWell, \n[cut off]\n" in failed
    assert "failing  failed, " in failed
    assert "    The key was refused. Check it.\n" in failed


def test_a_conversation_as_it_was(treadle: Treadle, url: str) -> None:
    """--revision shows an earlier state, with the runs as they stood then."""
    say(treadle, url, "ann", "one")
    say(treadle, url, "ann", "two")
    was = treadle("conversations", "show", "ann", "--store", url, "--revision", "1").out

    assert was.startswith("ann: running, revision 1 of 4\n")
    assert "> one\n" in was
    assert "two" not in was


def test_a_conversation_as_json(treadle: Treadle, url: str) -> None:
    """One object: how it stands, messages in their lossless form, calls that wait, runs."""
    run_id = say(treadle, url, "ann", "refund INV-1")["run_id"]
    record = json.loads(treadle("conversations", "show", "ann", "--store", url, "--json").out)

    assert (record["conversation_id"], record["status"], record["revision"]) == ("ann", "paused", 3)
    assert [message["role"] for message in record["messages"]] == ["user", "assistant", "tool"]
    assert record["pending"][0]["arguments"] == {"invoice": "INV-1", "amount": 500}
    assert record["runs"][0]["run_id"] == run_id
    assert record["runs"][0]["usage"]["requests"] == 1


def test_the_journal_is_shown(treadle: Treadle, url: str) -> None:
    """--entries shows each entry with its ID, through a revision if one is given."""
    say(treadle, url, "ann", "hello")
    show = ["conversations", "show", "ann", "--store", url, "--entries"]
    plain = treadle(*show, "--revision", "1").out.splitlines()
    records = [json.loads(line) for line in treadle(*show, "--json").out.splitlines()]

    assert len(plain) == 1
    assert plain[0].startswith('1.0  {"type":"run.began",')
    assert [(each["id"], each["type"]) for each in records] == [
        ("1.0", "run.began"),
        ("2.0", "model.replied"),
        ("2.1", "run.ended"),
    ]


def test_forks_go_their_own_way(treadle: Treadle, url: str) -> None:
    """A fork at a run, at a revision and as it is now; only the ID is printed."""
    first = say(treadle, url, "ann", "one")
    say(treadle, url, "ann", "two")
    fork = ["conversations", "fork", "ann", "--store", url]

    assert treadle(*fork, "--run", first["run_id"], "--id", "by-run").out == "by-run\n"
    assert treadle(*fork, "--revision", "2", "--id", "at-2").out == "at-2\n"
    now = treadle(*fork).out.strip()

    assert say(treadle, url, "by-run", "and?")["output"] == "3 heard."
    assert say(treadle, url, "at-2", "and?")["output"] == "3 heard."
    assert say(treadle, url, now, "and?")["output"] == "5 heard."
    assert "a fork of ann at revision 2\n" in (
        treadle("conversations", "show", "at-2", "--store", url).out
    )


def test_a_fork_waits_for_nothing(treadle: Treadle, url: str) -> None:
    """The run that waits belongs to the original; in the copy it is over."""
    say(treadle, url, "ann", "refund INV-1")
    treadle("conversations", "fork", "ann", "--store", url, "--id", "copy")
    record = json.loads(treadle("conversations", "show", "copy", "--store", url, "--json").out)

    assert record["pending"] == []
    assert record["status"] == "stopped"


def test_deleting_forgets(treadle: Treadle, url: str) -> None:
    """With --yes nothing is asked."""
    say(treadle, url, "ann", "one")
    delete = ["conversations", "delete", "ann", "--store", url]
    unsure = treadle(*delete)
    sure = treadle(*delete, "--yes")
    again = treadle(*delete, "--yes")

    assert unsure.code == 2
    assert "say --yes" in unsure.err
    assert (sure.code, sure.out, sure.err) == (0, "", "Deleted ann.\n")
    assert (again.code, again.err) == (
        1,
        "treadle: There is no conversation 'ann' in this store.\n",
    )
    assert listed(treadle, url) == []


@pytest.mark.parametrize(("typed", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_a_terminal_is_asked_before_deleting(
    seated: Treadle, treadle: Treadle, url: str, typed: str, code: int, left: int
) -> None:
    """Only a yes deletes."""
    say(treadle, url, "ann", "one")
    ended = seated("conversations", "delete", "ann", "--store", url, stdin=typed)

    assert ended.code == code
    assert "Delete conversation ann (answered, revision 2) for good? [y/N] " in ended.err
    assert len(listed(treadle, url)) == left


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["show", "bob"], 1, "There is no conversation 'bob' in this store."),
        (["show", "a/b"], 2, "conversation ID 'a/b' contains '/'"),
        (["show", "ann", "--revision", "9"], 2, "has revisions 0 to 2, not 9."),
        (["show", "ann", "--revision", "-1"], 2, "has revisions 0 to 2, not -1."),
        (["list", "--after", "bob"], 1, "There is no conversation 'bob' in this store."),
        (["fork", "bob"], 1, "There is no conversation 'bob' in this store."),
        (["fork", "ann", "--run", "run_1"], 1, "There is no run 'run_1' in this conversation."),
        (["fork", "ann", "--revision", "9"], 2, "has revisions 0 to 2, not 9."),
        (["fork", "ann", "--id", "ann"], 2, "There is a conversation 'ann' already"),
        (["fork", "ann", "--id", "a/b"], 2, "conversation ID 'a/b' contains '/'"),
    ],
)
def test_what_is_not_there_is_told(
    treadle: Treadle, url: str, words: list[str], code: int, told: str
) -> None:
    """One line on stderr, nothing on the other stream."""
    say(treadle, url, "ann", "one")
    ended = treadle("conversations", *words, "--store", url)

    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert told in ended.err


def test_a_run_that_has_not_ended_cannot_be_forked(treadle: Treadle, url: str) -> None:
    """The line says what to do instead."""
    run_id = say(treadle, url, "ann", "refund INV-1")["run_id"]
    ended = treadle("conversations", "fork", "ann", "--store", url, "--run", run_id)

    assert ended.code == 2
    assert "has not ended; fork a revision of it instead" in ended.err


@pytest.mark.parametrize("command", [["list"], ["show", "x"], ["fork", "x"], ["delete", "x"]])
def test_stores_that_cannot_be_used(treadle: Treadle, tmp_path: Path, command: list[str]) -> None:
    """Nothing is made where nothing was; a store in memory would always be empty."""
    words = ["conversations", *command, *(["--yes"] if command[0] == "delete" else [])]
    missing = treadle(*words, "--store", f"sqlite:///{tmp_path}/none.db")
    memory = treadle(*words, "--store", "memory:")
    strange = treadle(*words, "--store", "nothing:x")

    assert (missing.code, memory.code, strange.code) == (1, 2, 2)
    assert missing.err == f"treadle: There is no store at {tmp_path}/none.db; check --store.\n"
    assert "ends with the command" in memory.err
    assert "No store is installed" in strange.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show", "--store", "file:x"],
        ["list", "--store", "file:x", "--limit", "0"],
        ["list", "--store", "file:x", "--status", "happy"],
        ["fork", "a", "--store", "file:x", "--run", "r", "--revision", "1"],
        ["nonsense"],
    ],
)
def test_wrong_usage_is_2(treadle: Treadle, words: list[str]) -> None:
    """What argparse refuses comes with the usage."""
    ended = treadle("conversations", *words)

    assert ended.code == 2
    assert "usage: treadle conversations" in ended.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@host/db", "postgresql://ann:***@host/db"),
        ("redis://:s%40cret@host:6379/0", "redis://:***@host:6379/0"),
        ("sqlite:///chat.db", "sqlite:///chat.db"),
        ("postgresql://[broken/x", "postgresql://[broken/x"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    """A command that is printed may end up in a log."""
    assert without_password(url) == shown
