"""Stored conversations on a real terminal: being asked, Ctrl-C, and processes that die."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Treadle
from tests.cli.sessions import CTRL_C, CTRL_D, Session, start

pytestmark = pytest.mark.e2e

AGENTS = "tests.cli.agents"
ASKED = "[a]pprove, [e]dit, [d]eny or [l]ater? "


def chat(started: list[Session], url: str, agent: str) -> Session:
    """Chat in the conversation `ann` of a store."""
    words = ["--store", url, "--conversation", "ann"]
    return start(started, "chat", f"{AGENTS}:{agent}", *words)


def test_ctrl_c_at_a_decision_leaves_the_run_paused(started: list[Session], url: str) -> None:
    """S10: the prompt comes back with the command that goes on, and another process decides."""
    session = chat(started, url, "clerk")
    session.until("[a new conversation: ann]\n> ")
    session.type("refund INV-1\n")
    session.until("Call c1 waits for a decision. refund:\n  invoice: INV-1\n  amount: 500\n")
    session.until(ASKED)
    session.type(CTRL_C)
    session.until("[/resume goes on with it; whatever else you ask takes its place]\n[later: ")
    command = session.until("]\n> ").split()
    session.type(CTRL_D)
    assert session.end() == 0

    resumed = start(started, *command[1:])
    resumed.until(ASKED)
    resumed.type(CTRL_C)
    resumed.until(f"the run is as it was.\nTo go on: {' '.join(command)}\n")
    assert resumed.end() == 3

    resumed = start(started, *command[1:])
    resumed.until(ASKED)
    resumed.type("a\n")
    resumed.until("Done: 500 for INV-1\n")
    assert resumed.end() == 0


def test_a_yes_typed_too_early_approves_nothing(started: list[Session], url: str) -> None:
    """Nobody decides on a call that they have not seen."""
    session = chat(started, url, "clerk")
    session.until("> ")
    session.type("refund INV-1\na\n")
    session.until(ASKED)
    session.type("d\n")
    session.until("Why? (the model is told; may be empty) ")
    session.type("too much\n")
    session.until("The reason: too much\n> ")


def test_a_run_at_work_keeps_others_out(started: list[Session], treadle: Treadle, url: str) -> None:
    """Its conversation is not deleted and takes no other run; stopped, it can be resumed."""
    session = chat(started, url, "waiter")
    session.until("> ")
    session.type("wait\n")
    session.until("-> wait()\n")

    deleted = treadle("conversations", "delete", "ann", "--store", url, "--yes")
    words = ["--store", url, "--conversation", "ann"]
    asked = treadle("run", f"{AGENTS}:waiter", "go on", *words)
    assert deleted.code == asked.code == 1
    assert "is owned by run" in deleted.err
    assert "is owned by run" in asked.err

    session.type(CTRL_C)
    session.until("[cancelled: Interrupted.]\n> ")
    session.type("/resume\n")
    session.until("Here.\n> ")


def test_resuming_waits_for_a_run_at_work(
    started: list[Session], treadle: Treadle, url: str
) -> None:
    """It says so, and goes on as soon as the other process lets go."""
    session = chat(started, url, "waiter")
    session.until("> ")
    session.type("wait\n")
    session.until("-> wait()\n")
    listed = treadle("conversations", "list", "--store", url, "--json")
    run_id = json.loads(listed.out)["run_id"]

    resumed = start(started, "resume", run_id, f"{AGENTS}:waiter", "--store", url)
    resumed.until(f"treadle: run {run_id} is at work elsewhere; waiting until it lets go.\n")
    session.type(CTRL_C)
    session.until("[cancelled: Interrupted.]\n> ")
    resumed.until("Here.\n")
    assert resumed.end() == 0


def test_a_run_whose_process_died_is_offered(started: list[Session], url: str) -> None:
    """The next chat shows where things stand, and goes on after a yes."""
    session = chat(started, url, "waiter")
    session.until("> ")
    session.type("wait\n")
    session.until("-> wait()\n")
    session.kill()

    session = chat(started, url, "waiter")
    session.until("[conversation ann goes on after 3 messages]\n> wait\nOne moment.\n-> wait()\n")
    session.until("was left unfinished]\nGo on with it? [Y/n] ")
    session.type("y\n")
    session.until("Here.\n> ")


def test_a_changed_agent_goes_on_after_a_yes(
    started: list[Session], treadle: Treadle, url: str
) -> None:
    """What differs is told first; a no leaves the run as it is."""
    session = chat(started, url, "clerk")
    session.until("> ")
    session.type("refund INV-1\n")
    session.until(ASKED)
    session.type("l\n")
    session.until("[later: ")
    session.type(CTRL_D)
    session.end()

    for answer, shown in (
        ("n\n", 'or with on_change="accept".\n> '),
        ("y\n", "The reason: no\n> "),
    ):
        session = chat(started, url, "new_clerk")
        session.until("Go on with it? [Y/n] ")
        session.type("\n")
        session.until(ASKED)
        session.type("d\n")
        session.until("may be empty) ")
        session.type("no\n")
        session.until("tool refund has another schema\nGo on all the same? [y/N] ")
        session.type(answer)
        session.until(shown)
        session.type(CTRL_D)
        session.end()
