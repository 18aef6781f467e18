"""Pictures, sounds and documents as Chat Completions JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.providers.openai.parts import PIXEL, PLAIN, sent
from treadle.messages import (
    Audio,
    File,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.providers.openai.dialect import dialect_of


def test_media_have_their_native_form() -> None:
    """S33: text, image by URL and by bytes, sound and document."""
    [wire] = sent(
        Message.user(
            "look",
            Image.from_url("https://x/y.png", detail="low"),
            Image.from_bytes(PIXEL, "image/png"),
            Audio.from_bytes(b"snd", "audio/mpeg"),
            File.from_bytes(b"%PDF-", "application/pdf", name="a.pdf"),
            File.from_bytes(b"%PDF-", "application/pdf"),
            File(file_id="file-1"),
            File.from_bytes("grün".encode(), "text/plain", name="a.txt"),
        )
    )
    kinds = [block["type"] for block in wire["content"]]
    assert kinds == ["text", *["image_url"] * 2, "input_audio", *["file"] * 3, "text"]
    inner = [block[block["type"]] for block in wire["content"]]
    assert inner[1] == {"url": "https://x/y.png", "detail": "low"}
    assert inner[2]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert inner[3] == {"data": "c25k", "format": "mp3"}
    assert inner[4] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    assert inner[5]["filename"] == "file.pdf"
    assert inner[6] == {"file_id": "file-1"}
    assert inner[7] == "File a.txt:\ngrün"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Audio.from_url("https://x/y.mp3"), "https://x/y.mp3"),
        (File.from_url("https://x/y.pdf"), "https://x/y.pdf"),
        (Image(), "content is gone"),
        (Audio(transcript="hello"), "hello"),
        (File(name="a.pdf"), "a.pdf"),
    ],
)
def test_what_cannot_be_sent_is_said(part: Image | Audio | File, words: str) -> None:
    """What the API does not take is replaced by words, never sent to fail."""
    [wire] = sent(Message("user", (Text("look"), part)))
    assert wire["content"][1]["type"] == "text"
    assert words in wire["content"][1]["text"]


def test_a_server_that_takes_file_addresses_gets_them() -> None:
    """OpenRouter does."""
    message = Message.user(File.from_url("https://x/y.pdf", media_type="application/pdf"))
    [wire] = sent(message, dialect=dialect_of("https://openrouter.ai/api/v1"))
    assert wire["content"][0]["file"]["file_data"] == "https://x/y.pdf"


RESULTS = (
    Message.user("show"),
    Message.assistant(ToolCall("c1", "shot"), ToolCall("c2", "ls")),
    Message(
        "tool",
        (
            ToolResult("c1", "shot", (Text("here"), Image.from_bytes(PIXEL, "image/png"))),
            ToolResult("c2", "ls", (Text("a"), Text("b"))),
        ),
    ),
)


def test_an_image_of_a_tool_follows_all_results() -> None:
    """S34, BS-28: a note in the tool message, the image in one user message after all of them."""
    wires = sent(*RESULTS)
    assert [wire["role"] for wire in wires] == ["user", "assistant", "tool", "tool", "user"]
    assert wires[2]["content"] == "here\n[Image 1: shown after the tool results]"
    assert wires[3]["content"] == "a\nb"
    label, image = wires[4]["content"]
    assert label["text"] == "Image 1, returned by shot:"
    assert image["image_url"]["url"] == Image.from_bytes(PIXEL, "image/png").data_url


def test_a_text_only_model_gets_the_note_alone() -> None:
    """BS-28: no image is sent to a model that cannot see."""
    blind = replace(PLAIN, vision=False)
    wires = sent(*RESULTS, Message.user("a", Image.from_bytes(PIXEL, "image/png")), dialect=blind)
    assert [wire["role"] for wire in wires] == ["user", "assistant", "tool", "tool", "user"]
    assert wires[2]["content"] == "here\n[Image: left out, this model takes no images]"
    assert wires[4]["content"] == "a\n\n[Image: left out, this model takes no images]"
