"""Typed state: the keys of one scope as an object of a class, checked on the way in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from operator import add
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
import typing_extensions
from msgspec import Struct
from pydantic import BaseModel, Field, PydanticUserError, model_validator

from treadle.errors import ConfigError, RunError, StateInvalid
from treadle.state import Scope, State, TypedView, merge
from treadle.state.reducers import last_wins


class Part(Struct):
    name: str


class Story(TypedDict):
    topic: str
    lines: Annotated[list[str], add]
    note: NotRequired[str]


class Other(typing_extensions.TypedDict, total=False):
    topic: typing_extensions.Required[str]
    part: Part | None


@dataclass
class Order:
    item: str
    count: int = 1
    tags: set[str] = field(default_factory=lambda: {"new"})
    price: Decimal | None = None
    seen: int = field(default=0, init=False)


class Model(BaseModel):
    item: str = Field(alias="Item")
    count: Annotated[int, add, Field(gt=0)] = 1
    parts: list[Part] = []

    @model_validator(mode="after")
    def _few(self) -> Model:
        if self.count > 9:
            raise ValueError("too many")
        return self

    model_config = {"arbitrary_types_allowed": True}


class Price(BaseModel):
    amount: int


class Priced(TypedDict):
    price: Price


class Record(Struct):
    item: str
    count: int = 1
    part: Part | None = None


def held(**values: object) -> State:
    return State({Scope.GRAPH + name: value for name, value in values.items()})


def test_a_typed_dict() -> None:
    """What is absent and not required stays absent; other keys and scopes do not show."""
    view = TypedView(Story)
    state = held(topic="rain", lines=["a"], more=1)
    state.set("note", "global")

    assert view.read(state, Scope.GRAPH) == {"topic": "rain", "lines": ["a"]}
    assert view.fields == ("topic", "lines", "note")
    assert view.changes(note="n") == {"note": "n"}
    assert repr(view) == f"TypedView({__name__}.Story)"
    assert TypedView(Other).read(held(topic="x", part=Part("p")), Scope.GRAPH) == {
        "topic": "x",
        "part": Part("p"),
    }


def test_classes_have_their_own_defaults() -> None:
    """A dataclass, a model and a Struct are built of what is there."""
    order = TypedView(Order).read(held(item="loom", price=Decimal("1.0")), Scope.GRAPH)
    assert order == Order("loom", price=Decimal("1.0"))
    assert TypedView(Record).read(held(item="loom", part=Part("p")), Scope.GRAPH) == Record(
        "loom", part=Part("p")
    )
    assert TypedView(Model).read(held(item="loom", count=2), Scope.GRAPH) == Model(
        Item="loom", count=2
    )
    assert TypedView(Order).fields == ("item", "count", "tags", "price")
    state = State({Scope.node("a") + "item": "own"})
    assert TypedView(Record).read(state, Scope.node("a")) == Record("own")


@pytest.mark.parametrize("kind", [Story, Other, Order, Model, Record])
def test_a_required_key_that_is_absent(kind: type[Any]) -> None:
    """The error names the key and the field."""
    name = TypedView(kind).fields[0]

    with pytest.raises(StateInvalid) as caught:
        TypedView(kind).read(State(), Scope.GRAPH)

    assert isinstance(caught.value, RunError)
    assert caught.value.key == f"graph::{name}"
    words = f"State key 'graph::{name}' has no value, and {__name__}.{kind.__name__}.{name} has no"
    assert words in str(caught.value)


WRONG = [
    (Story, {"lines": "abc"}, "State key 'lines' takes list[str], not a str: Input should be a"),
    (Story, {"lines": ["a", 3]}, "not a list: [1]: Input should be a valid string"),
    (Order, {"count": "many"}, "State key 'count' takes int, not a str: Input should be a valid"),
    (Order, {"price": "dear"}, "'price' takes decimal.Decimal | None, not a str"),
    (Model, {"count": 0}, "Input should be greater than 0"),
    (Record, {"part": 3}, "not an int"),
    (Priced, {"price": {"amount": "x"}}, "Price, not a dict: ['amount']: Input should be a valid"),
    (Record, {"parts": 3}, f"{__name__}.Record has no field 'parts', only item, count, part."),
]


@pytest.mark.parametrize(("kind", "values", "words"), WRONG)
def test_changes_are_checked(kind: type[Any], values: dict[str, Any], words: str) -> None:
    """The error names key, type and what is wrong, and never the value, which may be secret."""
    with pytest.raises(StateInvalid) as caught:
        TypedView(kind).changes(**values)

    assert words in str(caught.value)
    assert caught.value.key == next(iter(values))


def test_what_is_stored_is_checked_too() -> None:
    """Others may have written the key: a wrong type is an error, not a wrong object."""
    with pytest.raises(StateInvalid, match="'graph::count' takes int, not a str"):
        TypedView(Record).read(held(item="loom", count="two"), Scope.GRAPH)
    with pytest.raises(StateInvalid, match=r"scope 'graph::' makes no .*Model: .*too many"):
        TypedView(Model).read(held(item="loom", count=10), Scope.GRAPH)


def test_changes_come_as_the_type_has_them() -> None:
    """What pydantic makes of a value is what is stored; what was not given is not touched."""
    assert TypedView(Order).changes(price="1.5", tags=["a"]) == {
        "price": Decimal("1.5"),
        "tags": {"a"},
    }
    assert TypedView(Order).changes() == {}
    assert TypedView(Priced).changes(price={"amount": "1"}) == {"price": Price(amount=1)}


def test_reducers_are_those_of_the_annotations() -> None:
    """By name and by whole key; constraints are none."""
    assert TypedView(Story).reducers == {"lines": add}
    assert TypedView(Model).reducers_in(Scope.GRAPH) == {"graph::count": add}
    assert TypedView(Order).reducers == {}

    state = held(topic="rain", lines=["a"])
    state.add_reducers(TypedView(Story).reducers_in(Scope.GRAPH))
    made = [(name, state.branch()) for name in ("one", "two")]
    for name, branch in made:
        branch.set("graph::lines", [name])
    state.apply(merge(state, made))
    assert TypedView(Story).read(state, Scope.GRAPH)["lines"] == ["a", "one", "two"]

    state.add_reducers({"graph::lines": add})
    with pytest.raises(ConfigError, match="'graph::lines' has a reducer already"):
        state.add_reducers({"graph::new": add, "graph::lines": last_wins})
    assert not state.reduces("graph::new")


class Plain:
    item: str


class Twice(TypedDict):
    n: Annotated[int, add, last_wins]


class Unresolved(TypedDict):
    n: Nowhere  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType] # noqa: F821


class Refused:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
        raise PydanticUserError("not this one", code=None)


class Unasked(TypedDict):
    n: Refused


class Unbuilt(TypedDict):
    n: Annotated[str, Field(pattern="(")]


REFUSED: list[tuple[Any, str]] = [
    (Plain, "Plain cannot be the type of a state; it takes a TypedDict, a dataclass"),
    (dict, "dict cannot be the type of a state"),
    (3, "3 is no class"),
    (Twice, "Field 'n' of .*Twice cannot hold state: it has 2 reducers"),
    (Unresolved, "annotations of .*Unresolved cannot be evaluated: name 'Nowhere'"),
    (Unasked, "Field 'n' of .*Unasked cannot hold state: not this one"),
    (Unbuilt, "Field 'n' of .*Unbuilt cannot hold state: .*validator"),
]


@pytest.mark.parametrize(("kind", "words"), REFUSED)
def test_classes_that_cannot_be(kind: Any, words: str) -> None:
    """They are refused when the view is made, not when a run is under way."""
    with pytest.raises(ConfigError, match=words):
        TypedView(kind)
