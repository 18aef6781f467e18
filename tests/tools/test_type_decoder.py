"""Values of one type, from the text of a model's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from treadle.tools.signature import TypeDecoder


class Socket:
    """A class that has no JSON form."""


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Person(BaseModel):
    name: str
    friends: list[Person] = []


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (Point, '{"x": 1}', Point(1)),
        (int, "5", 5),
        (Point | Pair, "[1]", Pair(1)),
        (Person, '{"name": "a"}', Person(name="a")),
    ],
)
def test_from_json(kind: Any, text: str, expected: Any) -> None:
    """The text itself is the value, or an object has it under a key."""
    decoder = TypeDecoder(kind)

    assert decoder.from_json(text) == expected
    assert decoder.from_json(f'{{"result": {text}}}', under="result") == expected


def test_schema() -> None:
    """It stands alone, with the definitions it needs."""
    assert TypeDecoder(list[int]).schema == {"type": "array", "items": {"type": "integer"}}
    schema = TypeDecoder(Person).schema
    assert schema["$ref"] == "#/$defs/Person"
    assert schema["$defs"]["Person"]["required"] == ["name"]


def test_problems() -> None:
    """They have paths inside the value, and are `ValueError`s."""
    with pytest.raises(ValueError, match=r"value is not valid.*\n- y: expected a valid integer"):
        TypeDecoder(Point).from_json('{"x": 1, "y": "a"}')
    with pytest.raises(ValueError, match=r"- result\[1\]: expected"):
        TypeDecoder(list[int]).from_json('{"result": [1, "a"]}', under="result")
    with pytest.raises(ValueError, match="'result'"):
        TypeDecoder(int).from_json("5", under="result")
    with pytest.raises(ValueError, match="not valid JSON"):
        TypeDecoder(int).from_json("{")


def test_types_without_json_form() -> None:
    """They are refused when the decoder is made."""
    with pytest.raises(TypeError):
        TypeDecoder(Socket)
