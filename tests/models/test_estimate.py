"""How many tokens a request is taken to have."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Agent, Limits, Message, ModelRequest, ModelSettings
from treadle.messages import (
    Audio,
    Citation,
    File,
    Hosted,
    Image,
    Part,
    Reasoning,
    Text,
    Thread,
    ToolCall,
    ToolResult,
)
from treadle.models.estimate import estimate_input
from treadle.models.estimate_media import size_of, tokens_of
from treadle.ports.model import OutputSchema, ToolSpec
from treadle.testing import ScriptedModel

WORDS = "word " * 20_000
"""About 20,000 tokens."""
LONG = {"x": WORDS}


def estimated(*parts: Part, **fields: Any) -> int:
    """Of one message with these parts."""
    return estimate_input(ModelRequest(messages=Thread([Message("user", parts)]), **fields))


@pytest.mark.parametrize(
    "part",
    [
        Text(WORDS),
        Text("", LONG),
        Text("", citations=(Citation(text=WORDS),)),
        ToolCall("1", "f", f'{{"a":"{WORDS}"}}'),
        ToolCall("1", "f", provider=LONG),
        ToolResult("1", "f", (Text(WORDS),)),
        ToolResult("1", "f", (File.from_bytes(WORDS.encode(), "text/plain"),)),
        ToolResult("1", "f", provider=LONG),
        Reasoning(WORDS),
        Reasoning(signature=WORDS),
        Reasoning(redacted=WORDS),
        Reasoning(provider=LONG),
        Hosted("web_search", LONG),
        File.from_bytes(WORDS.encode(), "text/plain"),
        File.from_bytes(WORDS.encode(), "application/json"),
        File.from_bytes(WORDS.encode(), "application/octet-stream"),
        Audio.from_bytes(b"x", "audio/wav", transcript=WORDS),
        Image.from_bytes(b"x", "image/png", provider=LONG),
    ],
)
def test_whatever_is_sent_counts(part: Part) -> None:
    """By its bytes, in any part of a message."""
    assert 20_000 < estimated(part) < 60_000


@pytest.mark.parametrize(
    "fields",
    [
        {"system": WORDS},
        {"tools": (ToolSpec("f", WORDS, {}),)},
        {"tools": (ToolSpec("f", "", LONG),)},
        {"output": OutputSchema("r", LONG)},
        {"settings": ModelSettings(extra_body=LONG)},
    ],
)
def test_what_stands_beside_the_messages_counts(fields: dict[str, Any]) -> None:
    """Instructions, tools, schemas, and what a user adds to the body."""
    assert 20_000 < estimated(Text("x"), **fields) < 60_000


def test_what_a_message_carries_for_its_provider_counts() -> None:
    """It goes back with it."""
    thread = Thread([Message("assistant", (Text("x"),), LONG)])
    assert estimate_input(ModelRequest(messages=thread)) > 20_000


@given(st.text(st.characters(), max_size=20))
def test_any_text_can_be_counted(text: str) -> None:
    """Halves of surrogate pairs too, wherever they stand."""
    opaque = {"p": {text: text}}
    parts = (
        *(Text(text, opaque), Reasoning(text, text, text), Hosted(text, opaque)),
        *(ToolCall("1", text, text), ToolResult("1", "f", (Text(text),))),
    )
    schema = {"description": text}
    assert estimated(
        *parts,
        system=text,
        tools=(ToolSpec("f", text, schema),),
        output=OutputSchema("r", schema),
        settings=ModelSettings(extra_body=schema),
    ) >= len(text)


def test_letters_of_many_bytes_are_a_token_each() -> None:
    """Chinese is counted no lower than its characters."""
    assert estimated(Text("漢字" * 1_000)) >= 2_000


def png(width: int, height: int) -> bytes:
    """The beginning of one."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02"


def jpeg(width: int, height: int) -> bytes:
    """The beginning of one, with comments before its size."""
    app = b"\xff\xe0\0\x10" + b"\xff\xc0" * 7
    return b"\xff\xd8" + app + b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\3"


def webp(kind: bytes, rest: bytes) -> bytes:
    """The beginning of one of this kind."""
    return b"RIFF\0\0\0\0WEBP" + kind + rest + bytes(12)


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (png(4_032, 3_024), (4_032, 3_024)),
        (b"GIF89a" + struct.pack("<HH", 300, 200), (300, 200)),
        (jpeg(640, 480), (640, 480)),
        (webp(b"VP8X", bytes(8) + b"\x7f\x02\0\xdf\x01\0"), (640, 480)),
        (webp(b"VP8L", bytes(4) + b"\x2f" + ((479 << 14) | 639).to_bytes(4, "little")), (640, 480)),
        (webp(b"VP8 ", bytes(10) + struct.pack("<HH", 640, 480)), (640, 480)),
        (webp(b"ICCP", b""), None),
        (b"\xff\xd8\xff\xe0\0\0", None),
        (b"\xff\xd8" + b"\xff" * 50, None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"BM", None),
    ],
)
def test_the_size_of_a_picture(content: bytes, size: tuple[int, int] | None) -> None:
    """From its first bytes, None where it cannot be read."""
    assert size_of(content) == size


@given(st.sampled_from([png(1, 1), jpeg(1, 1), webp(b"VP8X", b""), b"%PDF-"]), st.binary())
def test_no_bytes_are_too_strange(head: bytes, rest: bytes) -> None:
    """What is no picture and no document is counted, too."""
    content = head[: len(rest)] + rest or b"x"
    for kind in ("image/png", "application/pdf", "audio/wav", "video/mp4", "text/plain", ""):
        assert tokens_of(File.from_bytes(content, kind)) >= 1
    assert tokens_of(Image.from_bytes(content, "")) >= 1_600


@pytest.mark.parametrize(
    ("size", "detail", "measured"),
    [
        ((256, 256), None, 1_600),
        ((1_920, 1_080), None, 2_768),
        ((1_920, 1_080), "high", 2_768),
        ((4_032, 3_024), None, 14_364),
        ((4_032, 3_024), "high", 4_005),
        ((4_032, 3_024), "low", 4_005),
        ((4_032, 3_024), "original", 14_364),
    ],
)
def test_a_picture_counts_as_it_does_where_it_counts_most(
    size: tuple[int, int], detail: Any, measured: int
) -> None:
    """Not less than any common model was seen to count, and less than twice that."""
    part = Image.from_bytes(png(*size), "image/png", detail=detail)
    assert measured <= tokens_of(part) < 2 * measured
    assert tokens_of(File.from_bytes(png(*size), "image/png")) >= measured


@pytest.mark.parametrize("detail", [None, "auto", "low", "high", "original"])
def test_a_picture_of_unknown_size_is_a_large_one(detail: Any) -> None:
    """There is only its address."""
    at = tokens_of(Image.from_url("https://x.example/a.png", detail=detail))
    assert at >= (4_784 if detail in ("low", "high") else 14_364)


def pdf(pages: int, *, packed: bool) -> bytes:
    """One with so many pages, in the clear or compressed."""
    objects = b"".join(b"<< /Type /Page /Parent 1 0 R >>\n" for _ in range(pages))
    whole = b"<< /Type /Pages /Count 1 >>\n" + objects
    if packed:
        stream = zlib.compress(whole)
        head = b"2 0 obj << /Type /ObjStm /DecodeParms << /X 1 >> /Filter /FlateDecode >>"
        whole = head + b"\nstream\r\n" + stream + b"\nendstream"
    return b"%PDF-1.7\n" + whole


@pytest.mark.parametrize("packed", [False, True])
def test_each_page_of_a_document_counts(packed: bool) -> None:
    """Its text and its picture, as many pages as there are."""
    document = File.from_bytes(pdf(30, packed=packed), "application/pdf")
    assert tokens_of(document) == 30 * 7_784


def test_a_document_whose_pages_are_not_found_counts_by_its_size() -> None:
    """Three megabytes are no single picture."""
    assert tokens_of(File.from_bytes(b"%PDF" + bytes(3_000_000), "application/pdf")) > 1_000_000


@pytest.mark.parametrize(
    ("part", "least"),
    [
        (Audio.from_bytes(bytes(60 * 8_000), "audio/wav"), 60 * 32),
        (Audio.from_bytes(bytes(60 * 4_000), "audio/mpeg"), 60 * 32),
        (Audio.from_bytes(bytes(60 * 1_000), "audio/ogg"), 60 * 32),
        (File.from_bytes(bytes(60 * 4_000), "audio/mp3"), 60 * 32),
        (File.from_bytes(bytes(60 * 30_000), "video/mp4"), 60 * 300),
        (Audio.from_url("https://x.example/a.mp3"), 50 * 60 * 32),
        (File.from_url("https://x.example/a.pdf"), 100_000),
        (File(file_id="file-1"), 100_000),
        (File.from_url("gs://b/x.mp4", media_type="video/mp4"), 300_000),
    ],
)
def test_sound_and_films_count_by_the_second(part: Audio | File, least: int) -> None:
    """At the lowest bitrate that is common; an address may lead to anything."""
    assert least <= tokens_of(part) < 1.1 * least


def test_what_was_counted_is_kept_with_the_thread() -> None:
    """And is what counting anew would give, also after a change; what is old is not read again."""
    thread = Thread([Message.user(WORDS)])
    tools = (ToolSpec("f", "d", {}),)
    for number in range(20):
        thread.append(Message.user(f"{number}"))
        known = estimate_input(ModelRequest(messages=thread, tools=tools))
        assert known == estimate_input(ModelRequest(messages=Thread(list(thread)), tools=tools))
    super(Thread, thread).__setitem__(0, Message.user("nobody is told of this change"))
    assert estimate_input(ModelRequest(messages=thread)) > 20_000
    thread[0] = Message.user("short")
    assert estimate_input(ModelRequest(messages=thread)) < 1_000
    assert estimate_input(ModelRequest(messages=thread, tools=(ToolSpec("f", WORDS, {}),))) > 20_000


@pytest.mark.parametrize(
    "part",
    [
        File.from_bytes(b"word " * 600_000, "text/plain"),
        File(file_id="file-1"),
        File.from_url("gs://b/x.mp4", media_type="video/mp4"),
        Image.from_url("https://x.example/a.png"),
    ],
)
async def test_a_limit_holds_before_the_call(part: File | Image) -> None:
    """Whatever is large: nothing is asked."""
    model = ScriptedModel(["hi"])
    result = await Agent("a", model, limits=Limits(max_tokens=10_000)).run(["summarise", part])
    assert (result.stop_reason, model.requests) == ("budget", [])


async def test_what_a_provider_searched_counts_too() -> None:
    """It is sent back whole."""
    found = {"anthropic": {"type": "web_search_tool_result", "content": "A" * 400_000}}
    history = [Message.user("q"), Message("assistant", (Hosted("web_search", found), Text("a")))]
    model = ScriptedModel(["hi"])
    agent = Agent("a", model, limits=Limits(max_tokens=50_000))
    assert (await agent.run("x", history=history)).stop_reason == "budget"
