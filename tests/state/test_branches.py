"""Parallel branches: each sees its own writes, and they merge by order, never by time."""

from __future__ import annotations

from operator import add
from typing import Any, NamedTuple

import pytest
from msgspec.json import encode

from treadle.errors import BranchConflict, RunError, ToolError
from treadle.state import Branch, Scope, ScopedState, State, StateWrite, merge
from treadle.state.compare import same
from treadle.state.reducers import last_wins, union
from treadle.values import Plain, pack


def branches(base: State, **written: dict[str, Any]) -> list[tuple[str, Branch]]:
    """Return branches of these names that have written these values."""
    made: list[tuple[str, Branch]] = []
    for name, values in written.items():
        branch = base.branch()
        for key, value in values.items():
            branch.set(key, value)
        made.append((name, branch))
    return made


def merged(base: State, made: list[tuple[str, Branch]]) -> dict[str, Any]:
    base.apply(merge(base, made))
    return base.snapshot()


def test_a_branch_keeps_its_writes_to_itself() -> None:
    """It sees what was there when it began; neither the base nor a sibling sees its writes."""
    base = State({"topic": "x", "old": 1})
    one, other = base.branch(), base.branch()
    ScopedState(one, Scope.SESSION).set("token", "t")
    one.set("topic", "y")
    one.delete("old")
    one.delete("never")
    base.set("late", 1)

    assert one.snapshot() == {"topic": "y", "session::token": "t"}
    assert other.snapshot() == {"topic": "x", "old": 1}
    assert base.snapshot() == {"topic": "x", "old": 1, "late": 1}
    assert one.written == ["session::token", "topic", "old"]
    assert (other.written, other.writes) == ([], ())


def test_disjoint_files_and_an_echoed_topic_merge() -> None:
    """BS-33: both branches return the full state, each with a file of its own."""
    base = State({"topic": "x", "files": {}})
    made = branches(
        base,
        one={"topic": "x", "files": {"a": "A"}},
        two={"topic": "x", "files": {"b": "B"}},
    )

    assert [write.key for write in merge(base, made)] == ["files"]
    assert merged(base, made) == {"topic": "x", "files": {"a": "A", "b": "B"}}


def test_two_topics_are_a_conflict() -> None:
    """BS-33: the error names key, branches and both values; nothing at all was written."""
    base = State({"topic": "x", "files": {}})
    made = branches(
        base, one={"files": {"a": 1}, "topic": "rain"}, two={"topic": "snow", "files": {"b": 2}}
    )

    with pytest.raises(BranchConflict) as caught:
        merge(base, made)

    error = caught.value
    assert isinstance(error, RunError)
    assert (error.key, error.branches, error.values) == ("topic", ("one", "two"), ("rain", "snow"))
    assert str(error) == (
        "The parallel branches 'one' and 'two' left different values in state key 'topic': 'rain' "
        "and 'snow'. Write it in one of them only, or give the key a reducer, such as "
        "State(reducers={'topic': last_wins})."
    )
    assert base.snapshot() == {"topic": "x", "files": {}}


def test_last_wins_goes_by_order() -> None:
    """BS-33: the last in order wins, whichever wrote first; an echo of the old value never does."""
    base = State({"topic": "x"}, reducers={"topic": last_wins})
    a, b, c = base.branch(), base.branch(), base.branch()
    c.set("topic", "x")
    b.set("topic", "of b")
    a.set("topic", "of a")

    assert merged(base, [("a", a), ("b", b), ("c", c)]) == {"topic": "of b"}


class Case(NamedTuple):
    before: Any
    one: Any
    other: Any
    after: Any


GONE = object()

MERGES = {
    "one only": Case(1, 2, 1, 2),
    "equal": Case(1, 2, 2, 2),
    "new and equal": Case(GONE, {1}, {1}, {1}),
    "both deleted": Case(1, GONE, GONE, GONE),
    "one deleted": Case(1, GONE, 1, GONE),
    "there and back": Case(1, 1, 5, 5),
    "new dicts": Case(GONE, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "a dict where none was": Case(None, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "deep": Case(
        {"f": {"a": {"x": 1}}, "n": 1},
        {"f": {"a": {"x": 1, "y": 2}}, "n": 1},
        {"f": {"a": {"x": 3}, "b": {}}, "n": 1},
        {"f": {"a": {"x": 3, "y": 2}, "b": {}}, "n": 1},
    ),
    "a deleted entry": Case({"a": 1, "b": 2}, {"b": 2}, {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 3}),
    "the same entry deleted": Case({"a": 1}, {}, {"b": 1}, {"b": 1}),
    "keys of other types": Case(
        {1: "a", (2,): "b"}, {1: "A", (2,): "b"}, {1: "a", "$": 0}, {1: "A", "$": 0}
    ),
    "keys that are marks": Case({}, {"$": 1}, {"v": 2}, {"$": 1, "v": 2}),
    "sets in another order": Case(({0, 8},), ({8, 0},), ({1},), ({1},)),
    "dicts in another order": Case({1: {2: 0, 3: 0}}, {1: {3: 0, 2: 0}}, {1: 4}, {1: 4}),
}


@pytest.mark.parametrize("case", MERGES.values(), ids=MERGES)
def test_merging(case: Case) -> None:
    """What two branches come to, in either order."""
    for turned in (False, True):
        base = State() if case.before is GONE else State({"k": case.before})
        made = [(name, base.branch()) for name in ("one", "other")]
        for (_, branch), value in zip(made, (case.one, case.other), strict=True):
            branch.delete("k") if value is GONE else branch.set("k", value)
        if turned:
            made.reverse()

        after = merged(base, made)

        assert after == ({} if case.after is GONE else {"k": case.after})
        assert same(pack(after.get("k")), pack(None if case.after is GONE else case.after))


CONFLICTS = {
    "types": (Case(0, 1, True, None), "'k': 1 and True"),
    "numbers": (Case(0, 1, 1.0, None), "'k': 1 and 1.0"),
    "deleted": (Case(1, GONE, 2, None), "'k': nothing (deleted) and 2"),
    "entry": (Case({"f": {}}, {"f": {"x": 1}}, {"f": {"x": 2}}, None), "k['f']['x']: 1 and 2"),
    "entry gone": (Case({"a": 1}, {}, {"a": 2}, None), "k['a']: nothing (deleted) and 2"),
    "dict and list": (Case({}, {"a": 1}, [1], None), "'k': {'a': 1} and [1]"),
    "tuples": (Case((), (1,), (2,), None), "'k': (1,) and (2,)"),
    "types inside": (Case((), ([1],), ([True],), None), "'k': ([1],) and ([True],)"),
    "secret inside": (
        Case(0, [{"password": "ab", "n": 1}], 2, None),
        "'k': [{'n': 1, 'password': '***'}] and 2",
    ),
    "secret": (Case({}, {"api_key": "ab"}, {"api_key": "cd"}, None), "['api_key']: *** and ***"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflicts(name: str) -> None:
    """What differs is named to the entry; what a name calls a secret is not shown."""
    case, words = CONFLICTS[name]
    base = State({"k": case.before})
    made = [("one", base.branch()), ("other", base.branch())]
    for (_, branch), value in zip(made, (case.one, case.other), strict=True):
        branch.delete("k") if value is GONE else branch.set("k", value)

    with pytest.raises(BranchConflict) as caught:
        merge(base, made)

    assert words in str(caught.value)
    assert caught.value.key == "k"
    assert base.snapshot() == {"k": case.before}


def test_values_in_a_conflict_are_short_and_hold_no_secrets() -> None:
    """Long values are cut; what looks like a key is hidden, under whatever name it stands."""
    base = State()
    made = branches(base, one={"k": "a" * 10_000}, two={"k": "sk-abcdefghijklmnop1234"})

    with pytest.raises(BranchConflict) as caught:
        merge(base, made)

    assert len(str(caught.value)) < 400
    assert "sk-abc" not in str(caught.value)
    assert caught.value.values == ("a" * 10_000, "sk-abcdefghijklmnop1234")


def test_the_odd_one_out_is_named() -> None:
    """Where dicts would merge and something else stands between them, that is what is named."""
    base = State()
    made = branches(base, one={"k": {"a": 1}}, two={"k": {"b": 2}}, three={"k": [1]})

    with pytest.raises(BranchConflict) as caught:
        merge(base, made)
    assert caught.value.branches == ("one", "three")


def test_a_type_that_is_gone_does_not_hide_a_conflict() -> None:
    """A value whose class is not known here is shown, and kept, as it is stored."""
    gone: Plain = {"$": "type", "of": "gone:Cart", "v": {}}
    base = State()
    made = branches(base, one={}, two={"k": 2})
    made[0][1].apply([StateWrite("k", gone)])

    with pytest.raises(BranchConflict, match=r"gone:Cart.* and 2") as caught:
        merge(base, made)
    assert caught.value.values == (gone, 2)


def test_scopes_follow_the_same_rules() -> None:
    """Keys of agents and nodes merge, and conflict, like all others."""
    base = State()
    made = branches(base, one={Scope.node("a") + "output": 1}, two={Scope.node("b") + "output": 2})
    assert merged(base, made) == {"node::a::output": 1, "node::b::output": 2}

    with pytest.raises(BranchConflict, match="agent::clerk::n"):
        merge(base, branches(base, one={"agent::clerk::n": 1}, two={"agent::clerk::n": 2}))


def test_what_changed_outside_is_not_lost() -> None:
    """The base itself may be written while branches run: that counts like one more branch."""
    base = State({"files": {"old": 0}, "n": 1, "log": []}, reducers={"log": add})
    made = branches(base, one={"files": {"old": 0, "a": 1}, "log": ["a"]}, two={"n": 2})
    base.set("files", {"old": 0, "b": 2})
    base.set("log", ["outside"])

    assert merged(base, made) == {
        "files": {"old": 0, "a": 1, "b": 2},
        "n": 2,
        "log": ["outside", "a"],
    }
    base.set("n", 3)
    with pytest.raises(BranchConflict, match=r"branches '\(outside\)' and 'two'.*'n': 3 and 2"):
        merge(base, made)


def test_reducers_take_what_was_written() -> None:
    """Every value that was written is counted once, also one that equals the stored one."""
    base = State({"n": 1, "tags": {"a"}}, reducers={"n": add, "tags": union, "log": add})
    made = branches(
        base, one={"n": 1, "tags": {"b"}, "log": ["1"]}, two={"n": 1, "tags": {"a"}, "log": ["2"]}
    )
    made[0][1].set("log", ["3"])

    assert made[0][1].get("log") == ["1", "3"]
    assert merged(base, made) == {"n": 3, "tags": {"a", "b"}, "log": ["1", "3", "2"]}


def test_a_reducer_does_not_undo_a_deletion() -> None:
    """A reduced key that one branch deleted, or wrote anew, is a conflict with other writes."""
    base = State({"log": ["old"]}, reducers={"log": add})
    anew = base.branch()
    anew.delete("log")
    anew.set("log", ["new"])

    assert base.branch().raw("log") == ()
    assert anew.raw("log") is None
    with pytest.raises(BranchConflict, match=r"'log': \['new'\] and \['old', 'more'\]"):
        merge(base, [("anew", anew), *branches(base, other={"log": ["more"]})])
    assert merged(base, [("anew", anew)]) == {"log": ["new"]}


def test_a_reducer_that_fails_is_an_error_before_anything_is_written() -> None:
    """It names the key and the types."""
    base = State(reducers={"n": add})
    made = branches(base, one={"a": 1, "n": 1}, two={"n": "x"})

    with pytest.raises(ToolError, match="reducer of state key 'n' cannot merge int and str"):
        merge(base, made)
    assert base.snapshot() == {}


def test_branches_within_branches() -> None:
    """What inner branches wrote to a reduced key is what their outer branch wrote, in order."""
    base = State({"log": ["0"]}, reducers={"log": add})
    outer, other = base.branch(), base.branch()
    outer.set("log", ["1"])
    outer.apply(merge(outer, branches(outer, a={"log": ["2"]}, b={"log": ["3"], "b": 1})))
    other.set("log", ["4"])

    assert outer.get("log") == ["0", "1", "2", "3"]
    again = base.branch()
    again.apply(outer.writes)
    for left in (outer, again):
        fresh = State.from_packed(base.packed(), reducers={"log": add})
        assert merged(fresh, [("outer", left), ("other", other)]) == {
            "log": ["0", "1", "2", "3", "4"],
            "b": 1,
        }


def test_ordinary_journals_hold_nothing_more() -> None:
    """Only a branch journals what was written to a reduced key."""
    base = State(reducers={"log": add})
    base.set("log", ["a"])
    branch = base.branch()
    branch.set("log", ["b"])
    branch.set("plain", 1)

    assert encode(base.write_of("log")) == b'{"key":"log","value":["a"]}'
    assert encode(branch.write_of("plain")) == b'{"key":"plain","value":1}'
    assert encode(branch.write_of("log")) == b'{"key":"log","value":["a","b"],"raw":[["b"]]}'
    assert base.branch().write_of("log") == StateWrite("log", ["a"])
