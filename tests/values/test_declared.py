"""Classes are declared by decorator, by annotation and by name, and a clash is an error."""

from __future__ import annotations

import gc
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import pytest
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, RootModel, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import core_schema

from tests.values.kinds import Color, Item, same
from treadle.errors import ConfigError, NotStorable
from treadle.values import json_text, pack, register, register_annotation, unpack


class Kind(Enum):
    A = 1


class Leaf(NamedTuple):
    kind: Kind


class Twig(Struct):
    leaves: list[Leaf]


class Branch(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    twigs: dict[str, Twig]
    parent: Branch | None = None


class Extra(TypedDict, total=False):
    branch: Branch


@dataclass
class Tree:
    extra: Extra
    later: Later | None = None


@dataclass
class Later:
    x: int


def test_annotations_declare_what_is_in_them() -> None:
    """A class in an annotation is declared, and so is every class in its fields."""
    leaf = Leaf(Kind.A)
    tree = Tree({"branch": Branch(twigs={"t": Twig([leaf])})}, Later(1))
    with pytest.raises(NotStorable, match="Tree is not declared here"):
        pack(tree)

    register_annotation(Tree | None)

    assert same(unpack(pack([tree, leaf])), [tree, leaf])


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T


def plain(kind: Any) -> object:
    return list[dict[str, tuple[kind, ...]]]


def annotated(kind: Any) -> object:
    return Annotated[set[kind] | None, "text", 3]


def generic(kind: Any) -> object:
    return Box[kind]


def called(kind: Any) -> object:
    return Callable[[int, kind], Mapping[str, int]]


def bound(kind: Any) -> object:
    factory: Any = TypeVar
    return factory("B", bound=kind)


def one_of(kind: Any) -> object:
    factory: Any = TypeVar
    return list[factory("C", kind, int)]


def renamed(kind: Any) -> object:
    factory: Any = NewType
    return factory("Named", kind)


@pytest.mark.parametrize("form", [plain, annotated, generic, called, bound, one_of, renamed])
def test_every_form_is_walked(form: Callable[[Any], object]) -> None:
    """Containers, unions, `Annotated`, generics, callables, variables and new types."""
    kind: Any = make_dataclass(f"In{form.__name__}", [("x", int)])

    register_annotation(form(kind))

    assert same(unpack(pack(kind(1))), kind(1))


class Choice(Enum):
    ON = 1


@pytest.mark.parametrize(
    "annotation",
    [Literal[Choice.ON, "x"], "Unresolved", None, Any, 3, list, [], Callable[..., int]],
)
def test_any_annotation_is_taken(annotation: object) -> None:
    """What names no class is passed over; literals declare their Enum."""
    register_annotation(annotation)

    register_annotation(Literal[Choice.ON])
    assert unpack(pack(Choice.ON)) is Choice.ON


@register
@dataclass
class Early:
    late: Late


@dataclass
class Late:
    x: int


def test_forward_references_are_resolved_later() -> None:
    """A class that was not defined yet when it was named is declared once it is needed."""
    assert same(unpack(pack(Early(Late(1)))), Early(Late(1)))


def test_local_names_do_not_hide_the_others() -> None:
    """Where one annotation cannot be evaluated, those beside it still are."""

    @dataclass
    class Local:
        x: int

    @dataclass
    class Outer:
        local: Local
        seen: Seen

    register_annotation(Outer)

    assert unpack(pack(Seen.YES)) is Seen.YES
    with pytest.raises(NotStorable, match="Local is not declared here"):
        pack(Outer(Local(1), Seen.YES))


class Seen(Enum):
    YES = 1


def test_names_are_kept() -> None:
    """An explicit name is what is written; the class is still read under its older names."""
    kind: Any = make_dataclass("Parcel", [("x", int)])
    register(kind)
    old: Any = pack(kind(1))
    assert register(name="post.Parcel")(kind) is kind
    register(kind)  # does not take the name back

    new: Any = pack(kind(1))
    assert (old["of"], new["of"]) == ("types:Parcel", "post.Parcel")
    assert unpack(old) == unpack(new) == kind(1)


def test_a_redefined_class_takes_over() -> None:
    """What notebooks do: the class of the same module and name is read from then on."""

    def define() -> Any:
        @register
        @dataclass
        class Cell:
            x: int

        return Cell

    first, second = define(), define()

    assert type(unpack(pack(second(1)))) is second
    assert type(unpack(pack(first(1)))) is second  # as after an upgrade of the program


def test_a_redefined_class_is_not_kept_alive() -> None:
    """A program that defines classes as it runs does not grow."""

    def define() -> weakref.ref[Any]:
        @register
        class Passing(BaseModel):
            x: int

        assert unpack(pack(Passing(x=1))) == Passing(x=1)
        return weakref.ref(Passing)

    first = define()
    define()
    gc.collect()

    assert first() is None


def test_a_clash_is_refused() -> None:
    """Two different classes cannot have one name."""
    register(make_dataclass("One", [("x", int)]), name="clash")

    with pytest.raises(ConfigError, match=r"'clash' of types\.Two already belongs to types\.One"):
        register(make_dataclass("Two", [("x", int)]), name="clash")


class Abstract(ABC):
    @abstractmethod
    def area(self) -> int: ...


@dataclass
class AbstractData(Abstract):
    x: int


@dataclass
class Failure(ValueError):
    x: int


REFUSED: list[tuple[Any, str]] = [
    (int, "int has no fields to store; register takes enums, dataclasses"),
    (Abstract, "Abstract has no fields to store"),
    (Item("x", Decimal(1)), "register takes a class, not Item"),
    (list[Item], "register takes a class, not list"),
    (AbstractData, "is abstract, or derives from a built-in type"),
    (Failure, "is abstract, or derives from a built-in type"),
]


@pytest.mark.parametrize(("kind", "words"), REFUSED)
def test_what_cannot_be_declared_is_refused(kind: Any, words: str) -> None:
    """The message says why, and an annotation passes over the same."""
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        register(kind)
    register_annotation(kind)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_names_are_text(name: str) -> None:
    """A name that no store takes is refused."""
    with pytest.raises(ConfigError, match="A type's name is text"):
        register(Color, name=name)


class Odd:
    """A type whose JSON form pydantic does not take back."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        ser = core_schema.plain_serializer_function_ser_schema(str)
        return core_schema.is_instance_schema(cls, serialization=ser)


Root = RootModel[list[int]]


class Range(BaseModel, Generic[T]):
    start: T


@pydantic_dataclass
class Checked:
    when: date
    parent: Checked | None = None


def test_every_pydantic_form_is_stored() -> None:
    """Root models, generic models and pydantic's dataclasses come back too."""
    values = [Root([1]), Range[date](start=date(2026, 1, 2)), Checked(date(2026, 1, 2))]
    for kind in (Root, Range[date], Checked):
        register_annotation(kind)

    assert same(unpack(pack(values)), values)
    assert json_text(values) == '[[1],{"start":"2026-01-02"},{"when":"2026-01-02","parent":null}]'


def test_models_with_later_parts_are_stored() -> None:
    """A model that pydantic could not complete at first is stored once it is complete."""
    assert same(unpack(pack(Whole(part=Part(x=1)))), Whole(part=Part(x=1)))


@register
class Whole(BaseModel):
    part: Part


class Part(BaseModel):
    x: int


def test_what_pydantic_changes_is_not_stored() -> None:
    """What would come back masked, or not at all, is refused."""
    with pytest.raises(NotStorable, match=r"pydantic's JSON form of a .*Odd does not give it back"):
        pack(register(Odd)())

    class Login(BaseModel):
        password: SecretStr

    register_annotation(Login)
    with pytest.raises(
        NotStorable, match=r"value\.password: pydantic's JSON form of a .*SecretStr"
    ):
        pack(Login(password=SecretStr("hush")))
