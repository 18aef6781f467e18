"""msgspec Structs, and typed dicts of `typing`, anywhere in the types of a tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.tools.decoding import decoded, decoder_of, message_of
from tests.tools.written import written
from treadle.errors import InvalidTool
from treadle.tools.signature import inspect_function

T = TypeVar("T")


class Context:
    """Stands for the run's context."""


class Model(BaseModel):
    n: int


class Leaf(msgspec.Struct):
    """A leaf."""

    size: int
    name: Annotated[str, msgspec.Meta(max_length=3, description="Its name")] = "x"


class Tree(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_leaf: Leaf
    sub_trees: list[Tree] = []
    model: Model | None = None


class Cat(msgspec.Struct, tag="cat"):
    meow: int


class Dog(msgspec.Struct, tag="dog"):
    bark: Leaf


class Row(msgspec.Struct, array_like=True):
    a: int
    leaf: Leaf


class Even(msgspec.Struct):
    n: int
    half: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("n must be even")
        if self.n == 42:
            raise TypeError("n must not be 42")


class Box(msgspec.Struct, Generic[T]):
    content: T


class Entry(TypedDict):
    leaf: Leaf
    note: NotRequired[str]


class PlainEntry(TypedDict, total=False):
    depth: int
    leaf: Required[Leaf]


class Named(NamedTuple):
    leaf: Leaf
    n: int


@dataclass
class Holder:
    leaf: Leaf
    pets: list[Cat | Dog] = field(default_factory=list["Cat | Dog"])
    entry: Entry | None = None
    count: int = 3


@dataclass
class Holding(Generic[T]):
    content: T
    more: dict[str, T] | None = None


Alias = NewType("Alias", Leaf)

LEAF = {"size": 1}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Leaf, LEAF, Leaf(1)),
        (Leaf, '{"size": 1}', Leaf(1)),
        (Leaf | None, None, None),
        (list[Leaf], [LEAF], [Leaf(1)]),
        (dict[str, tuple[Leaf, ...]], {"a": [LEAF]}, {"a": (Leaf(1),)}),
        (
            Tree,
            {"firstLeaf": LEAF, "subTrees": [{"firstLeaf": LEAF}]},
            Tree(Leaf(1), [Tree(Leaf(1))]),
        ),
        (Tree, {"firstLeaf": LEAF, "model": {"n": "5"}}, Tree(Leaf(1), model=Model(n=5))),
        (Cat | Dog, {"type": "dog", "bark": LEAF}, Dog(Leaf(1))),
        (Cat | Dog | None, None, None),
        (Cat | Dog, '{"type": "cat", "meow": 1}', Cat(1)),
        (Cat, {"type": "cat", "meow": 1}, Cat(1)),
        (Row, [1, LEAF], Row(1, Leaf(1))),
        (Even, {"n": 2}, Even(2)),
        (Even, {"n": 2, "half": 1}, Even(2, 1)),
        (Box[int], {"content": "5"}, Box(5)),
        (Box[Leaf], {"content": LEAF}, Box(Leaf(1))),
        (Alias, LEAF, Leaf(1)),
        (Annotated[Leaf, "A leaf"], LEAF, Leaf(1)),
        (Entry, {"leaf": LEAF}, {"leaf": Leaf(1)}),
        (PlainEntry, {"leaf": LEAF}, {"leaf": Leaf(1)}),
        (PlainEntry, {"leaf": LEAF, "depth": "5"}, {"leaf": Leaf(1), "depth": 5}),
        (Named, [LEAF, 2], Named(Leaf(1), 2)),
        (Holder, {"leaf": LEAF}, Holder(Leaf(1))),
        (Holder, {"leaf": LEAF, "pets": [{"type": "cat", "meow": 1}]}, Holder(Leaf(1), [Cat(1)])),
        (Holder, {"leaf": LEAF, "entry": {"leaf": LEAF}}, Holder(Leaf(1), [], {"leaf": Leaf(1)})),
        (Holding[Leaf], {"content": LEAF}, Holding(Leaf(1))),
        (Holding[Leaf], {"content": LEAF, "more": {"a": LEAF}}, Holding(Leaf(1), {"a": Leaf(1)})),
        (Leaf, Leaf(5), Leaf(5)),
    ],
    ids=str,
)
def test_structs_are_decoded_wherever_they_stand(kind: Any, given: Any, expected: Any) -> None:
    """The value has the asked type; an object that is made already is taken as it is."""
    value = decoded(kind, given)

    assert value == expected
    assert type(value) is type(expected)


@given(st.builds(Leaf, st.integers(), st.text(max_size=3)))
def test_valid_structs_decode_to_themselves(leaf: Leaf) -> None:
    """What is written as JSON comes back equal."""
    tree = Tree(leaf, [Tree(leaf)])

    assert decoded(Tree, msgspec.json.decode(msgspec.json.encode(tree))) == tree


def test_the_schema_of_a_struct() -> None:
    """Fields, names in JSON, bounds, defaults and descriptions are all there."""
    leaf = {
        "type": "object",
        "description": "A leaf.",
        "properties": {
            "size": {"type": "integer"},
            "name": {"type": "string", "maxLength": 3, "description": "Its name", "default": "x"},
        },
        "required": ["size"],
    }
    tree = decoder_of(Tree).schema

    assert decoder_of(Leaf).schema["properties"]["x"] == leaf
    assert tree["properties"]["x"] == {"$ref": "#/$defs/Tree"}
    assert tree["$defs"]["Tree"]["properties"]["firstLeaf"] == leaf
    assert tree["$defs"]["Tree"]["additionalProperties"] is False
    assert decoder_of(Cat).schema["properties"]["x"]["properties"]["type"] == {
        "type": "string",
        "const": "cat",
    }
    assert decoder_of(Even).schema["properties"]["x"]["properties"]["half"] == {"type": "integer"}
    assert decoder_of(Holder).schema["properties"]["x"]["properties"]["count"] == {
        "type": "integer",
        "default": 3,
    }
    assert decoder_of(Entry).schema["properties"]["x"]["required"] == ["leaf"]


def test_problems_have_their_place() -> None:
    """Every problem in every Struct is told, at its path in the JSON."""
    message = message_of(
        Holder,
        {
            "leaf": {"name": "long name"},
            "pets": [{"type": "dog", "bark": {"size": "q"}}, {"type": "cow"}, {"type": "cat"}],
            "entry": {"leaf": 5},
        },
    )

    assert "- x.leaf.size: required, but missing" in message
    assert "- x.leaf.name: string should have at most 3 characters" in message
    assert "- x.pets[0].bark.size: expected a valid integer" in message
    assert "- x.pets[1]: expected an object with 'type' one of 'cat', 'dog'" in message
    assert "- x.pets[2].meow: required, but missing (for cat)" in message
    assert "- x.entry.leaf: expected an object, got 5" in message


def test_what_a_struct_itself_refuses() -> None:
    """`__post_init__` may raise `ValueError` or `TypeError`, as msgspec allows."""
    assert "- x: n must be even" in message_of(Even, {"n": 3})
    assert "- x: n must not be 42" in message_of(Even, {"n": 42})
    assert "- x.extra: unknown parameter" in message_of(Tree, {"firstLeaf": LEAF, "extra": 1})


def test_missing_keys_of_a_typed_dict() -> None:
    """`Required` counts also where annotations are postponed."""
    assert "- x.leaf: required, but missing" in message_of(PlainEntry, {})
    assert decoder_of(PlainEntry).schema["properties"]["x"]["required"] == ["leaf"]


def test_names_that_are_not_there() -> None:
    """A class with an annotation that cannot be resolved is refused with that name."""
    source = (
        "@dataclass\nclass Holder:\n    x: Absent\n    leaf: Leaf\n\ndef use(holder: Holder): ..."
    )
    use = written(source, dataclass=dataclass, Leaf=Leaf)

    with pytest.raises(InvalidTool, match=r"parameter holder: .*Absent"):
        inspect_function(use, context_type=Context)


def test_local_structs_in_postponed_annotations() -> None:
    """Structs defined beside the function, which name each other."""

    class Inner(msgspec.Struct):
        n: int

    class Outer(msgspec.Struct):
        inner: Inner
        kind: Literal["a", "b"] = "a"

    def use(outer: Outer, inner: list[Inner]) -> None: ...

    signature = inspect_function(use, context_type=Context)

    values = signature.decoder.decode({"outer": {"inner": {"n": 1}}, "inner": [{"n": 2}]})
    assert values == {"outer": Outer(Inner(1)), "inner": [Inner(2)]}


def test_a_default_struct_is_shown() -> None:
    """A default that only msgspec can write is in the schema, and is what the function gets."""

    def use(leaf: Leaf = Leaf(7)) -> None: ...  # noqa: B008

    signature = inspect_function(use, context_type=Context)

    assert signature.parameters["properties"]["leaf"]["default"] == {"size": 7, "name": "x"}
    assert signature.decoder.decode({}) == {"leaf": Leaf(7)}


def test_fields_without_json_form() -> None:
    """The parameter is named."""

    class Odd(msgspec.Struct):
        raw: msgspec.Raw

    def use(n: int, odd: Odd) -> None: ...

    with pytest.raises(InvalidTool, match=r"parameter odd: .*Raw"):
        inspect_function(use, context_type=Context)
