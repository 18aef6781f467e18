"""One map, seen through scopes; copied in and out; its writes known to the call that made them."""

from __future__ import annotations

import socket
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from operator import add
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import decode, encode

from treadle.errors import ConfigError, NotStorable, ToolError, UnknownType
from treadle.state import Scope, ScopedState, State, StateConflict, StateWrite, WriteGuard
from treadle.values import Plain, register

NAMES = st.text(st.sampled_from("ab:%3A2"), min_size=1, max_size=6)


class Color(Enum):
    RED = 1


@dataclass
class Cart:
    items: list[str]


class Journal(Struct):
    """How a journal entry holds the writes of a call."""

    writes: tuple[StateWrite, ...] = ()


def billing(state: State, **options: Any) -> ScopedState:
    return ScopedState(state, Scope.agent("billing"), **options)


def test_keys_carry_their_scope() -> None:
    """B92, B93: one flat map; prefixes make scopes, no prefix is global."""
    state = State({"session::token": "abc", "version": 1})
    state.set(Scope.agent("billing") + "invoice", "INV-1")
    state.set(Scope.node("classify") + "output", None)
    state.set(Scope.GRAPH + "input", "hi")

    assert state.keys() == [
        "session::token",
        "version",
        "agent::billing::invoice",
        "node::classify::output",
        "graph::input",
    ]
    assert state.keys(Scope.SESSION) == ["session::token"]
    assert state.get("session::token") == "abc"
    assert state.get("missing") is None
    assert state.get("missing", 7) == 7
    assert state.get("node::classify::output", 7) is None
    assert "node::classify::output" in state
    assert "missing" not in state
    assert state.snapshot()["agent::billing::invoice"] == "INV-1"
    state.delete("version")
    state.delete("version")
    assert "version" not in state


def test_reads_fall_through_and_writes_stay() -> None:
    """S31: own scope, then session, then global; another agent does not see what is own."""
    state = State({"k": "global", "session::k": "session", "agent::billing::k": "own", "only": 1})
    mine, other = billing(state), ScopedState(state, Scope.agent("refund"))

    assert (mine.get("k"), other.get("k")) == ("own", "session")
    assert mine.get_local("k") == "own"
    assert other.get_local("k") is None
    assert other.get_local("k", "default") == "default"
    assert other.get("only") == 1
    assert ("only" in other, "none" in other) == (True, False)

    mine.set("secret", 1)
    assert other.get("secret") is None
    assert other.get("agent::billing::secret") is None
    assert "agent::billing::secret" not in other
    state.delete("session::k")
    assert other.get("k") == "global"
    mine.delete("k")
    assert mine.get("k") == "global"
    assert state.get("k") == "global"


def test_the_session_and_the_whole_map_are_within_reach() -> None:
    """B96: a view of the session and one of everything, and the own prefix."""
    state = State({"graph::input": "hi"})
    view = billing(state)

    view.session.set("customer", 7)
    view.root.set("node::a::output", "x")

    assert view.get("customer") == 7
    assert view.session.keys() == ["customer"]
    assert view.root.get("graph::input") == "hi"
    assert view.root.keys("node::") == ["node::a::output"]
    assert view.get("graph::input") == "hi"
    assert view.scope == "agent::billing::"
    assert view.root.get("customer") is None


def test_own_keys_are_listed_without_the_prefix() -> None:
    """Keys and snapshot of a view are those of its scope."""
    state = State({"agent::billing::a1": 1, "agent::billing::a2": [2], "session::a3": 3})
    view = billing(state)

    assert view.keys("a") == ["a1", "a2"]
    assert view.snapshot() == {"a1": 1, "a2": [2]}


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ("", ""), (1, ""), (None, ""), (["a"], "")])
def test_get_str(value: object, text: str) -> None:
    """B92, B95: an empty string when the key is missing or holds something else."""
    state = State({"session::k": value})

    assert state.get_str("session::k") == text
    assert billing(state).get_str("k") == text
    assert state.get_str("missing") == billing(state).get_str("missing") == ""


@given(NAMES, NAMES, NAMES, NAMES)
def test_names_with_colons_do_not_collide(one: str, two: str, key: str, other: str) -> None:
    """W46: two agents never share a key, whatever their names and keys are."""
    if (one, key) != (two, other):
        assert Scope.agent(one) + key != Scope.agent(two) + other
    assert Scope.agent(one) + key != Scope.node(one) + key


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 3])
def test_scopes_need_a_name(name: Any) -> None:
    """A scope without a usable name is refused."""
    with pytest.raises(ConfigError, match="names no agent scope"):
        Scope.agent(name)
    with pytest.raises(ConfigError, match="names no node scope"):
        Scope.node(name)


def test_values_are_copied() -> None:
    """W46: changing what went in or came out changes nothing stored."""
    cart: dict[str, Any] = {"items": ["a"]}
    state = State({"session::cart": cart})
    view = billing(state)

    cart["items"].append("b")
    state.get("session::cart")["items"].append("c")
    view.get("cart")["items"].append("d")
    state.snapshot()["session::cart"]["items"].append("e")

    assert state.get("session::cart") == {"items": ["a"]}


def test_types_are_kept_when_saved_and_read_again() -> None:
    """S32, B98, BS-37: values and types are the same after a round through a store."""
    value: dict[str, Any] = {
        "n": 2**63,
        "i": 1,
        "f": 1.0,
        "l": [[1], [2.5, [True]]],
        "d": Decimal("1.10"),
        "t": (1, 2),
        "z": datetime(2026, 1, 2, tzinfo=UTC),
        "b": b"\x00\xff",
        "e": Color.RED,
        "s": {1},
        "u": UUID(int=1),
        "nul": "a\0\ud800",
    }
    state = State(types=[Color, list[Cart]])
    state.set("session::all", value)
    billing(state).set("cart", Cart(["a"]))

    stored: dict[str, Plain] = decode(encode(state.packed()))
    again = State.from_packed(stored)

    assert repr(again.get("session::all")) == repr(value)
    assert again.get("session::all") == value
    assert billing(again).get("cart") == Cart(["a"])


with socket.socket() as SOCKET:
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (SOCKET, "Cannot store agent::billing::conn: a socket.socket has no lossless stored form"),
        ({"a": [SOCKET]}, "Cannot store agent::billing::conn['a'][0]: a socket.socket"),
        (defaultdict(list[int]), "a collections.defaultdict would come back as dict"),
        (print, "a builtin_function_or_method"),
    ],
)
def test_what_cannot_be_stored_is_refused(value: object, words: str) -> None:
    """S32, W2: at the write, with key and type; nothing is written."""
    state = State()
    view = billing(state)

    with pytest.raises(NotStorable) as caught:
        view.set("conn", value)

    assert words in str(caught.value)
    assert state.keys() == []
    assert view.writes == ()


@pytest.mark.parametrize("key", ["", "a\0", "\udfff", 3, None])
def test_keys_are_text(key: Any) -> None:
    """A key that no store takes is refused by the state and by its views."""
    for target in (State(), billing(State())):
        with pytest.raises(NotStorable, match="A state key is a non-empty text"):
            target.set(key, 1)
    with pytest.raises(NotStorable, match="A state key is a non-empty text"):
        billing(State()).delete(key)


def test_a_stored_type_that_is_gone_is_an_error() -> None:
    """BS-37: never a bare dict; the error names the key, and the other keys are readable."""
    state = State.from_packed({"session::cart": {"$": "type", "of": "gone:Cart", "v": {}}, "n": 1})

    with pytest.raises(UnknownType) as caught:
        billing(state).get("cart")

    assert (caught.value.path, caught.value.type_name) == ("cart", "gone:Cart")
    assert state.get("n") == 1


def test_writes_are_known_to_the_view() -> None:
    """What was written through a view and the views had from it, each key once, with its last value."""
    state = State({"agent::billing::old": 1})
    view = billing(state)
    assert view.writes == ()

    view.set("a", 1)
    view.session.set("b", (1,))
    view.root.set("c", 2)
    view.delete("old")
    view.set("a", 3)

    assert view.writes == (
        StateWrite("agent::billing::a", 3),
        StateWrite("session::b", {"$": "tuple", "v": [1]}),
        StateWrite("c", 2),
        StateWrite("agent::billing::old", deleted=True),
    )
    assert billing(state).writes == ()


def test_journaled_writes_make_the_same_state() -> None:
    """A state is what its writes, read back from a journal, make of an empty one."""
    state, again = State(), State()
    for number, name in enumerate(["a", "b", "a"]):
        view = ScopedState(state, Scope.agent(name))
        view.set("n", {number: (number,)})
        view.session.set("last", number)
        view.delete("gone")
        again.apply(decode(encode(Journal(view.writes)), type=Journal).writes)

    assert again.packed() == state.packed()
    assert again.snapshot() == state.snapshot()


def test_parallel_calls_cannot_write_one_key() -> None:
    """The first call of a batch keeps the key; the second gets an error that names both."""
    state, guard = State(), WriteGuard()
    first, second = (billing(state, guard=guard, owner=owner) for owner in ("call_1", "call_2"))

    first.set("total", 1)
    first.set("total", 2)
    second.set("other", 3)
    with pytest.raises(StateConflict) as caught:
        second.set("total", 4)
    with pytest.raises(StateConflict):
        second.delete("total")
    with pytest.raises(StateConflict):
        second.root.set("agent::billing::total", 5)

    error = caught.value
    assert isinstance(error, ToolError)
    assert (error.key, error.first, error.second) == ("agent::billing::total", "call_1", "call_2")
    for word in ("agent::billing::total", "call_1", "call_2", "reducer"):
        assert word in str(error)
    assert state.snapshot() == {"agent::billing::total": 2, "agent::billing::other": 3}
    assert [write.key for write in second.writes] == ["agent::billing::other"]
    billing(state, guard=WriteGuard(), owner="call_3").set("total", 6)
    assert first.get("total") == 6


def test_reducers_merge() -> None:
    """A key with a reducer takes parallel writes; each is merged, copied, and journaled merged."""
    state, guard = State(reducers={"session::items": add}), WriteGuard()
    first, second = (billing(state, guard=guard, owner=owner) for owner in ("c1", "c2"))

    first.session.set("items", ["a"])
    second.session.set("items", ["b"])
    assert state.get("session::items") == ["a", "b"]

    for order in ([first, second], [second, first]):
        again = State(reducers={"session::items": add})
        for view in order:
            again.apply(view.writes)
        assert again.get("session::items") == ["a", "b"]
    again.set("session::items", ["c"])
    assert again.get("session::items") == ["a", "b", "c"]


def test_bad_reducers_are_named() -> None:
    """A reducer that fails, or is none, is an error that names the key."""
    state = State({"n": 1}, reducers={"n": add})

    with pytest.raises(ToolError, match="reducer of state key 'n' cannot merge int and str"):
        state.set("n", "x")
    assert state.get("n") == 1
    unsafe: Any = {"n": 3}
    with pytest.raises(ConfigError, match="The reducer of state key 'n' is not callable: 3"):
        State(reducers=unsafe)


def test_a_reducer_makes_what_can_be_stored() -> None:
    """The merged value is checked like any other."""

    def broken(_old: object, _new: object) -> object:
        return SOCKET

    state = State({"n": 1}, reducers={"n": broken})

    with pytest.raises(NotStorable, match="Cannot store n: a socket.socket"):
        state.set("n", 2)


def test_a_closed_view_refuses_writes() -> None:
    """A thread that outlives its call cannot change the state any more, it can only read."""
    state = State()
    view = billing(state, owner="call_1")
    session = view.session
    view.set("a", 1)
    view.close()

    for write in (view.set, session.set, view.root.set):
        with pytest.raises(ToolError, match="after the call 'call_1' had ended"):
            write("b", 2)
    with pytest.raises(ToolError, match="had ended"):
        view.delete("a")
    assert view.get("a") == 1
    assert [write.key for write in view.writes] == ["agent::billing::a"]


def test_threads_share_one_state() -> None:
    """Sync tools run in threads: no merged write is lost, and listing keys meanwhile works."""
    state = State(reducers={"session::sum": add, "session::all": add})
    start = Barrier(8)

    def work(number: int) -> int:
        view = ScopedState(state, Scope.agent(str(number)), owner=str(number))
        start.wait(5)
        for step in range(200):
            view.session.set("sum", 1)
            view.set(f"k{step}", [number])
            view.keys()
        view.session.set("all", [number])
        return len(view.writes)

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(work, range(8)))

    assert counts == [202] * 8
    assert state.get("session::sum") == 1600
    assert sorted(state.get("session::all")) == list(range(8))
    assert len(state.keys("agent::3::")) == 200


def test_threads_cannot_share_a_guarded_key() -> None:
    """However calls race, exactly one of them gets a key."""
    state, guard = State(), WriteGuard()
    start = Barrier(8)

    def work(number: int) -> bool:
        view = ScopedState(state, Scope.SESSION, guard=guard, owner=f"call_{number}")
        start.wait(5)
        try:
            view.set("k", number)
        except StateConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 1


def test_values_are_not_shown() -> None:
    """State may hold secrets: neither map nor view shows them."""
    state = State({"session::key": "hush"})

    assert repr(state) == "State(1 keys)"
    assert repr(billing(state)) == "ScopedState('agent::billing::')"


def test_types_can_be_declared_with_the_state() -> None:
    """Classes named to the state need no decorator, and one that cannot be stored is passed over."""

    @dataclass
    class Ticket:
        id: int

    state = State(types=[Ticket, dict[str, Any], object])
    state.set("ticket", [Ticket(1)])

    assert state.get("ticket") == [Ticket(1)]
    assert register(Ticket) is Ticket
