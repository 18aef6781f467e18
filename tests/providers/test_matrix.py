"""Four protocols, four by four: what one has said goes on with every other, and back home."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, Conversation, Image, RunResult, SQLiteStore, ToolError, tool
from treadle.messages import Hosted, Reasoning, Thread
from treadle.ports.model import Model, ModelRequest, ToolSpec
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.testing.strict import Kind, strict

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
SIGNATURE = "c2lnbmF0dXJl"
Wire = dict[str, Any]


class Recorded:
    """A transport that answers with bodies, one after another, and keeps what it was sent."""

    def __init__(self, *bodies: Wire) -> None:
        self._bodies = list(bodies)
        self.sent: list[Wire] = []
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Recorded:
        self.sent.append(json.loads(request.body))
        return self

    async def read(self) -> bytes:
        return json.dumps(self._bodies.pop(0)).encode()

    async def pieces(self) -> AsyncIterator[bytes]:
        yield await self.read()

    async def close(self) -> None:
        """There is no connection."""


NUMBERS = count(1)
CITIES = ("Oslo", "Rome", "Atlantis")


def chat(text: str, *, calls: bool) -> Wire:
    wires = [
        {
            "id": f"call_{city}",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"city": city})},
        }
        for city in CITIES
    ]
    message: Wire = {"role": "assistant", "content": text, "reasoning_content": "Hm."}
    if calls:
        message["tool_calls"] = wires
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}


def responses(text: str, *, calls: bool) -> Wire:
    said: Wire = {"type": "output_text", "text": text, "annotations": []}
    number = next(NUMBERS)
    output: list[Wire] = [
        {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": SIGNATURE,
        },
        {
            "type": "web_search_call",
            "id": f"ws_{number}",
            "status": "completed",
            "action": {"type": "search", "query": "weather"},
        },
        {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [said],
        },
    ]
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{city}",
            "call_id": f"call_{city}",
            "name": "look",
            "arguments": json.dumps({"city": city}),
            "status": "completed",
        }
        for city in (CITIES if calls else ())
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": output,
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }


def anthropic(text: str, *, calls: bool) -> Wire:
    found = {"type": "web_search_result", "url": "https://a.example", "title": "A"}
    content: list[Wire] = [
        {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "weather"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{**found, "encrypted_content": "Eo", "page_age": None}],
        },
        {"type": "text", "text": text},
    ]
    content += [
        {"type": "tool_use", "id": f"toolu_{city}", "name": "look", "input": {"city": city}}
        for city in (CITIES if calls else ())
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def gemini(text: str, *, calls: bool) -> Wire:
    parts: list[Wire] = [
        {"text": "Hm.", "thought": True},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"text": text, "thoughtSignature": SIGNATURE},
    ]
    for city in CITIES if calls else ():
        parts.append({"functionCall": {"name": "look", "args": {"city": city}}})
        if city == CITIES[0]:
            parts[-1]["thoughtSignature"] = SIGNATURE
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


Side = tuple[Callable[..., Wire], Callable[[Recorded], Model], tuple[Kind, ...]]
SIDES: dict[str, Side] = {
    "openai_chat": (
        chat,
        lambda sent: OpenAI("gpt-5.2", api_key="k", transport=sent),
        ("openai",),
    ),
    "openai_responses": (
        responses,
        lambda sent: OpenAIResponses("gpt-5.2", api_key="k", transport=sent),
        ("openai_responses",),
    ),
    "anthropic": (
        anthropic,
        lambda sent: Anthropic("claude-sonnet-4-5", api_key="k", transport=sent),
        ("anthropic",),
    ),
    "gemini": (
        gemini,
        lambda sent: Gemini("gemini-3-pro-preview", api_key="k", transport=sent),
        ("gemini", "gemini3"),
    ),
}


@tool
async def look(city: str) -> Image | str:
    """Look at the weather of a city."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return Image.from_bytes(PNG, "image/png") if city == "Oslo" else f"{city}: mild"


async def talk(side: str, store: SQLiteStore, conversation: str, text: str) -> RunResult[str]:
    """Ask with three calls and an answer."""
    made, model, kinds = SIDES[side]
    sent = Recorded(made("Let me look.", calls=True), made("It is mild.", calls=False))
    agent = Agent("a", model(sent), tools=[look], store=store, instructions="Be brief.")
    picture = Image.from_bytes(PNG, "image/png")
    result = await agent.run([text, picture], conversation=conversation)
    for body in sent.sent:
        for kind in kinds:
            assert strict(kind)(body) == []
    return result


async def body_of(side: str, thread: Thread) -> Wire:
    """Return the request with which this side would go on."""
    made, model, _ = SIDES[side]
    sent = Recorded(made("ok", calls=False))
    spec = ToolSpec(look.name, look.description, look.parameters)
    await model(sent).complete(ModelRequest(messages=thread, tools=(spec,)))
    return sent.sent[0]


@pytest.mark.parametrize("there", SIDES)
@pytest.mark.parametrize("here", SIDES)
async def test_one_goes_on_where_another_stopped(here: str, there: str, tmp_path: Path) -> None:
    """Text, parallel calls, a failed one, pictures, reasoning: here, there, and here again."""
    store = SQLiteStore(tmp_path / "chat.db")
    await talk(here, store, "c", "How is it in the north?")
    await talk(there, store, "c", "And in the south?")
    result = await talk(here, store, "c", "And in between?")
    assert [message.text for message in result.messages if message.role == "user"] == [
        "How is it in the north?",
        "And in the south?",
        "And in between?",
    ]
    assert len([call for message in result.messages for call in message.tool_calls]) == 9
    await store.close()


@pytest.mark.parametrize("side", SIDES)
async def test_every_revision_is_valid_everywhere(side: str, tmp_path: Path) -> None:
    """J3: whatever a journal holds so far, each of the four takes it as a history."""
    store = SQLiteStore(tmp_path / "chat.db")
    await talk(side, store, "c", "How is it in the north?")
    conversation = await Conversation.open("c", store=store)
    for revision in range(1, (await store.head("c")).revision + 1):
        thread = await conversation.messages(revision)
        if not thread:
            continue
        for other, (_, _, kinds) in SIDES.items():
            body = await body_of(other, Thread(thread))
            for kind in kinds:
                assert strict(kind)(body) == [], (revision, other)
    await store.close()


@pytest.mark.parametrize("side", SIDES)
async def test_what_is_private_goes_home_only(side: str, tmp_path: Path) -> None:
    """Signed reasoning and steps of hosted tools go back as they came, and to nobody else."""
    store = SQLiteStore(tmp_path / "chat.db")
    result = await talk(side, store, "c", "How is it?")
    parts = [part for message in result.messages for part in message.parts]
    assert [part.text for part in parts if isinstance(part, Reasoning)] == ["Hm."] * 2
    hosted = [part for part in parts if isinstance(part, Hosted)]
    assert bool(hosted) is (side != "openai_chat")
    for other in SIDES:
        body = json.dumps(await body_of(other, Thread(result.messages)))
        assert ("Hm." in body) is (other == side)
        if side != "openai_chat":
            assert (SIGNATURE in body) is (other == side)
        assert ("web_search" in body or "executableCode" in body) is (
            bool(hosted) and other == side
        )
    await store.close()
