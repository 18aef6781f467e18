"""The ends of an output, within its bytes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.builtin.excerpt import Excerpt

NOTE = re.compile(r"\n\[\.\.\. (\d+) bytes in all, (\d+) in the middle are left out \.\.\.\]\n")


def shown(pieces: list[bytes], most: int) -> str:
    """Return the excerpt of an output that arrives in pieces."""
    excerpt = Excerpt(most)
    for piece in pieces:
        excerpt.add(piece)
    return excerpt.text()


@given(st.lists(st.binary(max_size=3000), max_size=12), st.integers(1000, 3000))
def test_it_never_exceeds_its_bytes(pieces: list[bytes], most: int) -> None:
    """Whatever arrives, and in whatever pieces."""
    text = shown(pieces, most)

    assert len(text.encode()) <= most
    assert shown([b"".join(pieces)], most) == text


@given(st.text(max_size=2000), st.integers(1000, 8000))
def test_what_fits_is_whole(text: str, most: int) -> None:
    """A text within the limit is not touched."""
    encoded = text.encode()

    if len(encoded) <= most:
        assert shown([encoded], most) == text


@pytest.mark.parametrize("most", [1000, 1200, 40_000])
def test_head_and_tail_are_kept(most: int) -> None:
    """Between them stands how many bytes are missing; they have the rest of the room."""
    text = shown([b"head" + b"x" * 100_000, b"y" * 100_000 + b"tail"], most)

    found = NOTE.search(text)
    assert found is not None
    head, tail = text[: found.start()], text[found.end() :]
    assert head.startswith("headxxx")
    assert tail.endswith("yyytail")
    assert int(found[1]) == 200_008
    assert int(found[2]) == 200_008 - len(head) - len(tail)
    assert most - 10 <= len(text) <= most
    assert abs(len(head) - len(tail)) <= 1


def test_with_little_room_it_is_mostly_the_head() -> None:
    """The beginning of an error says more than its end."""
    text = shown([b"x" * 5000 + b"y" * 5000], 500)

    assert text.count("x") > 2 * text.count("y") > 0
    assert len(text) <= 500


def test_no_character_is_cut() -> None:
    """Neither at the end of the head nor at the beginning of the tail."""
    for shift in range(4):
        text = shown([b"x" * shift + "€".encode() * 3000], 1000)
        assert "\ufffd" not in text
        assert "?" not in text


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    """In one byte each, where three would be too much."""
    assert shown([b"a\xff"], 1000) == "a\ufffd"
    assert shown([b"\xff" * 1000], 1000) == "?" * 1000
