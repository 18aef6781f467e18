"""`python -m benchmarks.protocols`: what a streamed chunk costs in each protocol.

The bytes of one answer go in, the events of a run come out; no network is between. The figures are
CPU time of this process, and each protocol's is held against that of Chat Completions.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import msgspec

from benchmarks.lab import rotated
from benchmarks.table import Row, pairwise, render, spread
from benchmarks.work import expect
from treadle import Agent, TextDelta
from treadle.ports.model import Model
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses

WORD = "weather "
PIECE = 16_384
"""Bytes that come in one read."""
_encode = msgspec.json.encode


class Played:
    """A transport that answers every request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    async def send(self, request: HttpRequest) -> Played:  # noqa: ARG002 what the port says
        """Answer at once."""
        return self

    async def read(self) -> bytes:
        """Return all of it."""
        return self._body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield it as a network does."""
        for start in range(0, len(self._body), PIECE):
            yield self._body[start : start + PIECE]
            await asyncio.sleep(0)  # whoever reads the events gets its turn

    async def close(self) -> None:
        """There is no connection."""


def chat(chunks: int) -> bytes:
    """Return a stream of Chat Completions."""
    same = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def choice(delta: object, finish: str | None) -> object:
        return {**same, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    events = [choice({"role": "assistant", "content": ""}, None)]
    events += [choice({"content": WORD}, None)] * chunks
    usage = {"prompt_tokens": 9, "completion_tokens": chunks, "total_tokens": 9 + chunks}
    events += [choice({}, "stop"), {**same, "choices": [], "usage": usage}]
    return b"".join(b"data: " + _encode(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def responses(chunks: int) -> bytes:
    """Return a stream of OpenAI Responses."""
    text = WORD * chunks
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part: dict[str, object] = {
        "type": "output_text",
        "text": text,
        "annotations": [],
        "logprobs": [],
    }
    item: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
    }
    usage = {"input_tokens": 9, "output_tokens": chunks, "total_tokens": 9 + chunks}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m"}
    done = {**whole, "output": [{**item, "content": [part]}], "usage": usage}
    delta: dict[str, object] = {
        "type": "response.output_text.delta",
        **place,
        "delta": WORD,
        "logprobs": [],
    }
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *([delta] * chunks),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "content": [part]},
        },
        {"type": "response.completed", "response": done},
    ]
    return _named(
        {**event, "sequence_number": number, "obfuscation": "u1k2Jx"}
        for number, event in enumerate(events)
    )


def anthropic(chunks: int) -> bytes:
    """Return a stream of Anthropic Messages."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
    }
    delta = {"type": "text_delta", "text": WORD}
    begin = {"type": "text", "text": ""}
    stop: dict[str, object] = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[Mapping[str, object]] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        *([{"type": "content_block_delta", "index": 0, "delta": delta}] * chunks),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": chunks}},
        {"type": "message_stop"},
    ]
    return _named(events)


def gemini(chunks: int) -> bytes:
    """Return a stream of Gemini, in which every chunk counts the tokens so far."""

    def chunk(number: int) -> bytes:
        content = {"parts": [{"text": WORD}], "role": "model"}
        candidate: dict[str, object] = {"content": content, "index": 0}
        if number == chunks:
            candidate["finishReason"] = "STOP"
        counts = {"promptTokenCount": 9, "candidatesTokenCount": number, "totalTokenCount": 9}
        told = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m"}
        return b"data: " + _encode({**told, "responseId": "r1"}) + b"\r\n\r\n"

    return b"".join(chunk(number) for number in range(1, chunks + 1))


def _named(events: Iterable[Mapping[str, object]]) -> bytes:
    """Return events in the form that says the type twice."""
    return b"".join(
        b"event: " + str(event["type"]).encode() + b"\ndata: " + _encode(event) + b"\n\n"
        for event in events
    )


PROTOCOLS: Mapping[str, tuple[Callable[[int], bytes], Callable[[Played], Model]]] = {
    "Chat Completions": (chat, lambda played: OpenAI("m", api_key="k", transport=played)),
    "OpenAI Responses": (
        responses,
        lambda played: OpenAIResponses("m", api_key="k", transport=played),
    ),
    "Anthropic Messages": (
        anthropic,
        lambda played: Anthropic("m", api_key="k", transport=played),
    ),
    "Gemini": (gemini, lambda played: Gemini("m", api_key="k", transport=played)),
}


async def cost(agent: Agent, chunks: int) -> float:
    """Return the CPU seconds of one streamed run, from its bytes to its last event."""
    began, text, count = time.process_time(), "", 0
    async for event in agent.stream("How is the weather?"):
        if isinstance(event, TextDelta):
            text, count = event.text, count + 1
    spent = time.process_time() - began
    expect("chunks", count, chunks)
    expect("last text", text, WORD)
    return spent


async def measure(rounds: int, chunks: int) -> Sequence[Row]:
    """Measure all protocols in turn, round by round."""
    agents = {
        name: Agent("a", model(Played(made(chunks)))) for name, (made, model) in PROTOCOLS.items()
    }
    costs: dict[str, list[float]] = {name: [] for name in agents}
    for agent in agents.values():
        await cost(agent, chunks)
    for number in range(rounds):
        for name in rotated(list(agents), number):
            costs[name].append(await cost(agents[name], chunks) / chunks * 1e6)
    first = costs["Chat Completions"]
    return [
        Row(
            measure="protocols",
            what=f"{name}: a chunk of {chunks:,}",
            unit="us",
            lanes={"treadle": spread(found)},
            judged="to Chat Completions",
            value=pairwise(found, first),
            target=1.5,
        )
        for name, found in costs.items()
    ]


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.protocols", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default: 9)")
    parser.add_argument("--chunks", type=int, default=5_000, help="chunks (default: 5000)")
    options = parser.parse_args()
    rows = asyncio.run(measure(options.rounds, options.chunks))
    print(render(rows))
    missed = [row.what for row in rows if row.met is False]
    if missed:
        print(f"\nmissed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
