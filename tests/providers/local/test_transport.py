"""The way from a request to llama.cpp and back, with a stand-in for llama.cpp."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.local.made_up import FakeServer, piece
from treadle.errors import ModelTimeout
from treadle.ports.transport import HttpRequest
from treadle.providers.local.llama import Llama
from treadle.providers.local.transport import LlamaTransport, Ready

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
READING = piece(prompt_progress={"processed": 5, "total": 10})


def transport(server: FakeServer, *, constrains: bool = True) -> LlamaTransport:
    """Return a transport to this server."""

    async def loaded() -> Ready:
        return Ready(Llama(server), constrains)

    return LlamaTransport(loaded)


def request(tools: list[dict[str, Any]] | None = None, timeout: float | None = 5) -> HttpRequest:
    """Return a streamed chat request."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    if tools:
        body["tools"] = tools
    return HttpRequest("POST", "http://local/v1", {}, json.dumps(body).encode(), timeout)


async def events(pieces: AsyncIterator[bytes]) -> list[Any]:
    """Return what an event stream says."""
    text = b"".join([piece async for piece in pieces]).decode()
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def deltas(found: list[Any]) -> list[Any]:
    """Return the deltas and finish reasons of events."""
    choices = [each["choices"][0] for each in found if each != "[DONE]" and each["choices"]]
    return [choice["finish_reason"] or choice["delta"] for choice in choices]


async def test_text_is_passed_on_as_it_comes() -> None:
    """Every chunk is an event, usage too; progress on the prompt is not."""
    usage: dict[str, Any] = {"id": "x", "choices": [], "usage": {"prompt_tokens": 3}}
    server = FakeServer(READING, piece("Good"), piece("bye"), piece(finish="stop"), usage)

    response = await transport(server).send(request())
    found = await events(response.pieces())

    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert deltas(found) == [{"content": "Good"}, {"content": "bye"}, "stop"]
    assert found[-2:] == [usage, "[DONE]"]


async def test_a_call_in_the_text_becomes_a_tool_call() -> None:
    """Its name comes first, then its arguments in pieces, then a finish reason that says so."""
    cut = ['{"name": "a', 'dd", "arguments": {"a"', ": 1}}"]
    server = FakeServer(*map(piece, cut), piece(finish="stop"))

    response = await transport(server).send(request([ADD]))
    found = deltas(await events(response.pieces()))

    function = {"name": "add"}
    call = {"index": 0, "id": "call_x1_0", "type": "function", "function": function}
    assert found == [
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        "tool_calls",
    ]


async def test_text_beside_tools_is_text() -> None:
    """What is no call is said as it comes, and the reply ends as llama.cpp says."""
    server = FakeServer(piece("No"), piece(" tool."), piece(finish="length"))

    response = await transport(server).send(request([ADD]))

    found = deltas(await events(response.pieces()))
    assert found == [{"content": "No"}, {"content": " tool."}, "length"]


async def test_natively_calls_are_llama_cpps() -> None:
    """Its chunks are passed on unread."""
    chunk = piece(finish=None)
    chunk["choices"][0]["delta"] = {"tool_calls": [{"index": 0, "id": "c"}]}
    server = FakeServer(chunk, piece(finish="tool_calls"))

    response = await transport(server, constrains=False).send(request([ADD]))
    found = deltas(await events(response.pieces()))

    assert found == [{"tool_calls": [{"index": 0, "id": "c"}]}, "tool_calls"]
    assert server.asked[0]["tools"] == [ADD]


@pytest.mark.parametrize(
    ("server", "status", "said"),
    [
        (FakeServer({"error": {"code": 400, "message": "too long"}}), 400, "too long"),
        (FakeServer({"error": {"message": "odd"}}), 500, "odd"),
        (FakeServer(raises=ValueError("Expected 'messages'")), 400, "Expected 'messages'"),
    ],
)
async def test_a_refusal_is_an_http_error(server: FakeServer, status: int, said: str) -> None:
    """The codec reads it like that of any server."""
    response = await transport(server).send(request())

    assert response.status == status
    assert said in json.loads(await response.read())["error"]["message"]


async def test_an_error_in_the_middle_is_an_event() -> None:
    """The status was sent long ago."""
    error = {"error": {"code": 500, "message": "out of memory"}}

    response = await transport(FakeServer(piece("a"), error)).send(request([ADD]))

    assert error in await events(response.pieces())


async def test_closing_stops_the_model() -> None:
    """Whoever leaves a reply frees the model for the next one."""
    server = FakeServer(piece("a"), endless=True)
    response = await transport(server).send(request())
    async with aclosing(response.pieces()) as pieces:
        assert b'"a"' in await anext(pieces)

    await response.close()

    assert await asyncio.to_thread(server.stopped.wait, 5)


async def test_cancelling_before_the_first_word_stops_the_model() -> None:
    """Also while it still reads the prompt."""
    server = FakeServer(READING, endless=True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await transport(server).send(request())

    assert await asyncio.to_thread(server.stopped.wait, 5)


async def test_a_silent_model_times_out() -> None:
    """The message says how long it was silent."""
    silence = threading.Event()

    class Silent(FakeServer):
        def handle_chat_completions(self, body: bytes, take: Any, /) -> object:
            return silence.wait(5)

    with pytest.raises(ModelTimeout, match=r"0\.05 s"):
        await transport(Silent()).send(request(timeout=0.05))
    silence.set()


async def test_a_model_that_reads_a_long_prompt_does_not_time_out() -> None:
    """Progress is a sign of life."""
    reading = [READING] * 40
    server = FakeServer(*reading, endless=True)
    sending = asyncio.ensure_future(transport(server).send(request(timeout=0.1)))

    await asyncio.wait([sending], timeout=0.3)

    assert not sending.done()
    sending.cancel()


def test_a_model_serves_several_loops() -> None:
    """Each event loop reads its own reply, in whatever thread it runs."""
    shared = transport(FakeServer(piece("a"), piece(finish="stop")))
    found: list[list[Any]] = []

    async def ask() -> None:
        response = await shared.send(request())
        found.append(deltas(await events(response.pieces())))

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [[{"content": "a"}, "stop"]] * 4
