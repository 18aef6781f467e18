"""From JSON to values of every type that a tool may ask for."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, TypeAdapter
from pydantic import Field as PydanticField

from tests.tools.decoding import decoded, decoder_of, message_of
from treadle.tools.signature import ArgumentsInvalid, inspect_function


class Context:
    """Stands for the run's context."""


class Color(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


class Options(TypedDict, total=False):
    depth: int
    where: Point


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Person(BaseModel):
    name: str
    born: dt.date | None = None
    friends: list[Person] = []


Name = NewType("Name", str)


UTC = dt.UTC
ID = "12345678-1234-5678-1234-567812345678"


VALUES: list[tuple[Any, Any, Any]] = [
    (str, "x", "x"),
    (int, 5, 5),
    (int, 10**30, 10**30),
    (int, "5", 5),
    (int, True, 1),
    (float, 5, 5.0),
    (bool, "yes", True),
    (None, None, None),
    (Any, {"a": 1}, {"a": 1}),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (Level, 2, Level.HIGH),
    (int | None, None, None),
    (int | str, "5", "5"),
    (list[int], [1, "2"], [1, 2]),
    (dict[int, Color], {"1": "blue"}, {1: Color.BLUE}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (set[int], [1, 2, 2], {1, 2}),
    (frozenset[Color], ["red"], frozenset({Color.RED})),
    (Sequence[int], [1], [1]),
    (Mapping[str, int], {"a": 1}, {"a": 1}),
    (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
    (dt.time, "03:04", dt.time(3, 4)),
    (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
    (dt.timedelta, 90, dt.timedelta(seconds=90)),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, 3, Decimal(3)),
    (UUID, ID, UUID(ID)),
    (bytes, "abc", b"abc"),
    (Path, "a/b", Path("a/b")),
    (Name, "n", Name("n")),
    (Point, {"x": 1, "tags": ["t"]}, Point(1, 0, ["t"])),
    (Options, {"where": {"x": 1}}, {"where": Point(1)}),
    (Pair, [1], Pair(1)),
    (Pair, {"left": 1, "right": "q"}, Pair(1, "q")),
    (
        Person,
        {"name": "a", "born": "2000-01-01", "friends": [{"name": "b"}]},
        Person(name="a", born=dt.date(2000, 1, 1), friends=[Person(name="b")]),
    ),
    (list[Annotated[int, PydanticField(ge=1)]], [3], [3]),
    (dict[str, list[Point | None]], {"a": [None, {"x": 2}]}, {"a": [None, Point(2)]}),
]


@pytest.mark.parametrize(("kind", "given", "expected"), VALUES, ids=str)
def test_every_type_is_decoded(kind: Any, given: Any, expected: Any) -> None:
    """The value has the asked type, not only an equal value."""
    value = decoded(kind, given)

    assert value == expected
    assert type(value) is type(expected)
    if kind is Decimal:
        assert str(value) == str(expected)


ROUND_TRIPS: list[Any] = [
    dict[str, int | str | None],
    list[tuple[int, bool]],
    set[int],
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    UUID,
    Color,
    Point,
    Person,
    list[Point | None],
    dict[str, frozenset[Level]],
    Literal["a", "b", 3],
]


@given(st.data(), st.sampled_from(ROUND_TRIPS))
def test_valid_values_decode_to_themselves(data: st.DataObject, kind: Any) -> None:
    """What is written as JSON comes back equal and of the same type."""
    if kind is Person:
        value: Any = data.draw(
            st.builds(Person, name=st.text(), born=st.dates() | st.none(), friends=st.just([]))
        )
    else:
        value = data.draw(st.from_type(kind))
    written = TypeAdapter(kind).dump_json(value)

    again = decoded(kind, json.loads(written))

    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Color, {"type": "string", "enum": ["red", "blue"], "description": "A colour."}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.time, {"type": "string", "format": "time"}),
        (dt.timedelta, {"type": "string", "format": "duration"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (bytes, {"type": "string", "format": "binary"}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (
            Annotated[int, PydanticField(ge=1, description="N")],
            {"type": "integer", "minimum": 1, "description": "N"},
        ),
        (
            Annotated[list[str], "Tags"],
            {"type": "array", "items": {"type": "string"}, "description": "Tags"},
        ),
    ],
    ids=str,
)
def test_schemas_say_what_is_expected(kind: Any, expected: dict[str, Any]) -> None:
    """Formats, choices, bounds and descriptions are in the schema; titles are not."""
    shown = decoder_of(kind).schema["properties"]["x"]

    assert shown | expected == shown


def test_no_titles_and_no_definitions_without_need() -> None:
    """Only what is recursive keeps a name of its own."""
    flat = json.dumps(decoder_of(dict[str, Point | Options]).schema)
    recursive = decoder_of(Person).schema

    assert "title" not in flat
    assert "$ref" not in flat
    assert list(recursive["$defs"]) == ["Person"]
    assert recursive["properties"]["x"] == {"$ref": "#/$defs/Person"}


def test_defaults_are_shown_as_json() -> None:
    """Also those that are not JSON values; what has no JSON form is left out and still used."""
    nothing = object()

    def plan(
        on: dt.date = dt.date(2026, 1, 2),
        color: Color = Color.RED,
        at: Point = Point(1),  # noqa: B008
        ids: tuple[int, ...] = (1, 2),
        secret: Any = nothing,
    ) -> None: ...

    signature = inspect_function(plan, context_type=Context)
    shown = {
        name: child.get("default") for name, child in signature.parameters["properties"].items()
    }

    assert shown == {
        "on": "2026-01-02",
        "color": "red",
        "at": {"x": 1, "y": 0, "tags": []},
        "ids": [1, 2],
        "secret": None,
    }
    values = signature.decoder.decode({})
    assert values == {
        "on": dt.date(2026, 1, 2),
        "color": Color.RED,
        "at": Point(1),
        "ids": (1, 2),
        "secret": nothing,
    }


def test_a_default_list_is_not_shared() -> None:
    """Two calls get two lists."""

    def add(items: list[int] = []) -> None: ...  # noqa: B006

    decoder = inspect_function(add, context_type=Context).decoder
    assert decoder.decode({})["items"] is not decoder.decode({})["items"]


def report(
    period: Point,
    tags: list[str],
    note: str,
    when: dt.date | None = None,
    either: str | list[int] = "",
) -> None:
    """Stand for a tool with nested parameters."""


def test_a_string_for_an_object_is_decoded() -> None:
    """Only where an object or array is wanted, only once, and real strings stay (BS-09)."""
    decoder = inspect_function(report, context_type=Context).decoder
    given = {
        "period": '{"x": 1, "tags": "[\\"t\\"]"}',
        "tags": '["a","b"]',
        "note": '{"not":"parsed"}',
    }

    values = decoder.decode({**given, "either": "[1]"})

    assert values == {
        "period": Point(1, 0, ["t"]),
        "tags": ["a", "b"],
        "note": '{"not":"parsed"}',
        "when": None,
        "either": "[1]",
    }


@pytest.mark.parametrize(
    "kind",
    [
        list[int],
        tuple[int],
        set[int],
        frozenset[int],
        Sequence[int],
        dict[str, int],
        Mapping[str, int],
        Point,
        Person,
        Options,
        Pair,
        Point | None,
        int | list[int],
        Point | list[int],
    ],
    ids=str,
)
def test_every_container_may_come_as_a_string(kind: Any) -> None:
    """The JSON text of a value of any container type is taken for the value."""
    examples = ['{"x": 1}', '{"name": "n"}', '{"left": 1}', "[1]", "{}", '{"a": 1}']
    accepted = [text for text in examples if _accepts(kind, json.loads(text))]

    assert accepted
    for text in accepted:
        assert decoded(kind, text) == decoded(kind, json.loads(text))
    assert "got" in message_of(kind, "no json")
    assert "got" in message_of(kind, '"[1]"')


def _accepts(kind: Any, value: Any) -> bool:
    try:
        decoded(kind, value)
    except ArgumentsInvalid:
        return False
    return True


def test_every_problem_is_told_with_its_place() -> None:
    """One text names all fields, what was expected and what was there (S16)."""
    decoder = inspect_function(report, context_type=Context).decoder
    given = {"period": {"y": "q"}, "tags": ["a", 5], "when_": "x", "when": "tomorrow"}

    with pytest.raises(ArgumentsInvalid) as caught:
        decoder.decode(given)

    lines = str(caught.value).splitlines()
    assert lines[0] == "The arguments are not valid (6 problems):"
    assert lines[1] == "- period.x: required, but missing"
    assert lines[2].startswith("- period.y: expected a valid integer")
    assert lines[2].endswith('got "q"')
    assert lines[3] == "- tags[1]: expected a valid string, got 5"
    assert lines[4] == "- note: required, but missing"
    assert lines[5].startswith("- when: expected a valid date")
    assert lines[6] == "- when_: unknown parameter, did you mean 'when'?, got \"x\""
    assert lines[7].startswith(
        "Parameters: period (object, required), tags (array of string, required)"
    )
    assert [problem.path for problem in caught.value.problems][:2] == [
        ("period", "x"),
        ("period", "y"),
    ]


def test_a_union_has_one_line() -> None:
    """What each member wants is said together, and a nested finding says of which member."""
    assert "- x: expected a valid integer" in message_of(int | list[int], "a")
    assert " or an array, got" in message_of(int | list[int], "a")
    message = message_of(Point | Person, {"y": 1})
    assert "- x.x: required, but missing (for Point)" in message
    assert "- x.name: required, but missing (for Person)" in message
    assert "- x.z: unknown parameter" in message_of(Annotated[Point, "P"], {"x": 1, "z": 1})


def test_validators_of_users() -> None:
    """Their own words reach the model; an error of any other kind is a finding too."""

    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return 10 // value

    kind = Annotated[int, AfterValidator(even)]

    assert "- x: must be even, got 3" in message_of(kind, 3)
    assert "ZeroDivisionError" in message_of(kind, 0)
    assert decoded(kind, 2) == 5
