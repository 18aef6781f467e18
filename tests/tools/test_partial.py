"""Beginnings of JSON as values: what has come, in its own type, and nothing that has not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from treadle.tools.partial import NOTHING, PartialDecoder


class Line(BaseModel):
    name: str
    price: Decimal = Field(gt=0)


class Invoice(BaseModel):
    number: int
    kind: Literal["sale", "refund"]
    day: date
    lines: list[Line]
    note: str | None = None


@dataclass
class Tree:
    size: int
    line: Line
    children: list[Tree]


class Person(msgspec.Struct, rename="camel"):
    first_name: str
    age: int


class Aliased(BaseModel):
    customer: str = Field(alias="customerName")


class Box(TypedDict):
    size: Annotated[int, Field(lt=10)]


def told(kind: Any, text: str, under: str | None = None) -> list[Any]:
    """Return all different values that are told while the text comes byte by byte."""
    decoder, found = PartialDecoder(kind, under), list[Any]()
    for end in range(1, len(text) + 1):
        value = decoder.decode(text[:end])
        if value is not NOTHING and (not found or value != found[-1]):
            found.append(value)
    return found


def test_fields_come_one_after_another() -> None:
    """Each in its own type; a text grows; numbers, dates and choices wait until they are whole."""
    text = (
        '{"number": 12, "kind": "refund", "day": "2026-11-30", '
        '"lines": [{"name": "oak", "price": "1.50"}], "note": null}'
    )
    values = told(Invoice, text)
    assert values[:4] == [
        {},
        {"number": 12},
        {"number": 12, "kind": "refund"},
        {"number": 12, "kind": "refund", "day": date(2026, 11, 30)},
    ]
    assert [line["name"] for value in values for line in value.get("lines", ()) if "name" in line][
        :4
    ] == ["", "o", "oa", "oak"]
    assert values[-1] == {
        "number": 12,
        "kind": "refund",
        "day": date(2026, 11, 30),
        "lines": [{"name": "oak", "price": Decimal("1.50")}],
        "note": None,
    }


@pytest.mark.parametrize(
    ("kind", "text", "last"),
    [
        (
            Tree,
            '{"size": 1, "line": {"name": "x", "price": 2}, "children": [{"size": 3}]}',
            {"size": 1, "line": {"name": "x", "price": Decimal(2)}, "children": [{"size": 3}]},
        ),
        (Person, '{"firstName": "Al", "age": 40}', {"first_name": "Al", "age": 40}),
        (Aliased, '{"customerName": "Al"}', {"customer": "Al"}),
        (Box, '{"size": 3}', {"size": 3}),
        (dict[str, Box], '{"a": {"size": 3}}', {"a": {"size": 3}}),
        (Line | Person, '{"name": "x", "price": 1}', {"name": "x", "price": Decimal(1)}),
    ],
)
def test_every_kind_of_class(kind: Any, text: str, last: Any) -> None:
    """Models, dataclasses, Structs, typed dicts, also inside each other and by their aliases."""
    assert told(kind, text)[-1] == last


def test_what_is_no_object_stands_under_a_key() -> None:
    """Items come when they are whole."""
    assert told(list[int], '{"result": [1, 23, 4]}', "result") == [[], [1], [1, 23], [1, 23, 4]]


def test_what_cannot_be_of_the_type_is_not_told() -> None:
    """A whole field that breaks a rule, and text that is no JSON."""
    assert told(Box, '{"size": 12, "size": 12}') == [{}]
    assert told(Box, "Certainly! Here it is") == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_no_beginning_is_an_error(value: object) -> None:
    """Whatever JSON comes, cut anywhere: it is told or not, and at its end it is all there."""
    text = msgspec.json.encode({"result": value}).decode()
    assert told(Any, text, "result")[-1:] == [value]
