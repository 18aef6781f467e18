"""Calls told from text, however the text is cut."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.providers.local.calls import CallBegan, CallReader, CallWent, Said

ONE = '{"name": "add", "arguments": {"a": 1, "b": "}{\\"]"}}'
TWO = ONE + '\n{"name": "now", "arguments": {}}'


def read(pieces: Iterable[str], names: Iterable[str] = ("add", "now", "add_all")) -> object:
    """Return the text of a reply and its calls, put together."""
    reader = CallReader(names)
    text, calls = "", dict[int, list[str]]()
    for piece in [found for part in pieces for found in reader.feed(part)] + [*reader.finish()]:
        match piece:
            case Said(text=more):
                text += more
            case CallBegan(place=place, name=name):
                calls[place] = [name, ""]
            case CallWent(place=place, arguments=more):
                calls[place][1] += more
    return text, [tuple(call) for call in calls.values()]


def test_a_call_is_read() -> None:
    """Its arguments are passed on as they were written."""
    assert read([ONE]) == ("", [("add", '{"a": 1, "b": "}{\\"]"}')])


def test_several_calls_are_read() -> None:
    """Each has its place."""
    assert read([TWO]) == ("", [("add", '{"a": 1, "b": "}{\\"]"}'), ("now", "{}")])


@given(st.lists(st.integers(0, len(TWO)), max_size=12))
def test_any_cut_gives_the_same_calls(cuts: list[int]) -> None:
    """Pieces may end anywhere, inside a name or an escape too."""
    places = [0, *sorted(cuts), len(TWO)]
    pieces = [TWO[start:end] for start, end in pairwise(places)]

    assert read(pieces) == read([TWO])


@given(st.text(max_size=40), st.integers(0, 40))
def test_text_is_passed_on_whole(text: str, cut: int) -> None:
    """Whatever is no call comes out as it went in."""
    assert read([text[:cut], text[cut:]]) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "unknown", "arguments": {}}',
        '{"name": "ad',
        '{"answer": 3}',
        'Use {"name": "add", "arguments": {}} for that.',
        "",
    ],
)
def test_what_only_looks_like_a_call_is_text(text: str) -> None:
    """Text can never forge a call: it begins with one of an offered function, or is none."""
    assert read([*text]) == (text, [])


def test_a_call_that_was_cut_off_has_what_came() -> None:
    """Whoever reads it sees that its arguments are no JSON."""
    assert read(['{"name": "add", "arguments": {"a": [1']) == ("", [("add", '{"a": [1')])


def test_without_functions_everything_is_text() -> None:
    """Nothing is held back."""
    assert [*CallReader(()).feed("{")] == [Said("{")]
