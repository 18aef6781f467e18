"""Pictures, sounds and documents on every protocol, in the input and out of tools: BS-28, S33."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.scenarios.every_line import connect, on_every, saying
from tests.scenarios.every_protocol import CHAT, GEMINI, RESPONSES, Api, Call, Wire, user_turns
from tests.scenarios.provider import ask, both_ways
from treadle import Agent, Audio, File, Image, Text, tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PIXEL_64 = base64.b64encode(PIXEL).decode()
PIXEL_URL = f"data:image/png;base64,{PIXEL_64}"


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


@tool
async def screenshot() -> list[Any]:
    """Take one."""
    return ["the screen", Image.from_bytes(PIXEL, "image/png")]


@on_every
@both_ways
async def test_a_tool_that_returns_an_image(api: Api, streamed: bool) -> None:
    """BS-28: in its result, or behind all results with a note; its bytes are what they were."""
    calls = (Call("c1", "screenshot"), Call("c2", "ping"))
    answers = (saying(api, "", *calls, streamed=streamed), saying(api, "ok", streamed=streamed))
    async with connect(api, *answers) as line:
        agent = Agent("a", line.model, tools=[screenshot, ping])
        result = await ask(agent, "x", streamed=streamed)

    first, second = line.results()
    assert first.startswith("the screen")
    assert second == "pong"
    assert line.server.requests[1].body.decode().count(PIXEL_64) == 1
    assert ("shown after the tool results" in first) is (api in (CHAT, RESPONSES))
    assert PIXEL_64 in json.dumps(user_turns(api, line.requests[1])[1:])
    kept = result.messages[2].tool_results[0].parts[1]
    assert isinstance(kept, Image)
    assert kept.content == PIXEL


@on_every
@both_ways
async def test_a_model_that_cannot_see(api: Api, streamed: bool) -> None:
    """BS-28: it gets the words and a note, and no picture; the input's pictures too."""
    calls = (Call("c1", "screenshot"), Call("c2", "ping"))
    answers = (saying(api, "", *calls, streamed=streamed), saying(api, "ok", streamed=streamed))
    async with connect(api, *answers, vision=False) as line:
        agent = Agent("a", line.model, tools=[screenshot, ping])
        await ask(agent, ["x", Image.from_bytes(PIXEL, "image/png")], streamed=streamed)

    sent = line.server.requests[1].body.decode()
    assert (sent.count(PIXEL_64), sent.count("takes no images")) == (0, 2)
    assert line.results()[1] == "pong"


WAV, PDF = (base64.b64encode(content).decode() for content in (b"RIFF", b"%PDF-1.7"))
CAT = "https://example.test/cat.png"
PARTS: dict[str, list[Wire]] = {
    "chat": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": CAT, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": PIXEL_URL}},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        },
        {"type": "text", "text": "Be brief."},
    ],
    "responses": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": CAT, "detail": "low"},
        {"type": "input_image", "image_url": PIXEL_URL, "detail": "auto"},
        {"type": "input_text", "text": "[Audio: left out, this API takes no sound]"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": f"data:application/pdf;base64,{PDF}",
        },
        {"type": "input_text", "text": "Be brief."},
    ],
    "anthropic": [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "url", "url": CAT}},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL_64},
        },
        {"type": "text", "text": "[Audio: left out, this model takes no sound]"},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.pdf",
        },
        {"type": "text", "text": "Be brief."},
    ],
    "gemini": [
        {"text": "What is this?"},
        {"fileData": {"fileUri": CAT, "mimeType": "image/png"}},
        {"inlineData": {"data": PIXEL_64, "mimeType": "image/png"}},
        {"inlineData": {"data": WAV, "mimeType": "audio/wav"}},
        {"inlineData": {"data": PDF, "mimeType": "application/pdf"}},
        {"text": "Be brief."},
    ],
}


@on_every
@both_ways
async def test_parts_of_the_input(api: Api, streamed: bool) -> None:
    """S33: each in its native form or as a note, in order, and again in the next request."""
    parts = [
        "What is this?",
        Image.from_url(CAT, detail="low"),
        Image.from_base64(PIXEL_64, "image/png"),
        Audio.from_bytes(b"RIFF", "audio/wav"),
        File.from_bytes(b"%PDF-1.7", "application/pdf", name="a.pdf"),
        Text("Be brief."),
    ]
    one, two = (saying(api, text, streamed=streamed) for text in ("A cat.", "Yes."))
    async with connect(api, one, two) as line:
        agent = Agent("a", line.model)
        first = await ask(agent, parts, streamed=streamed)
        await ask(agent, "Sure?", streamed=streamed, history=first.messages)

    for request in line.requests:
        turn = user_turns(api, request)[0]
        assert turn["parts" if api is GEMINI else "content"] == PARTS[api.name]
    assert first.messages[0].text == "What is this?Be brief."
