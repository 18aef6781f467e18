"""Entries as bytes and back: nothing is lost, and what is new here is passed over there."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import CorruptJournal, NotStorable
from treadle.journal import (
    AnyEntry,
    CallEnded,
    MessageAdded,
    MessageQueued,
    ModelReplied,
    RunBegan,
    UnknownEntry,
    ViewReset,
)
from treadle.messages import Audio, File, Image, Message, Part, Text, ToolResult
from treadle.stores.codec import (
    LARGE,
    decode_batch,
    digest_of,
    digests_in,
    encode_batch,
    with_media,
)
from treadle.testing.store_handles import AT, began, queued, said

PNG = b"\x89PNG\r\n\x1a\n"


def made(content: bytes | None, url: str | None, kind: int) -> Image | Audio | File:
    """Return a medium of some kind; one with neither is a File with a URL."""
    if kind == 0:
        return Image(url=url, content=content, media_type="image/png")
    if kind == 1:
        return Audio(url=url, content=content, media_type="audio/wav")
    return File(url=url or "https://example.org/a", content=content, media_type="text/plain")


def result_of(parts: list[Text | Image | Audio | File]) -> ToolResult:
    """Return a tool's result of these parts."""
    return ToolResult("c1", "look", tuple(parts))


def message_of(part: Part) -> Message:
    """Return a message of one part."""
    return Message("tool" if isinstance(part, ToolResult) else "user", (part,))


def entry_of(kind: int, said: list[Message], links: list[ToolResult]) -> AnyEntry:
    """Return an entry of one of the kinds that have messages."""
    first = said[0]
    kinds: list[AnyEntry] = [
        MessageAdded(run_id="r", at=AT, message=first),
        ModelReplied(run_id="r", at=AT, message=first),
        MessageQueued(run_id="", at=AT, id="q", message=first),
        RunBegan(run_id="r", at=AT, agent="a", input=first, history=tuple(said[1:])),
        RunBegan(run_id="r", at=AT, agent="a", history=tuple(said)),
        ViewReset(run_id="r", at=AT, messages=tuple(said)),
        CallEnded(run_id="r", at=AT, result=links[0], links=tuple(links[1:])),
    ]
    return kinds[kind]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(Text)
contents = st.binary(max_size=30) | st.integers(LARGE - 20, LARGE + 20).map(lambda n: b"x" * n)
digests = contents.map(digest_of).map("blob:sha256:{}".format)
urls = st.sampled_from(["https://example.org/x.png", "blob:sha256:", "blob:"]) | digests
media = st.builds(made, contents, st.none(), st.integers(0, 2)) | st.builds(
    made, st.none(), urls, st.integers(0, 2)
)
results = st.lists(texts | media, max_size=3).map(result_of)
messages = (texts | media | results).map(message_of)
entries = st.builds(
    entry_of,
    st.integers(0, 6),
    st.lists(messages, min_size=1, max_size=3),
    st.lists(results, min_size=1, max_size=3),
)


@given(st.lists(entries, max_size=4))
def test_what_is_written_comes_back(batch: list[AnyEntry]) -> None:
    """BS-37, BS-40: equal, with large media beside it by their digests."""
    data, kept = encode_batch(batch)
    assert b"\n" not in data
    assert len(data) < 40_000
    assert all(digest == digest_of(content) for digest, content in kept.items())
    light = decode_batch(data, "here", 1)
    assert digests_in(light) == set(kept)
    assert with_media(light, kept) == tuple(batch)


def test_a_newer_version_adds_kinds_and_fields() -> None:
    """J11: unknown kinds keep their place and name; unknown fields are passed over."""
    data, _ = encode_batch([said("a"), queued("b")])
    first, second = json.loads(data)
    newer = {"type": "brand.new", "run_id": "r", "at": first["at"], "path": "b#1", "x": [1]}
    batch = decode_batch(msgspec.json.encode([{**first, "later": {}}, newer, second]), "here", 1)
    assert batch[0] == said("a")
    assert batch[1] == UnknownEntry(run_id="r", at=AT, path="b#1", kind="brand.new")
    assert batch[2] == queued("b")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"{}", b"[1]", b'[{"type":"run.began"}]', b'["x"]', b"\xff", b'[{"run_id":1}]'],
)
def test_what_cannot_be_read_is_named(data: bytes) -> None:
    """W8: with the place and its beginning."""
    with pytest.raises(CorruptJournal, match="conversation c: revision 3 cannot be read"):
        decode_batch(data, "conversation c", 3)


def test_media_that_are_missing_are_named() -> None:
    """By their digest."""
    picture = Image.from_bytes(PNG + b"x" * LARGE, "image/png")
    data, kept = encode_batch([MessageAdded(run_id="r", at=AT, message=Message.user(picture))])
    (digest,) = kept
    with pytest.raises(CorruptJournal, match=digest):
        with_media(decode_batch(data, "here", 1), {})


def test_what_has_no_form_is_refused() -> None:
    """Half a character is no text."""
    odd: dict[str, Any] = {"x": object()}
    began_so = msgspec.structs.replace(began("r"), metadata=odd)
    for entry in (queued("\ud800"), began_so):
        with pytest.raises(NotStorable):
            encode_batch([entry])
