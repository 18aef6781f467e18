"""Argument text: what counts as an object, what is repaired, and what the model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ToolError
from treadle.tools.arguments import MOST_PROBLEMS, Problem, arguments_invalid, show
from treadle.tools.signature import ArgumentsInvalid, parse_arguments

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("raw", ["", "  ", "\n\t", "null", " null ", "{}", " {} "])
def test_nothing_means_no_arguments(raw: str) -> None:
    """Empty, blank and null arguments are an empty object (BS-02)."""
    assert parse_arguments(raw) == {}


@given(st.dictionaries(text, json_values, max_size=4))
def test_every_object_is_read_as_json_reads_it(value: dict[str, Any]) -> None:
    """Whatever JSON can say comes through unchanged."""
    assert parse_arguments(json.dumps(value)) == value
    assert parse_arguments(json.dumps(value, ensure_ascii=False)) == value


@pytest.mark.parametrize(
    "number", [0, -1, 2**53 + 1, 2**63, 2**64, -(2**64), 10**30, 10**400], ids=lambda n: len(str(n))
)
def test_integers_keep_every_digit(number: int) -> None:
    """No integer becomes a float on the way."""
    value = parse_arguments(f'{{"n": {number}}}')["n"]

    assert value == number
    assert type(value) is int


def test_floats_stay_floats() -> None:
    """5.0 is not made 5."""
    assert type(parse_arguments('{"n": 5.0}')["n"]) is float


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"city": "San Fra', ["character 9", "San Fra"]),
        ('{"text": "say "hi" 你好"}', ["character 15", "delimiter"]),
        ('{"a":1}{"b":2}', ["character 7", "Extra data"]),
        ("{'a': 1}", ["character 1", "double quotes"]),
        ('{"a": NaN}', ["NaN is not a JSON number"]),
        ('{"a": -Infinity}', ["-Infinity is not a JSON number"]),
        ('{"a": 1e999}', ["1e999", "not a JSON number"]),
        (f'{{"a": {"9" * 5000}}}', ["digits"]),
        ("[" * 100_000, ["nested too deeply"]),
        ("not json", ["character 0", "not json"]),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_broken_json_says_where(raw: str, words: list[str]) -> None:
    """The model is told the place and the reason, and nothing is guessed (BS-01, BS-02)."""
    with pytest.raises(ArgumentsInvalid) as caught:
        parse_arguments(raw)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert len(message) < 400


@pytest.mark.parametrize("raw", ["[1, 2]", "5", "true", '"text"', '"[1]"', '"{"'])
def test_other_json_is_refused(raw: str) -> None:
    """Only an object can be arguments; the message shows what came instead."""
    with pytest.raises(ArgumentsInvalid, match="must be one JSON object"):
        parse_arguments(raw)


def test_an_object_encoded_twice_is_decoded_twice() -> None:
    """Some models send the object as a JSON string."""
    assert parse_arguments(json.dumps(json.dumps({"city": "Oslo"}))) == {"city": "Oslo"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (r'{"a\u0000b": ["x\u0000", {"c": "\u0000"}]}', {"a\ufffdb": ["x\ufffd", {"c": "\ufffd"}]}),
        (r'{"a": "\ud800 alone"}', {"a": "\ufffd alone"}),
        (r'{"a": "\ud83d\ude00"}', {"a": "😀"}),
        ('{"a": "\ud800"}', {"a": "\ufffd"}),
        ('{"a": "\ud83d\ude00"}', {"a": "😀"}),
        ('{"a": "\0"}', {"a": "\ufffd"}),
        (r'{"a": "\\u0000"}', {"a": r"\u0000"}),
    ],
)
def test_text_is_cleaned(raw: str, expected: dict[str, Any]) -> None:
    """NUL and lone surrogates are replaced in keys and values; pairs and literal text stay."""
    assert parse_arguments(raw) == expected


def test_the_last_of_repeated_keys_counts() -> None:
    """As in every JSON reader that keeps one."""
    assert parse_arguments('{"a": 1, "a": 2}') == {"a": 2}


def test_invalid_arguments_are_a_tool_error() -> None:
    """The text is for the model, so the error is of the kind whose text goes to it."""
    assert issubclass(ArgumentsInvalid, ToolError)
    assert issubclass(ArgumentsInvalid, ValueError)


def test_values_without_json_form_are_shown() -> None:
    """A Python value that a caller put in is shown as Python does."""
    assert show(complex(1, 2)) == "(1+2j)"
    assert show(10**40) == "1" + "0" * 40
    assert show("x" * 1000).endswith("...")


def test_many_problems_are_cut() -> None:
    """A thousand wrong items do not fill the context."""
    problems = [Problem(("items", index), "expected integer", '"x"') for index in range(1000)]

    error = arguments_invalid(problems, {"properties": {"items": {"type": "array"}}})

    assert f"and {1000 - MOST_PROBLEMS} more" in str(error)
    assert len(error.problems) == 1000
    assert "- items[3]: expected integer" in str(error)
    assert "Parameters: items (array)" in str(error)
