"""`treadle resume`: decisions as options and from a terminal, and runs that pause again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Treadle

AGENTS = "tests.cli.agents"
CLERK = f"{AGENTS}:clerk"
ASKED = "[a]pprove, [e]dit, [d]eny or [l]ater? "


def paused(treadle: Treadle, url: str, question: str = "refund INV-1", agent: str = CLERK) -> str:
    """Leave a paused run in the conversation `ann`, and return its ID."""
    ended = treadle("run", agent, question, "--json", "--store", url, "--conversation", "ann")
    record = json.loads(ended.out)
    assert (ended.code, record["stop_reason"]) == (3, "paused")
    return record["run_id"]


def test_a_paused_run_is_3_and_says_how_to_go_on(treadle: Treadle, url: str) -> None:
    """S10: what waits is told, and the printed command is the one that goes on with it."""
    ended = treadle("run", CLERK, "refund INV-1", "--store", url, "--conversation", "ann")
    lines = ended.err.splitlines()

    assert (ended.code, ended.out) == (3, "One moment.\n")
    assert lines[0] == "treadle: the run is paused. Somebody has to decide on refund."
    assert lines[1] == '  c1  refund(invoice="INV-1", amount=500)'
    program, *words = lines[2].removeprefix("To go on: ").split()
    again = treadle(*words, "--approve-all")
    assert program == "treadle"
    assert (again.code, again.out, again.err) == (0, "Done: 500 for INV-1\n", "")


def test_what_waits_stands_in_the_json(treadle: Treadle, url: str) -> None:
    """A program reads the calls from the object."""
    ended = treadle("run", CLERK, "refund INV-1", "--json", "--store", url)

    assert json.loads(ended.out)["pending"] == [
        {
            "call_id": "c1",
            "name": "refund",
            "arguments": {"invoice": "INV-1", "amount": 500},
            "reason": "",
            "schema": None,
        }
    ]


def test_without_a_store_nothing_goes_on(treadle: Treadle) -> None:
    """The run pauses all the same, and stderr says what to do next time."""
    ended = treadle("run", CLERK, "refund INV-1")
    kept = treadle("run", CLERK, "refund INV-1", "--store", "memory:")

    assert ended.code == kept.code == 3
    assert "begin with --store URL next time." in ended.err
    assert "a store in memory ends with this command." in kept.err


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (["--approve", "c1"], "Done: 500 for INV-1"),
        (["--approve-all"], "Done: 500 for INV-1"),
        (["--edit", 'c1={"amount": 5}'], "Done: 5 for INV-1"),
        (["--deny", "c1"], "Done: Not run: "),
        (["--deny", "c1=a=b, too much"], "a=b, too much"),
    ],
)
def test_options_decide(treadle: Treadle, url: str, decision: list[str], answer: str) -> None:
    """S10: approve, edit and deny, each in another process than the one that asked."""
    run_id = paused(treadle, url)
    ended = treadle("resume", run_id, "--store", url, CLERK, *decision)

    assert ended.code == 0
    assert answer in ended.out


def test_some_can_be_decided_on_first(treadle: Treadle, url: str) -> None:
    """What nobody decides on goes on waiting; what ran does not run again."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    first = treadle("resume", run_id, CLERK, "--store", url, "--approve", "c2", "--stream")
    then = treadle("resume", run_id, CLERK, "--store", url, "--approve-all", "--json")

    assert first.code == 3
    assert '   refund: approved\n-> refund(invoice="INV-2", amount=500)\n<- 500' in first.err
    assert '  c1  refund(invoice="INV-1"' in first.err
    record = json.loads(then.out)
    assert record["output"] == "Done: 500 for INV-1; 500 for INV-2"
    assert record["conversation_id"] == "ann"


def test_an_edit_beats_approving_all(treadle: Treadle, url: str) -> None:
    """`--approve-all` is about the calls that nothing else is said about."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    ended = treadle(
        "resume", run_id, CLERK, "--store", url, "--approve-all", "--edit", 'c1={"amount": 1}'
    )

    assert "1 for INV-1" in ended.out
    assert "500 for INV-2" in ended.out


def test_a_run_that_has_answered_answers_again(treadle: Treadle, url: str) -> None:
    """Nothing runs twice, and stderr says so."""
    run_id = paused(treadle, url)
    treadle("resume", run_id, CLERK, "--store", url, "--approve-all")
    ended = treadle("resume", run_id, CLERK, "--store", url)

    assert (ended.code, ended.out) == (0, "Done: 500 for INV-1\n")
    assert "has answered already" in ended.err


def test_a_run_that_failed_is_tried_again(treadle: Treadle, url: str) -> None:
    """What failed it fails it again here; the error is told as by `run`."""
    agent = f"{AGENTS}:failing"
    failed = json.loads(treadle("run", agent, "hello", "--store", url, "--json").out)
    ended = treadle("resume", failed["run_id"], agent, "--store", url)

    assert (ended.code, ended.err) == (1, "treadle: The key was refused. Check it.\n")


def test_an_interrupt_goes_on(treadle: Treadle, url: str) -> None:
    """A run that waits for nothing but being resumed needs no decision."""
    agent = f"{AGENTS}:interrupter"
    run_id = paused(treadle, url, "wait", agent)
    ended = treadle("resume", run_id, agent, "--store", url)

    assert (ended.code, ended.out, ended.err) == (0, "Seen.\n", "")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--approve", "c9"], 2, "No call 'c9' waits for a decision; waiting: 'c1'."),
        (["--edit", 'c1={"amount": "five"}'], 2, "the call still waits"),
        (["--edit", "c1={"], 2, "--edit 'c1={' cannot be used"),
        (["--edit", "c1"], 2, "Write the call, = and a JSON object"),
        (["--edit", "c1=[1]"], 2, "cannot be used"),
        (["--approve", "c1", "--deny", "c1"], 2, "Call 'c1' is decided on twice"),
        (["extra"], 2, "'extra' is one word too many"),
    ],
)
def test_wrong_decisions_change_nothing(
    treadle: Treadle, url: str, words: list[str], code: int, told: str
) -> None:
    """One line says what is wrong, and the run can still be decided on."""
    run_id = paused(treadle, url)
    ended = treadle("resume", run_id, CLERK, "--store", url, *words)
    again = treadle("resume", run_id, CLERK, "--store", url, "--approve-all")

    assert (ended.code, ended.err.count("\n")) == (code, 1)
    assert told in ended.err
    assert again.out == "Done: 500 for INV-1\n"


def test_runs_that_cannot_go_on(treadle: Treadle, url: str) -> None:
    """No such run, no such store, and one whose conversation has gone on without it."""
    run_id = paused(treadle, url)
    treadle("run", CLERK, "never mind", "--store", url, "--conversation", "ann")

    late = treadle("resume", run_id, CLERK, "--store", url, "--approve-all")
    unknown = treadle("resume", "run_1", CLERK, "--store", url)
    nowhere = treadle("resume", run_id, CLERK, "--store", f"{url}.not")

    assert (late.code, unknown.code, nowhere.code) == (1, 1, 1)
    assert "has begun in its conversation since" in late.err
    assert unknown.err == "treadle: There is no run 'run_1' in this store.\n"
    assert nowhere.err.startswith("treadle: There is no store at ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Say which run to go on with"),
        (["run_1"], "Say which store the run is in"),
        (["a/b", "--store", "file:x"], "run ID 'a/b' contains '/'"),
        ([CLERK, "run_1"], f"The run comes first: treadle resume run_1 {CLERK}"),
        (["run_1", "--store", "memory:"], "A store in memory ends with the command"),
        (["run_1", "--store", "nowhere"], "No store is installed"),
        (["run_1", "--store", "nothing:x"], 'a URL that begins with "nothing:"'),
        (["run_1", f"{AGENTS}:nobody", "--store", "memory:"], "has no 'nobody'"),
    ],
)
def test_wrong_usage_is_told(treadle: Treadle, words: list[str], told: str) -> None:
    """Exit code 2 and one line."""
    ended = treadle("resume", *words)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert told in ended.err


def test_a_changed_agent_is_refused_unless_accepted(treadle: Treadle, url: str) -> None:
    """The line names what has changed and the option that goes on all the same."""
    run_id = paused(treadle, url)
    words = ["resume", run_id, f"{AGENTS}:new_clerk", "--store", url]
    refused = treadle(*words, "--deny", "c1=no")
    gone_on = treadle(*words, "--deny", "c1=no", "--accept-changes")

    assert refused.code == 1
    assert "tool refund has another schema" in refused.err
    assert "--accept-changes" in refused.err
    assert gone_on.code == 0


def test_events_are_streamed(treadle: Treadle, url: str) -> None:
    """--stream --json tells of the decision, too."""
    run_id = paused(treadle, url)
    ended = treadle(
        "resume", run_id, CLERK, "--store", url, "--approve", "c1", "--stream", "--json"
    )
    events: list[dict[str, Any]] = [json.loads(line) for line in ended.out.splitlines()]

    kinds = [event["type"] for event in events]
    assert "approval.decided" in kinds
    assert kinds[-1] == "run.finished"


def test_a_terminal_asks(seated: Treadle, treadle: Treadle, url: str) -> None:
    """S10: each call is shown with its arguments, one after another."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    ended = seated("resume", run_id, CLERK, "--store", url, stdin="a\nd\nnot this one\n")

    assert ended.code == 0
    assert ended.err.startswith(
        "Call c1 waits for a decision (1 of 2). refund:\n  invoice: INV-1\n  amount: 500\n"
    )
    assert "500 for INV-1" in ended.out
    assert "not this one" in ended.out


def test_a_terminal_asks_for_edits(seated: Treadle, treadle: Treadle, url: str) -> None:
    """What cannot be is told at once, and asked again; an empty line is no edit."""
    run_id = paused(treadle, url)
    typed = 'huh\ne\n{"amount": "x"}\ne\n{\ne\n\ne\n{"amount": 7}\n'
    ended = seated("resume", run_id, CLERK, "--store", url, stdin=typed)

    assert "Done: 7 for INV-1" in ended.out
    assert ended.err.count(ASKED) == 5
    assert "Type a, e, d or l" in ended.err
    assert "amount: expected a valid integer" in ended.err


@pytest.mark.parametrize("typed", ["l\nl\n", "later\n", ""])
def test_later_leaves_it(seated: Treadle, treadle: Treadle, url: str, typed: str) -> None:
    """Nobody is asked twice; Ctrl-D is later, too. The run stays as it is."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    ended = seated("resume", run_id, CLERK, "--store", url, stdin=typed)

    assert ended.code == 3
    assert ended.err.count(ASKED) == 2
    assert f"To go on: treadle resume {run_id} {CLERK}" in ended.err


def test_some_now_some_later(seated: Treadle, treadle: Treadle, url: str) -> None:
    """What was decided runs, what was put off waits."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    ended = seated("resume", run_id, CLERK, "--store", url, "--stream", stdin="l\ny\n")

    assert ended.code == 3
    assert "<- 500 for INV-2" in ended.err
    assert ended.err.count(ASKED) == 2


def test_options_come_before_questions(seated: Treadle, treadle: Treadle, url: str) -> None:
    """Only what no option decides is asked about."""
    run_id = paused(treadle, url, "refund INV-1 and INV-2")
    ended = seated("resume", run_id, CLERK, "--store", url, "--deny", "c1=no", stdin="a\n")

    assert ended.code == 0
    assert "Call c2 waits for a decision. refund:" in ended.err
