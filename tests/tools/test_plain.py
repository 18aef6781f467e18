"""Plain parameters are treated without pydantic, and exactly as pydantic treats them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.adapter import Adapter
from treadle.tools.annotations import ABSENT, Field
from treadle.tools.decoder import ArgumentDecoder
from treadle.tools.plain import UNRECOGNISED, plain_type

SCALARS: list[Any] = [str, int, float, bool, None, Literal["a"], Literal["a", "b"], Literal[1, 2]]


def optional(kind: Any) -> Any:
    """Return the type or None."""
    return Optional[kind]  # noqa: UP045 built at run time


def list_of(kind: Any) -> Any:
    """Return a list of the type."""
    return list[kind]


def dict_of(kind: Any) -> Any:
    """Return a dict of the type."""
    return dict[str, kind]


def union_of(kinds: list[Any]) -> Any:
    """Return a union of types."""
    return Union[tuple(kinds)]  # noqa: UP007 built at run time


def wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return types made of other types."""
    makers: list[Callable[[Any], Any]] = [optional, list_of, dict_of]
    made: list[st.SearchStrategy[Any]] = [st.builds(make, inner) for make in makers]
    return st.one_of(*made, st.builds(union_of, st.lists(inner, min_size=1, max_size=3)))


types = st.recursive(st.sampled_from([*SCALARS, Any, list, dict]), wrapped, max_leaves=4)
leaves = st.sampled_from([None, True, False, 0, 1, 2, -1.5, 2.0, "a", "b", "1", "true", "", 2**60])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal and of the same types all the way down."""
    return repr(first) == repr(second)


@given(types, values)
def test_plain_is_what_pydantic_does(kind: Any, value: Any) -> None:
    """A value that is recognised as plain is one that pydantic accepts, with the same outcome."""
    plain = plain_type(kind)
    if plain is None:
        return
    adapter = Adapter([Field("x", kind)], ABSENT, {})
    converted = plain.convert(value)

    assert adapter.schema["properties"]["x"] == plain.schema
    if converted is not UNRECOGNISED:
        expected, problems = adapter.attempt({"x": value})
        assert problems == []
        assert same(converted, expected["x"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, "x"),
        (int, 10**30),
        (float, 1.5),
        (float, 5),
        (bool, True),
        (None, None),
        (Any, {"a": [1]}),
        (Literal["C", "F"], "C"),
        (list[int], [1, 2]),
        (dict[str, list[str]], {"a": ["b"]}),
        (int | None, None),
        (str | list[str], ["a"]),
    ],
    ids=str,
)
def test_plain_values_are_recognised(kind: Any, value: Any) -> None:
    """The usual types of tools need no pydantic for values that are right."""
    plain = plain_type(kind)

    assert plain is not None
    assert plain.convert(value) == value
    assert type(plain.convert(value)) is (float if kind is float else type(value))


@pytest.mark.parametrize(
    "kind",
    [
        set[int],
        bytes,
        Literal["a", 1],
        dict[int, str],
        list[set[int]],
        Annotated[int, []],
        complex,
        str | Any,
    ],
)
def test_other_types_are_left_to_pydantic(kind: Any) -> None:
    """Where a value may need converting there is no short way."""
    assert plain_type(kind) is None


def test_a_default_that_json_cannot_say() -> None:
    """Infinity is used as a default all the same, and not shown."""
    decoder = ArgumentDecoder(
        [Field("x", float, default=float("inf")), Field("y", float, default=1.5)]
    )

    assert decoder.decode({}) == {"x": float("inf"), "y": 1.5}
    json.dumps(decoder.schema, allow_nan=False)


def test_containers_are_copied() -> None:
    """What a tool does to a list does not change the call that is stored."""
    plain = plain_type(list[dict[str, int]])
    given_value = [{"a": 1}]

    assert plain is not None
    converted = plain.convert(given_value)
    assert converted == given_value
    assert converted is not given_value
    assert converted[0] is not given_value[0]


PROGRAM = """
import sys
from typing import Literal
from treadle.tools.signature import inspect_function

class Ctx: ...

def weather(
    ctx: Ctx, city: str, unit: Literal["C", "F"] = "C", days: list[int] | None = None
) -> str:
    "Weather in a city."
    return city

signature = inspect_function(weather, context_type=Ctx)
values = signature.decoder.decode({"city": "Oslo", "days": [1]})
assert values == {"city": "Oslo", "unit": "C", "days": [1]}, values
print("pydantic" in sys.modules, "docstring_parser" in sys.modules, "difflib" in sys.modules)
"""


def test_simple_tools_load_nothing() -> None:
    """A program whose tools are plain pays for neither pydantic nor the docstring parser."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)

    assert ended.stdout.decode().split() == ["False", "False", "False"]
