"""Reading server-sent events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.providers._sse import SseReader


def read(*pieces: bytes) -> list[bytes]:
    """Return all payloads of a stream that came in these pieces."""
    reader = SseReader()
    payloads = [payload for piece in pieces for payload in reader.feed(piece)]
    return payloads + reader.end()


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: 1\n\ndata: 2\n\n", [b"1", b"2"]),
        (b"data:1\n\ndata:  2\n\n", [b"1", b" 2"]),
        (b": OPENROUTER PROCESSING\n\n:\n\ndata: 1\n\n:\n", [b"1"]),
        (b"event: ping\n\nevent: error\ndata: 1\n\n", [b"1"]),
        (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", [b"1", b"2"]),
        (b"event: a\ndata: 1\n\ndata: 2\ndata: 3\n\n", [b"1", b"2\n3"]),
        (b"event: a\ndata: 1\n\nevent: b\n\nevent: c\nid: 1\ndata: 2\n\n", [b"1", b"2"]),
        (b"id: 1\nretry: 10\ndata:1\n\n", [b"1"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"1", b"2"]),
        (b"data: 1\r\rdata: 2\r\r", [b"1", b"2"]),
        (b"data: 1\n\r\ndata: 2\r\n\n", [b"1", b"2"]),
        (b"data: 1\n\n\n\n\ndata: 2\n\n", [b"1", b"2"]),
        (b"data: 1\n\ndata: 2", [b"1", b"2"]),
        (b"data: 1\n\ndata: 2\n", [b"1", b"2"]),
        (b"\xef\xbb\xbfdata: 1\n\n", [b"1"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb", []),
        (b"data\ndata\n\n", [b"\n"]),
        (b"data:\n\ndata: \n\ndata\n\n", []),
        (b"data: 1\nnonsense\nother: x\n\n", [b"1"]),
        (b"<html>no stream</html>", []),
        (b"", []),
    ],
)
def test_the_grammar_is_followed(stream: bytes, payloads: list[bytes]) -> None:
    """BS-21: comments, other fields, line ends, a missing last blank line."""
    assert read(stream) == payloads
    assert read(*(stream[place : place + 1] for place in range(len(stream)))) == payloads
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == payloads


def test_only_line_ends_end_a_line() -> None:
    """BS-17: NEL, line separator, vertical tab and form feed are text, with every line end."""
    text = "✅ ok a\u2028b \u0085 \u2029 \x0b \x0c \x1c".encode()
    for end in (b"\n", b"\r\n", b"\r"):
        stream = b"data: " + text + end + end
        assert read(stream, stream) == [text, text]
        for cut in range(len(stream)):
            assert read(stream[:cut], stream[cut:]) == [text]


def test_a_split_character_is_not_touched() -> None:
    """BS-16: reads may end inside a character."""
    stream = "data: Zürich ✅ 東京\n\n".encode()
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == ["Zürich ✅ 東京".encode()]


def test_events_are_delivered_as_soon_as_they_are_whole() -> None:
    """An event is not held back until the next one comes."""
    reader = SseReader()
    assert reader.feed(b"data: 1\n\ndata: 2") == [b"1"]
    assert reader.feed(b"\n") == []
    assert reader.feed(b"\n") == [b"2"]
    assert reader.feed(b"data: 3\r\n\r") == [b"3"]
    assert reader.feed(b"\ndata: 4\r\n\r\n") == [b"4"]


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data: ", b"data", b": c", b"event: e", b"id: 1", b"", b"", b"x"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(
    lines=st.lists(st.tuples(LINES, ENDS)),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_any_split_gives_the_same_events(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    """Wherever reads end, the events are those that a plain reading of all lines gives."""
    stream = b"".join(line + end for line, end in lines)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert read(*pieces) == plainly_read(stream)


def plainly_read(stream: bytes) -> list[bytes]:
    """Return the payloads by the specification's own steps, from the whole stream."""
    payloads: list[bytes] = []
    data: list[bytes] = []
    text = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in [*text.split(b"\n"), b""]:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        if not line:
            payloads += [b"\n".join(data)] if b"\n".join(data) else []
            data = []
    return payloads


class Piece(bytes):
    """Bytes that count how many others are copied in front of them."""

    copied = 0

    def __radd__(self, other: bytes) -> bytes:
        Piece.copied += len(other)
        return bytes(other) + bytes(self)


@pytest.mark.parametrize("head", [b"data: ", b"event: a\ndata: ", b"id: 1\ndata:", b": c\n"])
@pytest.mark.parametrize("line", [b"x" * 40, b"x" * 39 + b"\n", b"data: " + b"x" * 33 + b"\n"])
def test_a_long_event_is_not_copied_with_every_read(head: bytes, line: bytes) -> None:
    """What came is kept in pieces: an event of many reads costs what it is long."""
    reader, payloads = SseReader(), list[bytes]()
    stream = head + line * 2_000 + b"\n\ndata: 2\n\n"
    Piece.copied = 0
    for place in range(0, len(stream), 40):
        payloads += reader.feed(Piece(stream[place : place + 40]))
    assert Piece.copied < 2 * len(stream)
    assert payloads == plainly_read(stream)
