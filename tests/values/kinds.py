"""Classes of every kind that can be declared, and how values are compared in these tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple
from pydantic import BaseModel, ConfigDict, HttpUrl, PrivateAttr, field_validator

from treadle.values import register

NOTHING: Any = None


@register
class Color(Enum):
    RED = "red"
    MIXED = ("red", 1)


@register
class Level(IntEnum):
    LOW = 1
    HIGH = 2


@register
class Mood(StrEnum):
    FINE = auto()


@register
class Access(Flag):
    READ = auto()
    WRITE = auto()


@register
class Point(NamedTuple):
    x: int
    y: Any = 0


@register
@dataclass
class Item:
    name: str
    price: Decimal


@register
@dataclass(frozen=True, slots=True)
class Frozen:
    when: datetime | None
    colors: tuple[Color, ...] = ()


@register
@dataclass(kw_only=True)
class Order:
    id: int
    items: list[Item] = field(default_factory=list[Item])
    total: Decimal = field(init=False, compare=False)
    note: Any = None

    def __post_init__(self) -> None:
        self.total = sum((item.price for item in self.items), Decimal(0))
        self.items.append(Item("shipping", Decimal("4.90")))  # not what one should do

    @cached_property
    def names(self) -> list[str]:
        return [item.name for item in self.items]


@register
class Row(Struct, frozen=True, kw_only=True, tag="row", rename="camel"):
    row_id: int
    cells: tuple[Any, ...] = ()
    extra: str | UnsetType = UNSET


@register
class Tags(BaseModel):
    """A model whose validator does not take its own output."""

    model_config = ConfigDict(extra="allow", frozen=True)
    tags: list[str]
    page: HttpUrl | None = None
    level: Level = Level.LOW
    sloppy: int = NOTHING  # pydantic does not validate defaults
    _seen: set[int] = PrivateAttr(default_factory=set[int])

    @property
    def seen(self) -> set[int]:
        return self._seen

    @field_validator("tags", mode="before")
    @classmethod
    def split(cls, text: str) -> list[str]:
        return text.split(",")


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal and of the same type, and so is everything in them."""
    kind = left.__class__
    if kind is not right.__class__:
        return False
    if kind in (float, Decimal):
        return repr(left) == repr(right)  # tells nan, -0.0 and trailing zeros apart
    if kind is dict:
        return all_same(left.keys(), right.keys()) and all_same(left.values(), right.values())
    if issubclass(kind, list | tuple):
        return all_same(left, right)
    if is_dataclass(kind):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(kind))
    if issubclass(kind, Struct):
        return all_same(astuple(left), astuple(right))
    return left == right


def all_same(left: Iterable[Any], right: Iterable[Any]) -> bool:
    ones, others = list(left), list(right)
    return len(ones) == len(others) and all(map(same, ones, others))
