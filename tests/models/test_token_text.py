"""How many tokens a text is taken to have."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.token_text import TOKEN, tokens_of_text, weigh

PROSE = (
    "The compaction policy decides before a call whether the history still fits in the window. "
    "When it does not, the oldest turns leave the view, and a short note stands in their place; "
    "the journal keeps every original, so that nothing which was said is ever lost.\n"
)
CODE = (
    "def wait_after(self, attempt: int, error: ModelError) -> float:\n"
    "    if error.retry_after is not None:\n"
    "        return min(error.retry_after, self.longest_wait)\n"
    "    return min(self.first_wait * 2.0**doublings, self.longest_wait)\n"
)
JSON = '{"id":17,"name":"Ada Lovelace","tags":["first","second"],"active":true,"score":0.75}'
BYTES = os.urandom(225_000)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (PROSE, 54),
        (CODE, 58),
        (JSON, 29),
        ("对话历史很长时，请先压缩旧的内容，再继续回答用户的问题。", 19),  # noqa: RUF001
        ("会話の履歴が長くなったら、古い部分を要約してください。", 20),
        ("Если история слишком длинная, сначала сократите старые сообщения.", 13),
        ("إذا كان السجل طويلا جدا فاختصر الرسائل القديمة أولا.", 17),
        ("대화 기록이 너무 길면 먼저 오래된 메시지를 요약하세요.", 16),
        ("2026-12-01 03:17:45 ERROR [worker-3] request id=84213 took 1532ms", 28),
    ],
)
def test_texts_of_many_kinds(text: str, counted: int) -> None:
    """Not far from what the tokenizer of GPT-4o counts, alone and many times over."""
    assert tokens_of_text(text) == pytest.approx(counted, rel=0.5)
    assert tokens_of_text(text * 50) == pytest.approx(counted * 50, rel=0.5)


def test_base64_is_near_a_token_for_a_group_of_characters() -> None:
    """300 KB of it are no 75,000 tokens, as they would be as words."""
    text = base64.b64encode(BYTES).decode()
    assert len(text) == 300_000
    assert 100_000 <= tokens_of_text(text) <= 250_000
    assert tokens_of_text(BYTES.hex()) > len(BYTES) // 2


@pytest.mark.parametrize(
    "text",
    ["\0", " ", "\n", "\ud800", "a", ".", "7", "é", "漢", "😀", "\u200b", "\x80", "\U0010ffff"],
)
def test_no_text_is_free(text: str) -> None:
    """Not even one that cannot be seen, or half a character."""
    assert tokens_of_text(text) >= 1
    assert tokens_of_text("") == weigh("") == 0


@given(st.text(st.characters(), max_size=60))
def test_any_text_has_some_tokens_and_not_absurdly_many(text: str) -> None:
    """Between none and four for a character."""
    assert bool(text) <= tokens_of_text(text) <= 4 * len(text)


@given(st.text(st.characters(), max_size=60), st.integers(1_000, 9_000))
def test_long_texts_count_as_their_pieces_do(text: str, times: int) -> None:
    """What is read in pieces comes out as if it were read at once, but for the seams."""
    once, many = weigh(text + "\n"), weigh((text + "\n") * times)
    assert many <= once * times + 10 * TOKEN
