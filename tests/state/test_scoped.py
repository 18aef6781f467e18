"""One map, seen through scopes; copied in and out; its writes known to the call that made them."""

from __future__ import annotations

import socket
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode, encode

from treadle.errors import ConfigError, NotStorable, UnknownType
from treadle.state import Scope, ScopedState, State
from treadle.values import Plain, register

NAMES = st.text(st.sampled_from("ab:%3A2"), min_size=1, max_size=6)


class Color(Enum):
    RED = 1


@dataclass
class Cart:
    items: list[str]


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


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), ("", ""), (1, ""), (None, ""), (["a"], "")]
)
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


REFUSED: list[tuple[Any, str]] = [
    (SOCKET, "Cannot store agent::billing::conn: a socket.socket has no lossless stored form"),
    ({"a": [SOCKET]}, "Cannot store agent::billing::conn['a'][0]: a socket.socket"),
    (defaultdict(list[int]), "a collections.defaultdict would come back as dict"),
    (print, "a builtin_function_or_method"),
]


@pytest.mark.parametrize(("value", "words"), REFUSED)
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


def test_values_are_not_shown() -> None:
    """State may hold secrets: neither map nor view shows them."""
    state = State({"session::key": "hush"})

    assert repr(state) == "State(1 keys)"
    assert repr(billing(state)) == "ScopedState('agent::billing::')"


def test_types_can_be_declared_with_the_state() -> None:
    """Classes named to the state need no decorator; what cannot be stored is passed over."""

    @dataclass
    class Ticket:
        id: int

    state = State(types=[Ticket, dict[str, Any], object])
    state.set("ticket", [Ticket(1)])

    assert state.get("ticket") == [Ticket(1)]
    assert register(Ticket) is Ticket
