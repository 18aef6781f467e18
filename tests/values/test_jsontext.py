"""What a tool returns reaches the model as valid JSON, or is refused by type."""

from __future__ import annotations

import inspect
import json
import sys
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import BaseModel, HttpUrl, SecretStr

from tests.values.kinds import Access, Color, Level, Mood, Point, Row
from treadle.errors import NotStorable
from treadle.values import json_text


class Shade(Enum):
    DARK = ("dark", 1)


class Size(IntEnum):
    BIG = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Plain:
    id: int
    when: date | None = None


class Typed(TypedDict):
    ok: bool


class Model(BaseModel):
    at: datetime
    ratio: float = 0.5
    key: SecretStr | None = None


class Array(Struct, array_like=True, tag=True):
    x: int


class Text(str):
    __slots__ = ()


class Triple(tuple[int, int, int]):
    __slots__ = ()


class Pair(NamedTuple):
    a: Any
    b: Any


def no_constant(token: str) -> None:
    raise AssertionError(f"bare {token}")


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


TEXTS: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    (3, "3"),
    (2.5, "2.5"),
    (2**70, "1180591620717411303424"),
    ({"ok": True, "at": MOMENT}, '{"ok":true,"at":"2026-01-02T03:04:05+00:00"}'),
    (
        [Plain(1), Plain(2, date(2026, 1, 2))],
        '[{"id":1,"when":null},{"id":2,"when":"2026-01-02"}]',
    ),
    (b"\x00\xff", '"AP8="'),
    (bytearray(b"a"), '"YQ=="'),
    ({10, 9, 1}, "[1,9,10]"),
    (frozenset({"b", "a"}), '["a","b"]'),
    ({"a", 1, None}, '["a",1,null]'),
    (Decimal("1.10"), '"1.10"'),
    (float("nan"), '"NaN"'),
    ([float("inf"), {"x": float("-inf")}], '["Infinity",{"x":"-Infinity"}]'),
    (Decimal("NaN"), '"NaN"'),
    (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Path("a/b"), '"a/b"'),
    (PureWindowsPath("a\\b"), '"a\\\\b"'),
    (time(1, 2), '"01:02:00"'),
    (timedelta(minutes=90), '"PT5400S"'),
    (Color.RED, '"red"'),
    (Shade.DARK, '["dark",1]'),
    (Size.BIG, "3"),
    (Word.YES, '"yes"'),
    ([Level.LOW, Mood.FINE, Access.READ | Access.WRITE], '[1,"fine",3]'),
    ((1, (2, ())), "[1,[2,[]]]"),
    (Point(1, 2), '{"x":1,"y":2}'),
    (Pair("x", {1}), '{"a":"x","b":[1]}'),
    (Row(row_id=1, cells=(1,)), '{"type":"row","rowId":1,"cells":[1]}'),
    (Array(1), '["Array",1]'),
    (Typed(ok=False), '{"ok":false}'),
    (
        Model(at=MOMENT, key=SecretStr("hush")),
        '{"at":"2026-01-02T03:04:05Z","ratio":0.5,"key":"**********"}',
    ),
    (
        Model(at=MOMENT, ratio=float("nan")),
        '{"at":"2026-01-02T03:04:05Z","ratio":"NaN","key":null}',
    ),
    (HttpUrl("https://x.org"), '"https://x.org/"'),
    (defaultdict(list, {"a": [1]}), '{"a":[1]}'),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (
        {1: "a", None: "b", True + 1: "c", (1, "x"): "d"},
        '{"1":"a","null":"b","2":"c","[1,\\"x\\"]":"d"}',
    ),
    (
        {Color.RED: 1, date(2026, 1, 2): 2, Decimal("1.0"): 3},
        '{"red":1,"2026-01-02":2,"1.0":3}',
    ),
    ([Text("x"), Triple((1, 2, 3))], '["x",[1,2,3]]'),
    (["\ud800", 1, None], '["\ufffd",1,null]'),
    ({"é\ud83d": ["\udfff", "\ud83d\ude00"]}, '{"é\ufffd":["\ufffd","\U0001f600"]}'),
    ("plain \ud83d text", "plain \ud83d text"),
    (Text("sub"), "sub"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_results_become_json(value: object, text: str) -> None:
    """BS-10: text stays as it is, everything else is compact, valid JSON in a documented form."""
    result = json_text(value)

    assert result == text
    if not isinstance(value, str) or isinstance(value, Enum):
        json.loads(result, parse_constant=no_constant)


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        (object(), "result", "an object has no JSON form"),
        ([{"f": print}], "result[0]['f']", "a builtin_function_or_method has no JSON form"),
        (Plain, "result", "a type has"),
        ({"a": (x for x in ())}, "result['a']", "a generator has"),
        ([1j], "result[0]", "a complex has"),
        (Point(1, object()), "result['y']", "an object has"),
        ({1: "a", "1": "b"}, "result", "two of its keys have the same text"),
        ([10**5000], "result[0]", "an integer of 16610 bits is too long to write"),
        (Model.model_construct(at=object()), "result", "pydantic cannot write a "),
    ],
)
def test_what_has_no_json_is_refused(value: object, place: str, words: str) -> None:
    """BS-10: the message names the place and the type, never an address."""
    with pytest.raises(NotStorable) as caught:
        json_text(value)

    assert str(caught.value).startswith(f"No JSON for {place}: ")
    assert words in str(caught.value)
    assert "0x" not in str(caught.value)


def test_cycles_are_refused() -> None:
    """A result that contains itself is an error, not a crash."""
    ring: dict[str, Any] = {}
    ring["me"] = [ring]

    with pytest.raises(NotStorable, match="contains itself"):
        json_text(ring)


def test_depth_is_bounded() -> None:
    """A result nested deeper than 200 levels, or than Python's stack, is an error of its own."""
    value: Any = 1
    for _ in range(201):
        value = [value]

    def down(levels: int) -> Any:
        return down(levels - 1) if levels else json_text(value[0])

    assert json_text(value[0]) == "[" * 200 + "1" + "]" * 200
    with pytest.raises(NotStorable, match="nested more than 200 levels deep"):
        json_text(value)
    with pytest.raises(NotStorable, match="recursion"):
        down(sys.getrecursionlimit() - len(inspect.stack()) - 100)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.decimals()
        | st.datetimes(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ).filter(lambda value: not isinstance(value, str))
)
def test_every_result_is_valid_json(value: object) -> None:
    """Whatever is made of plain types gives valid JSON."""
    json.loads(json_text(value), parse_constant=no_constant)
