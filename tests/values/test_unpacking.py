"""What is stored is read back exactly or refused loudly: never as a dict, never by running it."""

from __future__ import annotations

import collections
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, defstruct
from pydantic import BaseModel, HttpUrl, PrivateAttr, create_model

from tests.values.kinds import NOTHING, Color, same
from treadle.errors import CorruptJournal, StoreError, UnknownType
from treadle.values import pack, register, unpack

CONTAINERS = ["type", "dict", "tuple", "set", "frozenset", "path"]
SCALARS = ["str", "int", "float", "bytes", "unset", "decimal", "uuid"]
TIMES = ["datetime", "date", "time", "timedelta"]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["tests.values.kinds:Item", "tests.values.kinds:Tags", "os:system", "UTC"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "v", "of", "zone", "fold", "name"]), inner)
        | st.fixed_dictionaries(
            {"$": st.sampled_from(CONTAINERS + SCALARS + TIMES), "v": inner},
            optional={
                "of": st.sampled_from(["tests.values.kinds:Item", "PosixPath"]) | inner,
                "zone": inner,
            },
        )
    ),
    max_leaves=10,
)


@given(ODD)
def test_any_data_is_read_or_refused(plain: Any) -> None:
    """Whatever a journal holds, reading it ends in a value or in one kind of error."""
    with suppress(StoreError):
        unpack(plain)


CORRUPT: list[Any] = [
    {"$": "tuple", "v": "abc"},
    {"$": "tuple"},
    {"$": "bytes", "v": "not base64!"},
    {"$": "int", "v": 12},
    {"$": "decimal", "v": "one"},
    {"$": "datetime", "v": "yesterday"},
    {"$": "datetime", "v": "2026-01-01T00:00:00", "zone": "../../etc/passwd"},
    {"$": "datetime", "v": "2026-01-01T00:00:00", "zone": [10, 0, 0]},
    {"$": "set", "v": [[]]},
    {"$": "dict", "v": [[1]]},
    {"$": "dict", "v": [[[], 1]]},
    {"$": "timedelta", "v": [10**12, 0, 0]},
    (1, 2),
    {"a": object()},
]


@pytest.mark.parametrize("plain", CORRUPT)
def test_what_pack_cannot_have_made_is_corrupt(plain: Any) -> None:
    """The error names the place."""
    with pytest.raises(CorruptJournal, match=r"^Cannot read key\['x'\]\[1\]"):
        unpack({"x": [0, plain]}, "key")


def in_list(plain: object) -> object:
    return [plain]


def in_dict(plain: object) -> object:
    return {"a": plain}


def in_tuple(plain: object) -> object:
    return {"$": "tuple", "v": [plain]}


def in_pair(plain: object) -> object:
    return {"$": "dict", "v": [[1, plain]]}


def in_point(plain: object) -> object:
    return {"$": "type", "of": "tests.values.kinds:Point", "v": {"x": plain, "y": 0}}


@pytest.mark.parametrize("wrap", [in_list, in_dict, in_tuple, in_pair, in_point])
def test_depth_is_bounded(wrap: Callable[[object], object]) -> None:
    """Data nested deeper than any value can be is refused."""
    plain: Any = 1
    for _ in range(201):
        plain = wrap(plain)

    with pytest.raises(CorruptJournal, match="more than 200 levels"):
        unpack(plain)


@pytest.mark.parametrize(
    ("plain", "type_name"),
    [
        ({"$": "type", "of": "os:system", "v": {"command": "true"}}, "os:system"),
        ({"$": "type", "of": "builtins:eval", "v": {}}, "builtins:eval"),
        ({"$": "quaternion", "v": [1, 2, 3, 4]}, "quaternion"),
        ({"$": "path", "of": "Path2", "v": "a"}, "Path2"),
        (
            {"$": "datetime", "v": "2026-01-01T00:00:00", "zone": "Atlantis/Center"},
            "Atlantis/Center",
        ),
    ],
)
def test_unknown_types_are_named(plain: Any, type_name: str) -> None:
    """BS-37: the error has the stored name, the place and the raw form; nothing is imported."""
    with pytest.raises(UnknownType) as caught:
        unpack({"a": [plain]}, "session::cart")

    assert caught.value.type_name == type_name
    assert caught.value.path == "session::cart['a'][0]"
    assert caught.value.raw == plain
    assert "session::cart['a'][0]" in str(caught.value)


def test_reading_runs_nothing_of_the_class() -> None:
    """A declared class is not called when it is read back."""
    calls: list[str] = []

    @register
    @dataclass
    class Loud:
        x: int

        def __post_init__(self) -> None:
            calls.append("post_init")

    plain: Any = pack(Loud(1))
    calls.clear()

    assert type(unpack(plain)) is Loud
    assert calls == []


def dataclass_of(**fields: Any) -> Any:
    return make_dataclass(
        "Version",
        [(n, k) if d is ... else (n, k, field(default=d)) for n, (k, d) in fields.items()],
    )


def struct_of(**fields: Any) -> Any:
    return defstruct("Version", [(n, k) if d is ... else (n, k, d) for n, (k, d) in fields.items()])


def tuple_of(**fields: Any) -> Any:
    defaults = [default for _, default in fields.values() if default is not ...]
    factory: Any = collections.namedtuple
    return factory("Version", fields, defaults=defaults)


def model_of(**fields: Any) -> Any:
    return create_model("Version", **fields)


KINDS = pytest.mark.parametrize("make", [dataclass_of, struct_of, tuple_of, model_of])


@KINDS
def test_a_renamed_class_is_missed_loudly(make: Any) -> None:
    """BS-37: the class is gone; the error tells how to give its successor the old name."""
    order = register(make(id=(int, ...)), name=f"shop.{make.__name__}.Order")
    plain: Any = pack(order(id=1))
    gone = plain["of"] = f"shop.{make.__name__}.Gone"

    with pytest.raises(UnknownType, match=rf"register\(\.\.\., name='{gone}'\)"):
        unpack(plain)

    successor = register(make(id=(int, ...)), name=gone)
    assert same(unpack(plain), successor(id=1))


@KINDS
def test_added_fields_take_their_default(make: Any) -> None:
    """A class may gain fields that have a default; one without is an error that names it."""
    plain: Any = pack(register(make(a=(int, ...)), name=f"evolving.{make.__name__}")(a=1))

    richer = register(make(a=(int, ...), b=(str, "new")), name=f"evolving.{make.__name__}")
    assert same(unpack(plain), richer(a=1, b="new"))

    register(make(a=(int, ...), c=(str, ...)), name=f"evolving.{make.__name__}")
    with pytest.raises(UnknownType, match=r"does not fit .*Version any more.*'?c'?") as caught:
        unpack([plain], "cart")
    assert caught.value.path == "cart[0]"
    assert caught.value.raw == plain


@KINDS
def test_removed_fields_are_not_dropped(make: Any) -> None:
    """A stored field that the class no longer has would be lost: it is an error."""
    plain: Any = pack(
        register(make(a=(int, ...), b=(int, ...)), name=f"shrinking.{make.__name__}")(a=1, b=2)
    )
    register(make(a=(int, ...)), name=f"shrinking.{make.__name__}")

    with pytest.raises(UnknownType, match="it has no field 'b' any more"):
        unpack(plain)


def test_added_containers_are_new_each_time() -> None:
    """A default that a factory makes is made for each value."""
    first: Any = make_dataclass("Bag", [("a", int)])
    plain = pack(register(first)(1))
    bag = make_dataclass("Bag", [("a", int), ("b", list[int], field(default_factory=list[int]))])
    register(bag)

    one, other = unpack([plain, plain])

    assert (one.a, one.b) == (1, [])
    assert one.b is not other.b


def test_a_changed_model_keeps_what_was_never_set() -> None:
    """Defaults are not validated, before a change of the class and after it."""
    plain = pack(register(model_of(a=(int, NOTHING)), name="defaulted")())
    register(model_of(a=(str, NOTHING)), name="defaulted")

    assert unpack(plain).a is None


@register
class Open(BaseModel):
    """A model that is read before pydantic could complete it."""

    x: Ajar


class Ajar(BaseModel):
    y: int


def test_an_incomplete_model_is_completed_by_the_read() -> None:
    """A model whose parts were defined after it is read like any other."""
    closed = register(model_of(x=(Ajar, ...)), name="closed")
    plain: Any = pack(closed(x=Ajar(y=1)))
    plain["of"] = "tests.values.test_unpacking:Open"

    assert same(unpack(plain), Open(x=Ajar(y=1)))


def test_a_changed_model_is_validated() -> None:
    """BS-37: what pydantic accepts becomes the new type; what it refuses is an error."""
    plain: Any = pack(
        register(model_of(id=(int, ...), price=(str, ...)), name="priced")(id=7, price="1.10")
    )

    register(model_of(id=(int, ...), price=(Decimal, ...)), name="priced")
    assert same(unpack(plain).price, Decimal("1.10"))

    register(model_of(id=(list[int], ...), price=(str, ...)), name="priced")
    with pytest.raises(UnknownType, match="its field 'id' does not validate: Input should be a"):
        unpack(plain)


def test_added_private_attributes_take_their_default() -> None:
    """A model that gained private attributes has them after a read."""

    class Old(BaseModel):
        x: int = 1

    class New(BaseModel):
        x: int = 1
        _seen: list[int] = PrivateAttr(default_factory=list[int])
        _place: list[str] = PrivateAttr(["here"])
        _unset: int = PrivateAttr()

        def taken(self) -> tuple[list[int], list[str]]:
            return self._seen, self._place

    plain: Any = pack(register(Old, name="tests:seen")())
    register(New, name="tests:seen2")
    plain["of"] = "tests:seen2"

    assert unpack(plain) == New()
    assert unpack(plain).taken() == ([], ["here"])
    assert unpack(plain).model_fields_set == set()


def test_a_custom_type_that_refuses_is_an_error() -> None:
    """What pydantic cannot read back names the type, like everything else that no longer fits."""
    plain: Any = pack(register(HttpUrl)("https://x.org"))
    plain["v"]["json"] = "no url"

    with pytest.raises(UnknownType, match=r"does not fit pydantic\.networks\.HttpUrl any more"):
        unpack(plain)


def test_enum_members_are_checked() -> None:
    """A member that the Enum no longer has is an error, not its name."""
    plain: Any = pack(Color.RED)
    assert plain == {"$": "type", "of": "tests.values.kinds:Color", "v": {"name": "RED"}}

    with pytest.raises(UnknownType, match="it has no member 'GREEN'"):
        unpack({**plain, "v": {"name": "GREEN"}})


def test_a_value_changed_by_its_own_code_is_put_right() -> None:
    """A Struct's `__post_init__` runs when it is read back, and what was stored wins."""

    @register
    class Counter(Struct):
        n: int

        def __post_init__(self) -> None:
            self.n += 1

    assert unpack(pack(Counter(1))).n == 2


def test_plain_values_never_load_pydantic() -> None:
    """Values without pydantic do not bring it in."""
    program = (
        "import sys, dataclasses, enum\n"
        "from treadle.values import *\n"
        "@register\n@dataclasses.dataclass\nclass P:\n    x: int\n"
        "register_annotation(dict[str, list[P] | None])\n"
        "assert unpack(pack([P(1), {1.5}])) == [P(1), {1.5}]\n"
        "assert json_text([P(1)]) == '[{\"x\":1}]'\n"
        "assert not {m for m in sys.modules if m.startswith('pydantic')}\n"
    )
    subprocess.run([sys.executable, "-I", "-c", program], check=True)
