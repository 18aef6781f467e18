"""What is stored comes back equal and of the same type; what cannot is refused at the write."""

from __future__ import annotations

import inspect
import socket
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.json import decode, encode

from tests.values.kinds import (
    Access,
    Color,
    Frozen,
    Item,
    Level,
    Mood,
    Order,
    Point,
    Row,
    Tags,
    same,
)
from treadle.errors import NotStorable
from treadle.values import clean, pack, unpack

BERLIN = ZoneInfo("Europe/Berlin")
TEXT = st.text(st.characters(codec=None) | st.sampled_from("\0$\ud800\udfff\U0001f600"))
ZONES = st.sampled_from(
    [
        None,
        UTC,
        BERLIN,
        timezone(timedelta(hours=-3, minutes=7)),
        timezone(timedelta(hours=1), "CET"),
    ]
)
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)  # a set would not find its nan again
    | TEXT
    | st.binary()
    | st.dates()
    | st.times()
    | st.datetimes(timezones=ZONES)
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from([*Color, *Level, *Mood, Access.READ | Access.WRITE, UNSET, Access(0)])
    | TEXT.map(lambda text: PurePosixPath(text.replace("\0", ""))),
    lambda inner: (
        st.tuples(inner, inner) | st.builds(Point, st.integers(), inner) | st.frozensets(inner)
    ),
    max_leaves=5,
)
ITEMS = st.builds(Item, TEXT, st.decimals(0, 10**6, places=2))
VALUES = st.recursive(
    HASHABLE | st.floats(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(TEXT, inner)
        | st.dictionaries(HASHABLE, inner)
        | st.sets(HASHABLE)
        | st.builds(Order, id=st.integers(), items=st.lists(ITEMS, max_size=2), note=inner)
        | st.builds(Row, row_id=st.integers(), cells=st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=12,
)


def through_json(value: object) -> Any:
    """Store a value as a store does, and read it back."""
    return unpack(decode(encode(pack(value))))


@given(VALUES)
def test_every_value_comes_back(value: object) -> None:
    """Pack, JSON, unpack is the identity, types included."""
    assert same(through_json(value), value)


@given(VALUES)
def test_the_plain_form_is_clean(value: object) -> None:
    """BS-38: neither NUL nor lone surrogates reach a store, yet text comes back as it was."""
    text = encode(pack(value)).decode()

    assert "\\u0000" not in text.replace("\\\\", "")
    assert clean(text) is text


LISTED: list[Any] = [
    {"n": 2**63, "d": Decimal("1.10"), "t": (1, 2), "z": datetime(2026, 1, 2, tzinfo=BERLIN)},
    {"b": b"\x00\xff", "e": Color.RED, "s": {1, 2}, "u": UUID(int=7), "f": frozenset({"a"})},
    [2**53 + 1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**5000, -0.0, 1.0, True, 1],
    [float("nan"), float("inf"), float("-inf"), 5e-324, sys.float_info.max],
    [Decimal(text) for text in ("-0", "NaN", "sNaN", "-Infinity", "1E+500", "0E-19", "NaN123")],
    [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)],
    [
        datetime.fromisoformat("0001-01-01"),
        datetime.fromisoformat("9999-12-31T23:59:59.999999"),
        date.min,
        time(1, 2, 3, 4, fold=1),
        time(1, tzinfo=UTC),
    ],
    [timedelta.min, timedelta.max, timedelta(days=-1, microseconds=1)],
    [Path("a/b"), PurePath("a"), PureWindowsPath("C:\\x"), PurePosixPath("/etc/\udcff")],
    {"$": "decimal", "v": "1"},
    {"a": {"$": 1}, "\0": "\0", "\\u0000": "\\u0000"},
    {1: "int", "1": "str", None: 0, (1, 2): {}, Color.RED: [], 1.5: ()},
    [Color.MIXED, Level.HIGH, Mood.FINE, Access.READ | Access.WRITE, Access(0)],
    [Point(1), Point(1, {2}), Frozen(None, (Color.RED,)), Row(row_id=1, extra="x")],
    [[], (), {}, set(), frozenset(), "", b"", Row(row_id=1)],
]


@pytest.mark.parametrize("value", LISTED)
def test_listed_values_come_back(value: object) -> None:
    """BS-37, S32: the types that JSON loses are kept."""
    assert same(through_json(value), value)


def test_zones_are_kept() -> None:
    """A time zone comes back as the same zone, not only as the same moment."""
    moment = datetime(2026, 7, 1, 12, tzinfo=BERLIN)
    named = datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=2), "CEST"))

    assert through_json(moment).tzinfo is BERLIN
    assert through_json(moment.astimezone(UTC)).tzinfo is UTC
    assert through_json(named).tzname() == "CEST"
    assert through_json(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)).fold == 1


def test_a_dataclass_comes_back_as_it_was() -> None:
    """Nothing runs again: fields without init are kept, `__post_init__` does not add twice."""
    order = Order(id=1, items=[Item("pen", Decimal("1.10"))], note={"frozen": Frozen(None)})
    assert order.names == ["pen", "shipping"]  # a cached property is no obstacle

    again = through_json(order)

    assert same(again, order)
    assert again.total == Decimal("1.10")
    assert len(again.items) == 2


def test_a_pydantic_model_comes_back_as_it_was() -> None:
    """Set fields, extra and private attributes are kept, and validators do not run again."""
    tags = Tags.model_validate({"tags": "a,b", "page": "https://x.org/", "more": (1, 2)})
    tags.seen.add(3)

    again = through_json(tags)

    assert again == tags
    assert type(again) is Tags
    assert again.model_fields_set == tags.model_fields_set
    assert same(again.model_extra, {"more": (1, 2)})
    assert again.seen == {3}
    assert type(again.page) is type(tags.page)


def test_what_comes_back_is_new() -> None:
    """Neither the value nor its plain form shares containers with what comes back."""
    value = {"a": [1, [2]]}
    plain = pack(value)
    value["a"].append(3)
    unpack(plain)["a"].append(4)

    assert unpack(plain) == {"a": [1, [2]]}


class Text(str):
    __slots__ = ()


@dataclass
class Undeclared:
    x: int = 1


class Zone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(0)


with socket.socket() as SOCKET:
    pass


LOST: list[tuple[Any, str]] = [
    (SOCKET, "a socket.socket has no lossless stored form"),
    (len, "a builtin_function_or_method"),
    (lambda: 1, "a function"),
    (int, "a type"),
    (object(), "an object has"),
    (iter([]), "a list_iterator"),
    (range(3), "a range"),
    (1j, "a complex"),
    (ValueError("x"), "a ValueError"),
    (deque([1]), "a collections.deque"),
    (defaultdict(list), "a collections.defaultdict would come back as dict; store dict(...)"),
    (OrderedDict(a=1), "a collections.OrderedDict would come back as dict"),
    (Text("x"), "Text would come back as str"),
    (Undeclared(), "Undeclared is not declared here; put @treadle.register on the class"),
    (datetime(2026, 1, 1, tzinfo=Zone()), "its time zone is a tests.values.test_packing.Zone"),
]


@pytest.mark.parametrize(("value", "words"), LOST)
def test_what_would_be_lost_is_refused(value: object, words: str) -> None:
    """S32, BS-37: the message names the place, the type and the way out, and no address."""
    with pytest.raises(NotStorable) as caught:
        pack({"cart": [1, (value,)]}, "session::box")

    message = str(caught.value)
    assert message.startswith("Cannot store session::box['cart'][1][0]: ")
    assert words in message
    assert "0x" not in message


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"k" * 100: object()}, f"value['{'k' * 56}...]"),
        ({(1, SOCKET): 1}, "value (a key)[1]"),
        ({1: SOCKET}, "value[1]"),
        ({SOCKET}, "value[0]"),
        (Point(1, SOCKET), "value.y"),
        (Order(id=1, note=[SOCKET]), "value.note[0]"),
        (Row(row_id=1, cells=(SOCKET,)), "value.cells[0]"),
        (Tags.model_validate({"tags": "", "x": SOCKET}), "value.__pydantic_extra__['x']"),
    ],
)
def test_the_message_names_the_place(value: object, place: str) -> None:
    """A path leads to what cannot be stored, through keys, fields and elements."""
    with pytest.raises(NotStorable) as caught:
        pack(value)

    assert str(caught.value).startswith(f"Cannot store {place}: ")


def test_attributes_beside_the_fields_are_refused() -> None:
    """An attribute that is not a field would be lost, so the write says so."""
    item = Item("pen", Decimal(1))
    setattr(item, "owner", "me")  # noqa: B010
    bare = object.__new__(Item)
    bare.name = "pen"

    with pytest.raises(NotStorable, match="its attribute 'owner' is not a field"):
        pack(item)
    with pytest.raises(NotStorable, match="its field 'price' has no value"):
        pack(bare)


def test_cycles_are_refused() -> None:
    """A value that contains itself is named, and is no RecursionError."""
    ring: list[Any] = [1]
    order = Order(id=1, note={"deep": [ring]})
    ring.append({"again": ring, "other": ring})
    own = Order(id=1)
    own.note = own

    with pytest.raises(
        NotStorable, match=r"store value\.note\['deep'\]\[0\].*: a (list|dict) contains"
    ):
        pack(order)
    with pytest.raises(NotStorable, match=r"value\.note: .*Order contains itself"):
        pack(own)


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = wrap(value)
    return value


def in_list(value: object) -> object:
    return [value]


def in_tuple(value: object) -> object:
    return (value,)


def in_set(value: object) -> object:
    return frozenset({value})


def in_odd_dict(value: object) -> object:
    return {1: value}


def in_point(value: object) -> object:
    return Point(1, value)


@pytest.mark.parametrize("wrap", [in_list, in_tuple, in_set, in_odd_dict, in_point])
def test_depth_is_bounded(wrap: Callable[[Any], Any]) -> None:
    """200 levels come back, 201 are refused with a message of bounded length."""
    value = nested(200, wrap)

    assert unpack(pack(value)) == value
    with pytest.raises(NotStorable, match="nested more than 200 levels deep") as caught:
        pack(nested(201, wrap))
    assert len(str(caught.value)) < 600


def test_a_deep_stack_is_no_recursion_error() -> None:
    """Near the end of Python's stack a deep value is refused like any other."""

    def down(levels: int) -> Any:
        return down(levels - 1) if levels else pack(nested(199, in_list))

    with pytest.raises(NotStorable, match="recursion"):
        down(sys.getrecursionlimit() - len(inspect.stack()) - 100)


def test_uuid_versions_come_back() -> None:
    """UUIDs of any kind are kept."""
    value = uuid5(UUID(int=1), "name")

    assert same(through_json([value, UUID(int=0)]), [value, UUID(int=0)])
