"""Rules for calls: what they say of a call, and what they do not let through."""

from __future__ import annotations

import enum
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigError
from treadle.tools import Above, Below, Contains, Inside, Matches, Not, OneOf, Rule, Rules
from treadle.tools.conditions import Equals, as_condition

PARAMETERS = {
    "properties": {
        "path": {"type": "string"},
        "force": {"type": "boolean", "default": False},
        "amount": {"type": "number"},
    }
}


class Color(enum.Enum):
    """Colours."""

    RED = "red"


def verdict(rules: Rules, name: str = "write", **values: Any) -> str | None:
    """What the rules say of a call."""
    ruling = rules.judge(name, PARAMETERS, values)
    return None if ruling is None else ruling.verdict


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        (Equals("a"), ["a"], ["A", "", 1, None]),
        (Equals(1), [1, 1.0, Decimal(1)], [True, "1", 2]),
        (Equals(True), [True], [1, "true", False]),
        (Equals("red"), [Color.RED, "red"], ["RED"]),
        (Equals({"a": [1]}), [{"a": [1]}], [{"a": [2]}, {}]),
        (Equals("/x/y"), [Path("/x/y")], [Path("/x")]),
        (OneOf(["a", 2]), ["a", 2], ["b", True]),
        (OneOf(iter(["a", Not(OneOf(["b", "c"]))])), ["a", "x", "x"], ["b", "c"]),
        (Equals(2**70), [2**70], [2**70 + 1, 2**70 - 1]),
        (Equals({"id": 2**64}), [{"id": 2**64}], [{"id": 2**64 + 1}]),
        (Contains("rm"), ["rm -rf", "a\nrm", Path("/rm")], ["RM", ""]),
        (Contains("rm", ignore_case=True), ["RM -rf"], ["mr"]),
        (Contains("x"), [["a", "x"], ("x",)], [["a"], []]),
        (Matches(r"git (log|status)"), ["git log"], ["git log; rm", "git log\n", "sudo git log"]),
        (Matches("a.b"), ["axb", Path("a/b")], ["a\nb"]),
        (Above(100), [100.5, Decimal(101), 10**30], [100, Decimal("-1")]),
        (Below(0), [-1], [0, 0.5]),
        (Not(Above(100)), [100], [101]),
        (Not("a"), ["b"], ["a"]),
    ],
)
def test_conditions(condition: Any, yes: list[Any], no: list[Any]) -> None:
    """What holds and what does not."""
    assert [value for value in yes if not condition.holds(value)] == []
    assert [value for value in no if condition.holds(value)] == []


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        (Above(1), "2"),
        (Above(1), True),
        (Above(1), float("nan")),
        (Below(1), None),
        (Not(Above(1)), "2"),
        (Contains("a"), 5),
        (Matches("a"), 5),
        (Matches("a*"), "a" * 200_000),
        (Inside("/tmp"), 5),  # noqa: S108 no file is made
        (Inside("."), "~/x"),
        (Inside("."), "file:///etc/passwd"),
        (Inside("."), "a\0b"),
        (Equals("a"), object()),
    ],
)
def test_what_cannot_be_judged_asks(condition: Any, value: Any) -> None:
    """When in doubt, ask: also for rules that allow or deny."""
    for said in ("allow", "deny"):
        ruling = Rules(Rule(said, "write", {"path": condition})).judge(  # pyright: ignore[reportArgumentType]
            "write", PARAMETERS, {"path": value}
        )
        assert ruling is not None
        assert ruling.verdict == "ask"
        assert "failed" in ruling.reason


def test_inside_a_folder(tmp_path: Path) -> None:
    """Neither `..` nor a symbolic link nor a name that begins alike leads out of it unseen."""
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (tmp_path / "work-too").mkdir()
    (work / "out").symlink_to(tmp_path)
    (tmp_path / "in").symlink_to(work)
    inside = Inside(str(work), start=str(work))
    assert all(
        inside.holds(path)
        for path in ("deep/new.txt", str(work), work / "x", ".", str(tmp_path / "in" / "x"), ["a"])
    )
    assert not any(
        inside.holds(path)
        for path in ("../work-too/x", "deep/../../x", "out/x", "/etc/passwd", ["a", "/etc"], "..")
    )
    assert Inside(".").holds("x") is True
    assert Inside(".").holds(os.path.dirname(os.getcwd())) is False
    relative = Inside("deep", start=str(work))
    assert relative.holds("deep/a")
    assert not relative.holds("a")


def test_the_first_rule_that_applies_decides() -> None:
    """By the tool's name, and by all of what is said of the arguments."""
    rules = Rules(
        Rule("allow", "read_*"),
        Rule("deny", ("write", "delete"), {"path": Contains("secret"), "force": True}),
        Rule("ask", "write", {"path": "secret"}),
        Rule("allow", "write"),
    )
    assert verdict(rules, "read_file") == "allow"
    assert verdict(rules, "read") is None
    assert verdict(rules, path="secret", force=True) == "deny"
    assert verdict(rules, path="secret") == "ask", "an argument left out stands for its default"
    assert verdict(rules, path="public") == "allow"
    assert verdict(rules, "delete", path="secret", force=False) is None
    assert verdict(Rules()) is None


def test_arguments_that_are_not_there() -> None:
    """One that may be left out does not hold; one that the tool does not have is a slip, asks."""
    optional = Rules(Rule("deny", "write", {"path": Not("x")}))
    assert verdict(optional) is None
    slip = Rules(Rule("deny", "write", {"pth": "secret"}))
    assert verdict(slip, path="secret") == "ask"
    assert verdict(Rules(Rule("deny", "*", {"pth": "secret"})), path="secret") is None
    open_schema: dict[str, Any] = {"properties": {}, "additionalProperties": True}
    assert slip.judge("write", open_schema, {}) is None


def test_rules_that_are_none() -> None:
    """Wrong fields are told when the rule is made."""
    wrong: Any
    for wrong in (
        {"verdict": "maybe"},
        {"verdict": "ask", "tools": 5},
        {"verdict": "ask", "tools": ()},
        {"verdict": "ask", "tools": [""]},
        {"verdict": "ask", "where": ["path"]},
        {"verdict": "ask", "where": {1: 2}},
        {"verdict": "ask", "once": "always"},
        {"verdict": "allow", "once": "tool"},
        {"verdict": "ask", "reason": 5},
    ):
        with pytest.raises(ConfigError, match="Rule"):
            Rule(**wrong)
    with pytest.raises(ConfigError, match="no pattern"):
        Matches("(")
    for none in ("abc", 5):
        with pytest.raises(ConfigError, match="list of values"):
            OneOf(none)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="give a path"):
        Inside(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="Rule objects"):
        Rules("ask")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", [Above, as_condition, object(), {"a": Above(5)}, [[Above(5)]]])
def test_what_no_argument_can_be(wrong: Any) -> None:
    """A condition in the wrong place would never hold, so a rule that denies would deny nothing."""

    def rule(given: Any) -> Rule:
        return Rule("deny", where={"n": given})

    def one_of(given: Any) -> OneOf:
        return OneOf([given])

    for make in (rule, one_of, Not, Contains):
        with pytest.raises(ConfigError, match="A rule has"):
            make(wrong)


def test_rules_keep_what_they_were_made_of() -> None:
    """What the caller does to a dict later changes nothing; labels say what a rule is about."""
    where: dict[str, Any] = {"path": "a"}
    rule = Rule("ask", "write", where)
    where["path"] = "b"
    assert verdict(Rules(rule), path="a") == "ask"
    assert (rule.label, Rule("ask", name="mine").label) == ("ask write by path", "mine")
    assert repr(Rules(rule)) == "Rules(ask write by path)"
    assert as_condition(Above(1)) == Above(1)
