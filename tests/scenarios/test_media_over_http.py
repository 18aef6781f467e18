"""Pictures, sounds and documents, as OpenAI wants them, in the input and out of tools."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, provider, saying
from treadle import Agent, Audio, File, Image, Limits, Text, tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PIXEL_URL = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
CALLS = (("c1", "screenshot", "{}"), ("c2", "title", "{}"))


@tool
async def screenshot() -> list[Any]:
    """Take one."""
    return ["the screen", Image.from_bytes(PIXEL, "image/png")]


@tool
async def title() -> str:
    """Read the title."""
    return "Inbox"


@both_ways
async def test_parts_of_the_input(streamed: bool) -> None:
    """S33, B11: each part in its native form, in order; the text of the message is only text."""
    parts = [
        "What is this?",
        Image.from_url("https://example.test/cat.png", detail="low"),
        Image.from_base64(base64.b64encode(PIXEL).decode(), "image/png"),
        Audio.from_bytes(b"RIFF", "audio/wav"),
        File.from_bytes(b"%PDF-1.7", "application/pdf", name="a.pdf"),
        Text("Be brief."),
    ]
    async with provider(saying("A cat.", streamed=streamed)) as line:
        result = await ask(Agent("a", line.model), parts, streamed=streamed)

    pdf = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7").decode()
    address = {"url": "https://example.test/cat.png", "detail": "low"}
    assert line.messages() == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": address},
                {"type": "image_url", "image_url": {"url": PIXEL_URL}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf}},
                {"type": "text", "text": "Be brief."},
            ],
        }
    ]
    assert result.messages[0].text == "What is this?Be brief."
    assert result.messages[0].has_media


async def test_media_stay_in_the_history() -> None:
    """S33: the next request says them again, the same."""
    picture = Image.from_bytes(PIXEL, "image/png")
    async with provider(saying("one", streamed=False), saying("two", streamed=False)) as line:
        agent = Agent("a", line.model)
        first = await agent.run(["Look", picture])
        await agent.run("And now?", history=first.messages)

    assert line.messages()[0] == line.messages(0)[0]
    assert line.messages()[0]["content"][1]["image_url"]["url"] == PIXEL_URL


@both_ways
@pytest.mark.parametrize("merged", [True, False])
async def test_a_picture_of_a_tool(merged: bool, streamed: bool) -> None:
    """S34, BS-28: the result has the text and a note, the picture stands behind all results."""
    answers = (saying(None, *CALLS, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers, merge_roles=merged) as line:
        agent = Agent("a", line.model, tools=[screenshot, title])
        result = await ask(agent, "x", streamed=streamed)

    first, second, shown = line.messages()[2:]
    assert (first["tool_call_id"], second["tool_call_id"]) == ("c1", "c2")
    assert first["content"].startswith("the screen\n[Image 1")
    assert second["content"] == "Inbox"
    assert shown["role"] == "user"
    assert shown["content"][-1] == {"type": "image_url", "image_url": {"url": PIXEL_URL}}
    kept = result.messages[2].tool_results[0].parts[1]
    assert isinstance(kept, Image)
    assert kept.content == PIXEL


async def test_a_picture_of_a_tool_and_what_the_user_says_next() -> None:
    """BS-28: where templates want turns, the picture and the next input are one message."""
    answers = (saying(None, *CALLS, streamed=True), saying("ok", streamed=True))
    async with provider(*answers, merge_roles=True) as line:
        tools, limits = [screenshot, title], Limits(max_turns=1)
        agent = Agent("a", line.model, tools=tools, limits=limits, on_limit="pause")
        first = await ask(agent, "x", streamed=True)
        await ask(agent, "Which mail is new?", streamed=True, history=first.messages)

    assert first.stop_reason == "paused"
    last = line.messages()[-1]
    assert [block["type"] for block in last["content"]] == ["text", "image_url", "text"]


@both_ways
async def test_a_model_that_cannot_see(streamed: bool) -> None:
    """BS-28: it gets the words and a note, and no picture; the input's pictures too."""
    answers = (saying(None, *CALLS, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers, vision=False) as line:
        agent = Agent("a", line.model, tools=[screenshot, title])
        await ask(agent, ["x", Image.from_bytes(PIXEL, "image/png")], streamed=streamed)

    assert "image_url" not in line.server.requests[1].body.decode()
    assert [m["role"] for m in line.messages()] == ["user", "assistant", "tool", "tool"]
    assert "takes no images" in line.results()["c1"]
    assert line.results()["c1"].startswith("the screen")
