"""Functions as tools: names, descriptions, schemas, contexts, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel
from pydantic import Field as PydanticField

from tests.tools.written import written
from treadle.tools.signature import ArgumentsInvalid, Signature, inspect_function

Deps = TypeVar("Deps")


class Context(Generic[Deps]):
    """Stands for the run's context."""


def inspected(function: Callable[..., Any]) -> Signature:
    """Return a function's signature as a tool."""
    return inspect_function(function, context_type=Context)


def properties_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schemas of a function's parameters."""
    return inspected(function).parameters["properties"]


class Place(BaseModel):
    """A place."""

    name: str
    floor: int = 0


def book(  # size: one parameter of each basic type, required and not
    ctx: Context[int],
    city: str,
    place: Place,
    nights: int,
    price: float,
    cash: bool,
    tags: list[str],
    title: str = "Dr",
    count: int = 1,
    factor: float = 0.5,
    quiet: bool = False,
    unit: Literal["C", "F"] = "C",
    places: list[Place] | None = None,
) -> str:
    """Book a room.

    Args:
        city: City name, for example "Paris".
        tags: What matters.
    """
    return city


def test_a_function_becomes_a_schema() -> None:
    """Names, types, descriptions, defaults, required set and nested schemas are all there (S14)."""
    signature = inspected(book)

    assert signature.name == "book"
    assert signature.description == "Book a room."
    assert signature.takes_context
    assert not signature.is_async
    assert signature.returns is str
    assert signature.types["places"] == list[Place] | None
    schema = signature.parameters
    place = {
        "type": "object",
        "description": "A place.",
        "properties": {"name": {"type": "string"}, "floor": {"type": "integer", "default": 0}},
        "required": ["name"],
    }
    assert schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city", "place", "nights", "price", "cash", "tags"],
        "properties": {
            "city": {"type": "string", "description": 'City name, for example "Paris".'},
            "place": place,
            "nights": {"type": "integer"},
            "price": {"type": "number"},
            "cash": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "What matters."},
            "title": {"type": "string", "default": "Dr"},
            "count": {"type": "integer", "default": 1},
            "factor": {"type": "number", "default": 0.5},
            "quiet": {"type": "boolean", "default": False},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "places": {
                "anyOf": [{"type": "array", "items": place}, {"type": "null"}],
                "default": None,
            },
        },
    }


def test_a_function_without_parameters() -> None:
    """It takes an empty object, and nothing else (BS-02)."""

    def ping() -> str:
        return "pong"

    signature = inspected(ping)

    assert signature.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert signature.description == ""
    assert signature.decoder.decode({}) == {}
    with pytest.raises(ArgumentsInvalid, match="x: unknown parameter"):
        signature.decoder.decode({"x": 1})


def test_descriptions_beside_the_type() -> None:
    """A text in `Annotated` or pydantic's `Field` says more than the docstring."""

    def search(
        a: Annotated[str, "From a text"],
        b: Annotated[int, PydanticField(description="From a field", ge=1)],
        c: str = PydanticField("x", description="From a default"),
        d: int = 0,
        e: Annotated[list[int], "Many"] = PydanticField(default_factory=list),  # noqa: B008
    ) -> None:
        """Search.

        Args:
            a: no
            b: no
            c: no
            d: From the docstring
        """

    signature = inspected(search)
    properties = signature.parameters["properties"]

    assert [properties[name].get("description") for name in "abcde"] == [
        "From a text",
        "From a field",
        "From a default",
        "From the docstring",
        "Many",
    ]
    assert properties["b"]["minimum"] == 1
    assert signature.parameters["required"] == ["a", "b"]
    assert signature.decoder.decode({"a": "q", "b": 1}) == {
        "a": "q",
        "b": 1,
        "c": "x",
        "d": 0,
        "e": [],
    }


def test_a_field_may_give_another_name() -> None:
    """An alias is what the model sees; the function gets its own name."""

    def mail(to: str, from_: Annotated[str, PydanticField(alias="from")] = "me") -> None: ...

    signature = inspected(mail)

    assert list(signature.parameters["properties"]) == ["to", "from"]
    assert signature.decoder.decode({"to": "a", "from": "b"}) == {"to": "a", "from_": "b"}


def test_a_required_field_as_default() -> None:
    """`Field()` without a default describes a required parameter."""

    def search(q: str = PydanticField(description="Words")) -> None: ...

    assert inspected(search).parameters["required"] == ["q"]


def test_parameters_without_annotation_take_anything() -> None:
    """They have an empty schema, and values come through untouched."""

    signature = inspected(written("def log(level, text=None): ..."))

    assert signature.parameters["properties"] == {"level": {}, "text": {"default": None}}
    assert signature.decoder.decode({"level": [1, "a"]}) == {"level": [1, "a"], "text": None}


def test_further_keywords() -> None:
    """`**kwargs: T` takes any other argument of type T."""

    def tag(name: str, **labels: int) -> None: ...

    signature = inspected(tag)

    assert signature.parameters["additionalProperties"] == {"type": "integer"}
    assert signature.decoder.decode({"name": "n", "a": 1, "b": "2"}) == {
        "name": "n",
        "a": 1,
        "b": 2,
    }
    with pytest.raises(ArgumentsInvalid) as caught:
        signature.decoder.decode({"a": "x"})
    assert "name: required" in str(caught.value)
    assert "a: expected a valid integer" in str(caught.value)


def test_any_further_keywords() -> None:
    """`**kwargs` without a type takes all."""

    def tag(**labels: Any) -> None: ...

    assert inspected(tag).parameters["additionalProperties"] is True
    assert inspected(tag).decoder.decode({"a": [1]}) == {"a": [1]}


def test_names_of_enclosing_functions_are_found() -> None:
    """Classes defined beside a function can be in its annotations, and in each other's."""

    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: list[Inner]

    def make() -> Signature:
        def use(outer: Outer | None, inner: Inner) -> None: ...

        return inspected(use)

    values = make().decoder.decode({"outer": {"inner": [{"n": 1}]}, "inner": {"n": 2}})
    assert values == {"outer": Outer([Inner(1)]), "inner": Inner(2)}


def test_the_module_imports_nothing_heavy() -> None:
    """pydantic and the docstring parser wait for the first tool that needs them."""
    program = "import sys, treadle.tools.signature; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert {"pydantic", "docstring_parser"}.isdisjoint(ended.stdout.decode().split())
