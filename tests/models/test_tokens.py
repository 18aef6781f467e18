"""How many tokens a request is taken to have before it is sent, by what they are for."""

from __future__ import annotations

import base64
import os
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Message, ModelRequest
from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Part,
    Reasoning,
    Role,
    Text,
    Thread,
    ToolCall,
    ToolResult,
)
from treadle.models.tokens import Sizes, sizes_of, tokens_of_message
from treadle.ports.model import ModelProfile, OutputSchema, ToolSpec

WORDS = "word " * 1_000
GPT = ModelProfile(provider="openai", name="gpt-5-mini")
CLAUDE = ModelProfile(provider="anthropic", name="claude-sonnet-4-5")
GEMINI = ModelProfile(provider="google", name="gemini-3-flash-preview")
OTHER = ModelProfile(provider="groq", name="llama-4")
PROFILES = (GPT, CLAUDE, GEMINI, OTHER, ModelProfile())


def of(*messages: Message, profile: ModelProfile = OTHER, **fields: Any) -> Sizes:
    """The sizes of a request with these messages."""
    return sizes_of(ModelRequest(messages=Thread(messages), **fields), profile)


def png(width: int, height: int, size: int = 0) -> bytes:
    """The beginning of one, and so many bytes."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02"
    return head + bytes(size)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_kind_is_counted_for_itself(profile: ModelProfile) -> None:
    """Instructions, tools, the schema of the answer, history and media, and their sum."""
    tools = (ToolSpec("search", WORDS, {"type": "object", "properties": {}}),)
    output = OutputSchema("answer", {"type": "object", "description": WORDS})
    picture = Image.from_bytes(png(800, 600), "image/png")
    sizes = of(
        Message.user(WORDS, picture), profile=profile, system=WORDS, tools=tools, output=output
    )
    assert 800 < sizes.instructions < 1_500
    assert 500 < sizes.tools < 2_000
    assert 800 < sizes.history < 1_500
    assert 200 < sizes.media < 1_500
    assert sizes.output == 0 if profile is GEMINI else sizes.output > 200
    parts = (sizes.instructions, sizes.tools, sizes.output, sizes.history, sizes.media)
    assert sizes.total == sum(parts)


@pytest.mark.parametrize("profile", PROFILES)
def test_pictures_count_by_their_size_and_base64_in_a_text_by_its_characters(
    profile: ModelProfile,
) -> None:
    """BS-46: three pictures of 2 MB are little, 300 KB of base64 in a tool's result are much."""
    picture = Image.from_bytes(png(2_000, 1_500, 2_000_000), "image/png")
    assert of(Message.user("look", picture, picture, picture), profile=profile).total < 10_000
    text = base64.b64encode(os.urandom(225_000)).decode()
    answer = Message("tool", (ToolResult("1", "read", (Text(text),)),))
    assert of(answer, profile=profile).history >= 100_000
    in_result = Message("tool", (ToolResult("1", "shot", (picture,)),))
    assert 100 < of(in_result, profile=profile).media < 4_000


@pytest.mark.parametrize(
    ("profile", "size", "detail", "counted"),
    [
        (ModelProfile(name="gpt-4o"), (1_024, 1_024), None, 765),
        (ModelProfile(name="gpt-4o"), (4_096, 8_192), "low", 85),
        (ModelProfile(name="gpt-5"), (1_024, 1_024), None, 630),
        (GPT, (597, 566), None, 555),
        (CLAUDE, (1_000, 1_000), None, 1_337),
        (CLAUDE, (4_000, 3_000), None, 1_643),
        (ModelProfile(name="gemini-2.0-flash"), (540, 360), None, 1_806),
        (ModelProfile(name="gemini-2.5-flash"), (597, 566), None, 258),
        (GEMINI, (4_000, 3_000), None, 1_070),
    ],
)
def test_each_vendor_counts_pictures_in_its_way(
    profile: ModelProfile, size: tuple[int, int], detail: Any, counted: int
) -> None:
    """In tiles, in patches, in pixels, or flat."""
    part = Image.from_bytes(png(*size), "image/png", detail=detail)
    assert of(Message.user(part), profile=profile).media == counted


@pytest.mark.parametrize(
    ("part", "least", "most"),
    [
        (
            File.from_bytes(b"%PDF-1.7" + b"<< /Type /Page >>" * 10, "application/pdf"),
            2_500,
            21_000,
        ),
        (File.from_bytes(WORDS.encode(), "text/plain"), 800, 1_500),
        (Audio.from_bytes(bytes(60 * 12_000), "audio/mpeg"), 500, 2_000),
        (File.from_bytes(bytes(60 * 12_000), "audio/mp3"), 500, 2_000),
        (File.from_bytes(bytes(6_000_000), "video/mp4"), 5_000, 20_000),
        (File.from_bytes(png(800, 600), "image/png"), 250, 1_100),
        (File.from_url("https://x.example/a.pdf"), 500, 8_000),
        (Image.from_url("https://x.example/a.png"), 250, 1_500),
        (Audio.from_url("https://x.example/a.mp3"), 200, 1_500),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_other_media(part: Any, least: int, most: int, profile: ModelProfile) -> None:
    """By pages, seconds and text; an address alone is taken to lead to something common."""
    assert least <= of(Message.user(part), profile=profile).media <= most


texts = st.text(st.characters(), max_size=30)
signed = st.text(max_size=300)


def shown(text: str) -> ToolResult:
    """A result with a picture."""
    return ToolResult("1", "f", (Text(text), Image(url="https://x.example/a.png")))


def searched(text: str) -> Hosted:
    """A step of the provider's own."""
    return Hosted("s", {"x": {"a": [text, {text: 1.5}]}})


def pictured(content: bytes) -> Image:
    """Bytes that are hardly a picture."""
    return Image(content=content)


def filed(content: bytes) -> File:
    """Bytes that are hardly a document."""
    return File(content=content)


def said(role: Role, parts: list[Part]) -> Message:
    """A message of anybody."""
    return Message(role, tuple(parts))


roles: st.SearchStrategy[Role] = st.sampled_from(("user", "assistant", "tool"))
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    st.builds(ToolCall, st.just("1"), texts, texts),
    st.builds(shown, texts),
    st.builds(Reasoning, texts, signed),
    st.builds(searched, signed),
    st.builds(pictured, st.binary(min_size=1, max_size=40)),
    st.builds(filed, st.binary(min_size=1, max_size=40)),
)
messages = st.builds(said, roles, st.lists(parts, max_size=3))


@given(st.lists(messages, max_size=8), st.sampled_from(PROFILES))
def test_what_is_kept_is_what_counting_anew_would_give(
    history: list[Message], profile: ModelProfile
) -> None:
    """And a message more never lowers it, but for thoughts, which end when the user speaks."""
    thread, before = Thread(), Sizes()
    for message in history:
        thread.append(message)
        request = ModelRequest(messages=thread)
        sizes = sizes_of(request, profile)
        assert sizes == sizes_of(ModelRequest(messages=Thread(list(thread))), profile)
        assert sizes.media >= before.media
        thoughts = any(isinstance(part, Reasoning) for each in history for part in each.parts)
        if message.role != "user" or not thoughts:
            assert sizes.total >= before.total
        before = sizes


def test_a_turn_costs_what_is_new() -> None:
    """What was counted of messages, instructions and tools is not counted again."""
    seen: list[str] = []

    def count(text: str) -> int:
        seen.append(text)
        return len(text.split())

    thread = Thread([Message.user("the first message") for _ in range(2_000)])
    tools = (ToolSpec("search", "finds", {}),)
    request = ModelRequest(messages=thread, tools=tools, system="be brief")
    first = sizes_of(request, OTHER, count=count)
    assert len(seen) == 2_002
    thread.append(Message.user("one more"))
    assert sizes_of(request, OTHER, count=count).history == first.history + 2 + 4
    assert seen[2_002:] == ["one more"]
    assert sizes_of(request, OTHER, count=count).total
    assert len(seen) == 2_003
    other = ModelRequest(messages=thread, tools=(ToolSpec("f", "new", {}),), system="be brief")
    sizes_of(other, OTHER, count=count)
    assert len(seen) == 2_004


def test_a_change_of_what_is_old_of_the_model_or_of_the_tokenizer_counts_anew() -> None:
    """Nothing that was counted otherwise is used."""
    thread = Thread([Message.user(WORDS)])
    request = ModelRequest(messages=thread)
    assert sizes_of(request, GPT).total > 900
    assert sizes_of(request, GPT, count=lambda text: 7).total < 20
    assert sizes_of(request, CLAUDE).total > 900
    thread[0] = Message.user("short")
    assert sizes_of(request, CLAUDE).total < 20


def test_thoughts_count_until_the_user_speaks() -> None:
    """Vendors leave them out then."""
    proof = {"gemini": {"thoughtSignature": "A" * 4_000}}
    thread = Thread(
        [Message.user("go"), Message("assistant", (ToolCall("1", "f", "{}", None, proof),))]
    )
    request = ModelRequest(messages=thread)
    assert sizes_of(request, GEMINI).history > 800
    assert sizes_of(request, GPT).history < 500
    thread.append(Message("tool", (ToolResult("1", "f", (Text("done"),)),)))
    assert sizes_of(request, GEMINI).history > 800
    thread.append(Message.user("and now?"))
    assert sizes_of(request, GEMINI).history < 60


def test_sealed_texts_of_the_provider_are_longer_than_what_they_stand_for() -> None:
    """And whatever else it wants back counts, however deep it lies."""
    sealed: Part = Hosted("search", {"anthropic": {"encrypted_content": "Ab9" * 10_000}})
    assert 3_000 < of(Message("assistant", (sealed,))).history < 10_000
    deep: Any = "word " * 10
    for _ in range(5_000):
        deep = [deep]
    assert of(Message("assistant", (Hosted("search", {"x": deep}),))).history > 5


@pytest.mark.parametrize("profile", PROFILES)
def test_a_message_alone(profile: ModelProfile) -> None:
    """Its text, its media, and what stands around it; never more than in a request."""
    message = Message.user(WORDS, Image.from_bytes(png(800, 600), "image/png"))
    sizes = of(message, profile=profile)
    assert sizes.history + sizes.media - 6 <= tokens_of_message(message, profile) <= sizes.total
    assert tokens_of_message(Message.user("hi"), profile, count=lambda text: 500) >= 500
