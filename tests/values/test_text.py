"""Text that no store or provider takes is cleaned, and all other text is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.values import clean

ANY = st.text(st.characters(codec=None) | st.sampled_from("\0\ud83d\ude00\udcc1\U0001f600"))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("ok \ud83d end", "ok \ufffd end"),
        ("hi \udcc1", "hi \ufffd"),
        ("\ud800", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00!", "\U0001f600!"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("a\0b", "a\ufffdb"),
        ("ä\0\udfff", "ä\ufffd\ufffd"),
        ("\\u0000 \\ud800", "\\u0000 \\ud800"),
    ],
)
def test_bad_characters_are_replaced(text: str, cleaned: str) -> None:
    """BS-14, BS-38: NUL and lone surrogates become U+FFFD, halves of a pair are joined."""
    assert clean(text) == cleaned


@given(ANY)
def test_clean_text_can_be_encoded(text: str) -> None:
    """Cleaning gives valid UTF-8 without NUL, and a second time changes nothing."""
    cleaned = clean(text)

    assert b"\0" not in cleaned.encode()
    assert clean(cleaned) is cleaned


@pytest.mark.parametrize("text", ["", "plain", "wörld \U0001f600", "\ufffd", "\t\r\n\x7f\u2028"])
def test_good_text_is_the_same_object(text: str) -> None:
    """Nothing is copied when nothing is wrong."""
    assert clean(text) is text
