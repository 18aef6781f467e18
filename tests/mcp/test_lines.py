"""Messages are found in whatever a server prints, however it arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.mcp.lines import MOST_LINE, Lines, TooLong, messages_in

MESSAGE = b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "b"}}'


@pytest.mark.parametrize(
    "before", [b"", b"Loading...", b"{", b'{"a": 1}', b"\xff\xfe", b'{"jsonrpc', b"[1] ", b"\x00"]
)
def test_a_message_after_noise(before: bytes) -> None:
    """What stands before a message on its line does not hide it."""
    found, noise = messages_in(before + MESSAGE)
    assert [json.loads(each) for each in found] == [json.loads(MESSAGE)]
    assert noise == before


@pytest.mark.parametrize(
    "line", [b"hello", b"{}", b'{"level": "info"}', b"[]", b"[1]", b"null", b"\xff", b"{" * 10_000]
)
def test_lines_without_a_message(line: bytes) -> None:
    """JSON that is no JSON-RPC is noise as well."""
    assert messages_in(line) == ([], line)


@pytest.mark.parametrize("line", [b"", b"  ", b"\r"])
def test_empty_lines(line: bytes) -> None:
    """Nothing is nothing."""
    assert messages_in(line) == ([], b"")


def test_several_messages_in_one() -> None:
    """Older servers may send a list of messages."""
    found, _ = messages_in(b"[" + MESSAGE + b"," + MESSAGE + b"]")
    assert len(found) == 2


def test_bytes_that_are_no_text() -> None:
    """Broken UTF-8 inside a message costs the character, not the message."""
    found, _ = messages_in(MESSAGE.replace(b'"b"', b'"\xff"'))
    assert json.loads(found[0])["result"] == {"a": "\ufffd"}


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 7))
def test_lines_cut_anywhere(lines: list[bytes], size: int) -> None:
    """Lines come whole, however the bytes are cut."""
    whole = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    sent = b"".join(line + b"\r\n" for line in whole) + b"rest"
    reader, found = Lines(), list[bytes]()
    for start in range(0, len(sent), size):
        found += reader.feed(sent[start : start + size])
    assert (found, reader.rest()) == (whole, b"rest")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_value_in_a_message(value: Any) -> None:
    """A message comes as it was sent."""
    sent = {"jsonrpc": "2.0", "method": "x", "params": {"value": value}}
    found, noise = messages_in(json.dumps(sent).encode())
    assert (json.loads(found[0]), noise) == (sent, b"")


def test_a_line_without_end() -> None:
    """Memory has a bound."""
    reader = Lines()
    chunk = b"x" * (1024 * 1024)
    for _ in range(MOST_LINE // len(chunk)):
        assert list(reader.feed(chunk)) == []
    with pytest.raises(TooLong):
        list(reader.feed(b"x"))
