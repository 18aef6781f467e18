"""Pages of a long text: none is too long, none cuts a character, and together they are all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ToolError
from treadle.tools.pages import bytes_of, found_in, head_of, lines_of, tail_of

texts = st.text(st.sampled_from("aé€😀\n\r\t b"), max_size=300).map(str.encode)


@given(texts, st.integers(0, 400))
def test_ends_of_a_text(content: bytes, room: int) -> None:
    """Both fit, are really its ends, and whole lines are counted right."""
    for end, _ in (head_of(content, room), tail_of(content, room)):
        assert len(end.encode()) <= room
    head, lines = head_of(content, room)
    assert content.startswith(head.encode())
    if lines:
        assert content[len(head.encode()) :].startswith(b"\n")
        assert head.count("\n") == lines - 1
    tail, lines = tail_of(content, room)
    assert content.endswith(tail.encode())
    if lines:
        assert content[: len(content) - len(tail.encode())].endswith(b"\n")
        total = content.count(b"\n") + (not content.endswith(b"\n"))
        before = content[: len(content) - len(tail.encode())].count(b"\n")
        assert lines == total - before


@given(texts.filter(bool), st.integers(210, 300), st.none() | st.integers(1, 20))
def test_pages_of_bytes_are_the_text(content: bytes, most: int, count: int | None) -> None:
    """Reading on from what each page says, nothing is left out, repeated or cut."""
    whole, start = b"", 1
    for _ in range(2_000):
        page = bytes_of(content, start, count, most)
        assert len(page.encode()) <= most
        heading, _, text = page.partition("\n")
        text = re.sub(r"\n\[byte \d+ is next\]$", "", text)
        found = re.match(r"\[bytes (\d+) to (\d+) of (\d+)\]", heading)
        assert found is not None
        assert (int(found[1]), int(found[3])) == (start, len(content))
        whole, start = whole + text.encode(), int(found[2]) + 1
        if start > len(content):
            break
    assert whole == content


@given(
    st.lists(st.text(st.sampled_from("aé€ "), max_size=12), min_size=1, max_size=60),
    st.integers(220, 300),
    st.none() | st.integers(1, 9),
)
def test_pages_of_lines_are_the_text(rows: list[str], most: int, count: int | None) -> None:
    """Reading on from what each page says, every line comes once and in order."""
    content = "\n".join(rows).encode()
    total = content.count(b"\n") + (not content.endswith(b"\n"))
    seen: list[str] = []
    start = 1
    while start <= total:
        page = lines_of(content, start, count, 2 * most)
        heading, _, text = page.partition("\n")
        found = re.match(r"\[lines (\d+) to (\d+) of (\d+)\]", heading)
        assert found is not None
        assert (int(found[1]), int(found[3])) == (start, total)
        text = re.sub(r"\n\[line \d+ is next\]$", "", text)
        seen += text.split("\n")
        start = int(found[2]) + 1
        assert len(seen) == start - 1
        assert len(page.encode()) <= 2 * most
    assert "\n".join(seen).encode() == content.removesuffix(b"\n")


def test_a_line_that_is_too_long_for_a_page() -> None:
    """Its beginning is shown, and how to read on by bytes."""
    content = b"short\n" + "é".encode() * 1_000 + b"\nlast"
    page = lines_of(content, 2, None, 1_000)
    assert len(page.encode()) <= 1_000
    assert page.startswith("[line 2 of 3 is long; its beginning]\né")
    start = int(re.search(r"start=(\d+)", page)[1])  # type: ignore[index]
    rest = bytes_of(content, start, None, 4_000)
    shown = page.split("\n")[1]
    assert shown + rest.split("\n")[1] == "é" * 1_000
    assert lines_of(content, 3, None, 1_000) == "[lines 3 to 3 of 3]\nlast"
    assert lines_of(content, 1, 1, 1_000) == "[lines 1 to 1 of 3]\nshort\n[line 2 is next]"


def test_lines_with_a_text() -> None:
    """Numbered, to be read on by line; small letters find capital ones, capital ones only those."""
    rows = (f"{'Error' if n % 3 == 0 else 'fine'} {n}" for n in range(1, 1_001))
    content = "\n".join(rows).encode()
    page = found_in(content, "error", 1, 2, 4_000)
    assert page == "[333 lines have it]\n3: Error 3\n6: Error 6\n[more from line 9 on: start=9]"
    hundreds = [f"{n}: Error {n}" for n in range(900, 1_000, 3)]
    assert found_in(content, "Error 9", 900, None, 4_000) == "\n".join(
        [f"[{len(hundreds)} lines have it from line 900 on]", *hundreds]
    )
    assert found_in(content, "ERROR", 1, None, 4_000) == "[no line has 'ERROR']"
    assert "[1 line has it]" in found_in(content, "1000", 1, None, 4_000)
    capped = found_in(content, "e", 1, None, 1_000)
    assert len(capped.encode()) <= 1_000
    assert "[1000 lines have it]" in capped
    after = int(re.search(r"start=(\d+)", capped)[1])  # type: ignore[index]
    assert capped.count("\n") == after


@pytest.mark.parametrize("filler", ["x", "é", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("most", [1_000, 1_500, 40_000])
def test_reading_on_from_what_was_found_comes_to_an_end(filler: str, most: int) -> None:
    """Each page has one line at least, however many bytes its characters take."""
    content = "\n".join(f"{filler * 300}here" for _ in range(20)).encode()
    start, seen = 1, list[int]()
    while start:
        page = found_in(content, "here", start, None, most)
        numbers = [int(row.partition(":")[0]) for row in page.splitlines() if "here" in row]
        assert numbers
        assert len(page.encode()) <= most
        seen += numbers
        following = re.search(r"start=(\d+)\]$", page)
        start = int(following[1]) if following else 0
    assert seen == list(range(1, 21))


def test_what_is_found_in_a_long_line() -> None:
    """Only what is around it is shown."""
    content = ("x" * 10_000 + "NEEDLE" + "y" * 10_000).encode()
    page = found_in(content, "NEEDLE", 1, None, 4_000)
    assert "...xxx" in page
    assert "NEEDLE" in page
    assert page.endswith("yyy...")
    assert len(page) < 400


def test_places_that_are_not_there() -> None:
    """The model is told how long the text is."""
    with pytest.raises(ToolError, match="There is no line 4: the last is 3"):
        lines_of(b"a\nb\nc\n", 4, None, 1_000)
    with pytest.raises(ToolError, match="There is no byte 6: the last is 5"):
        bytes_of(b"abcde", 6, None, 1_000)
    assert bytes_of("€".encode(), 2, 1, 1_000) == "[bytes 1 to 3 of 3]\n€"
