"""The client's streams, against a server that writes byte for byte."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.openai.parts import STOP, asking, last, streamed
from tests.servers import DONE, delta, event, reply, serve, stream, whole
from treadle.errors import (
    BadReply,
    IncompleteReply,
    ModelTimeout,
    Overloaded,
)
from treadle.ports.model import (
    ModelReply,
    ModelSettings,
    ReasoningPiece,
    TextPiece,
)
from treadle.providers import OpenAI
from treadle.testing.strict import assert_strict


async def test_a_reply_comes_in_pieces() -> None:
    """Text as it arrives, last the reply; the stream asks for its usage."""
    usage: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    answer = stream(delta(content="hel"), delta(content="lo"), STOP, usage, DONE)
    async with serve(answer) as server:
        *pieces, found = await streamed(OpenAI("m", base_url=server.url))
    assert pieces == [TextPiece("hel"), TextPiece("lo")]
    assert isinstance(found, ModelReply)
    assert (found.message.text, found.usage.input_tokens) == ("hello", 7)
    assert_strict(server.requests[0].body)
    assert server.requests[0].json["stream_options"] == {"include_usage": True}


async def test_pieces_are_handed_on_as_they_come() -> None:
    """BS-16: a character split between two writes is one character; nothing waits for the end."""
    chunk = event(delta(content="Zürich ✅"))
    answer = stream(*(chunk[i : i + 1] for i in range(len(chunk))), end="hang")
    async with (
        serve(answer) as server,
        aclosing(OpenAI("m", base_url=server.url).stream(asking())) as s,
    ):
        assert await anext(s) == TextPiece("Zürich ✅")


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
async def test_comments_fields_and_line_ends(end: bytes) -> None:
    """BS-17, BS-21: as OpenRouter and llama.cpp send them, without a charset."""
    lines = [
        ": OPENROUTER PROCESSING",
        "",
        ":",
        "event: ping",
        "",
        "id: 1",
        "retry: 10",
        "data:" + json.dumps(delta(content="✅ a\u2028b\u0085c"), ensure_ascii=False),
        "",
        'data: {"choices":',
        'data: [{"delta":{"content":"d"},"finish_reason":"stop"}]}',
        "",
    ]
    pieces = [line.encode() + end for line in lines]
    async with serve(stream(*pieces)) as server:
        found = await last(OpenAI("m", base_url=server.url))
    assert found.message.text == "✅ a\u2028b\u0085cd"


async def test_a_finished_stream_gives_its_connection_back() -> None:
    """Read to its end, also when that comes in a packet of its own."""
    answer = stream(delta(content="a"), STOP, DONE)
    async with serve(answer) as server:
        model = OpenAI("m", base_url=server.url)
        for _ in range(3):
            async with aclosing(model.stream(asking())) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        break
        assert server.connections == 1


async def test_a_server_that_stays_after_the_end_mark_holds_nobody_up() -> None:
    """The reply does not wait for a connection that never closes."""
    answer = stream(delta(content="a"), STOP, DONE, end="hang")
    async with serve(answer) as server, asyncio.timeout(2):
        assert (await last(OpenAI("m", base_url=server.url))).message.text == "a"


async def test_a_stream_left_early_drops_its_connection() -> None:
    """The server need not write on for nobody."""
    async with serve(stream(delta(content="a"), end="hang")) as server:
        async with aclosing(OpenAI("m", base_url=server.url).stream(asking())) as items:
            assert await anext(items) == TextPiece("a")
        await server.wait_closed_by_client()


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_dropped_stream_is_incomplete(end: Any) -> None:
    """BS-20 (a), (b): half an answer is an error that may be tried again, with the text so far."""
    async with (
        serve(stream(delta(content="half"), end=end)) as server,
        aclosing(OpenAI("m", base_url=server.url).stream(asking())) as items,
    ):
        assert await anext(items) == TextPiece("half")
        with pytest.raises(IncompleteReply) as caught:
            await anext(items)
    error = caught.value
    assert (error.partial, error.retryable, error.model) == ("half", True, "m")


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_reason_without_an_end_mark_is_whole(end: Any) -> None:
    """BS-20 (c): whatever happens to the connection after it."""
    async with serve(stream(delta(content="a"), STOP, end=end)) as server:
        assert (await last(OpenAI("m", base_url=server.url))).finish_reason == "stop"


async def test_a_stream_that_falls_silent_times_out() -> None:
    """With the text so far."""
    async with serve(stream(delta(content="half"), end="hang")) as server:
        request = asking(settings=ModelSettings(timeout=0.03))
        with pytest.raises(ModelTimeout) as caught:
            await streamed(OpenAI("m", base_url=server.url), request)
    assert (caught.value.partial, caught.value.provider) == ("half", f"127.0.0.1:{server.port}")


async def test_an_event_cut_at_the_end_is_left_out() -> None:
    """It is no bad reply: the stream is incomplete."""
    async with serve(stream(delta(content="half"), b'data: {"choices":[{"del')) as server:
        with pytest.raises(IncompleteReply) as caught:
            await streamed(OpenAI("m", base_url=server.url))
    assert caught.value.partial == "half"


async def test_an_error_in_a_stream_is_raised() -> None:
    """BS-19: typed, with the text so far."""
    error = {"error": {"message": "busy", "code": "503"}}
    async with serve(stream(delta(content="half"), error)) as server:
        with pytest.raises(Overloaded) as caught:
            await streamed(OpenAI("m", base_url=server.url))
    assert (caught.value.partial, caught.value.status) == ("half", 503)


async def test_a_server_that_cannot_stream_is_heard() -> None:
    """It answers a request for a stream with a whole reply."""
    async with serve(whole(reply("yes", reasoning="hm"))) as server:
        *pieces, found = await streamed(OpenAI("m", base_url=server.url))
    assert pieces == [ReasoningPiece("hm"), TextPiece("yes")]
    assert isinstance(found, ModelReply)


async def test_an_empty_stream_is_tried_again() -> None:
    """BS-18: nothing but comments and a filter's chunk is no answer."""
    answer = stream(b": hello\n\n", {"choices": [], "prompt_filter_results": []}, DONE)
    for empty in (answer, stream(b": hello\n\n"), stream()):
        async with serve(empty) as server:
            with pytest.raises(IncompleteReply) as caught:
                await streamed(OpenAI("m", base_url=server.url))
            assert caught.value.retryable


@pytest.mark.parametrize(
    "chunk", ["{nonsense", json.dumps(delta(content={"a": 1})), json.dumps(delta(tool_calls="no"))]
)
async def test_a_chunk_that_is_none_is_told_with_its_content_type(chunk: str) -> None:
    """Garbage and wrong types are bad replies, also after good text, which is kept."""
    answer = stream(delta(content="hel"), f"data: {chunk}\n\n".encode())
    async with serve(answer) as server:
        with pytest.raises(BadReply, match=r"200 \(text/event-stream") as caught:
            await streamed(OpenAI("m", base_url=server.url))
    assert caught.value.partial == "hel"
