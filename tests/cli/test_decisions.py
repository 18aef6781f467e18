"""Decisions on calls: shown with who or what made them, and asked for with the answer wanted."""

from __future__ import annotations

import json
import re

from tests.cli.conftest import Treadle
from treadle.cli.decisions import MOST_LINES, Decided
from treadle.ids import new_stamp
from treadle.journal import ApprovalDecided
from treadle.ports.clock import SYSTEM_CLOCK

CLERK = "tests.cli.ruled:clerk"


def test_what_was_decided_is_shown(treadle: Treadle, url: str) -> None:
    """Those of rules and those of people, in order, as text and as JSON; none where none was."""
    words = ["--store", url, "--conversation", "ann"]
    run = json.loads(treadle("run", CLERK, "go", *words, "--json").out)
    assert [(call["call_id"], call["reason"]) for call in run["pending"]] == [
        ("c500", ""),
        ("s", "Who signs?"),
    ]
    assert run["pending"][1]["schema"]["required"] == ["name"]
    ended = treadle(
        *("resume", run["run_id"], CLERK, "--store", url, "--approve", "c500"),
        *("--edit", 's={"name":"Ann"}'),
    )
    assert ended.out == (
        "5 refunded; 500 refunded; Not run: a rule does not allow this call. "
        "The reason: Too much.; signed by Ann\n"
    )
    shown = treadle("conversations", "show", "ann", "--store", url).out
    lines = shown.partition("\ndecisions\n")[2].partition("\n\n")[0].splitlines()
    told = [re.sub(r"^  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "", line) for line in lines]
    assert told == [
        "refund (c5): approved by a rule, rule 'small'",
        "refund (c5000): denied by a rule, rule 'most' (Too much.)",
        "refund (c500): approved by somebody, rule 'large'",
        "sign (s): approved with other arguments by somebody",
    ]
    record = json.loads(treadle("conversations", "show", "ann", "--store", url, "--json").out)
    found = [(d["call_id"], d["name"], d["rule"], d["asked"]) for d in record["decisions"]]
    assert found == [
        ("c5", "refund", "small", False),
        ("c5000", "refund", "most", False),
        ("c500", "refund", "large", True),
        ("s", "sign", "", True),
    ]
    treadle("run", "tests.cli.agents:clerk", "hello", "--store", url, "--conversation", "bob")
    assert "decisions" not in treadle("conversations", "show", "bob", "--store", url).out


def test_a_terminal_asks_for_the_answer(seated: Treadle, treadle: Treadle, url: str) -> None:
    """A plain yes is no answer where one is wanted, nor is one of another shape."""
    words = ["--store", url, "--conversation", "ann", "--json"]
    run = json.loads(treadle("run", CLERK, "go", *words).out)
    ended = seated(
        *("resume", run["run_id"], CLERK, "--store", url),
        stdin='a\na\ne\n{"name": 5}\ne\n{"name": "Bob"}\n',
    )
    assert "It wants an answer: name (string, required)" in ended.err
    assert "name: " in ended.err
    assert "signed by Bob" in ended.out


def test_many_decisions() -> None:
    """The newest are shown, and how many came before."""
    made = [
        ApprovalDecided(
            run_id="r",
            at=SYSTEM_CLOCK.now(),
            call_id=f"c{n}",
            digest=new_stamp(),
            verdict="deny",
            by="al\x1b[2Jice",
        )
        for n in range(MOST_LINES + 3)
    ]
    lines = Decided(made).lines()
    assert lines[0] == "  (3 before these; --entries shows all)"
    assert len(lines) == MOST_LINES + 1
    assert "c52): denied by al" in lines[-1]
    assert "\x1b" not in lines[-1]
