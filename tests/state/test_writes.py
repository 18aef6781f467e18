"""What calls write: known to their views, guarded between parallel calls, merged by reducers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from operator import add
from threading import Barrier
from typing import Any

import pytest
from msgspec import Struct
from msgspec.json import decode, encode

from treadle.errors import ConfigError, NotStorable, ToolError
from treadle.state import Scope, ScopedState, State, StateConflict, StateWrite, WriteGuard

with socket.socket() as SOCKET:
    pass


class Journal(Struct):
    """How a journal entry holds the writes of a call."""

    writes: tuple[StateWrite, ...] = ()


def billing(state: State, **options: Any) -> ScopedState:
    return ScopedState(state, Scope.agent("billing"), **options)


def test_writes_are_known_to_the_view() -> None:
    """What was written through a view and those had from it: each key once, its last value."""
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
    with pytest.raises(ConfigError, match=r"The reducer of state key 'n' is not callable: 3"):
        State(reducers=unsafe)


def test_a_reducer_makes_what_can_be_stored() -> None:
    """The merged value is checked like any other."""

    def broken(_old: object, _new: object) -> object:
        return SOCKET

    state = State({"n": 1}, reducers={"n": broken})

    with pytest.raises(NotStorable, match=r"Cannot store n: a socket\.socket"):
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
