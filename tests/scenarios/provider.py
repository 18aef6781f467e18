"""A model on a real server of this machine, whose every request is held to the strict rules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers import DONE, Answer, SseServer, delta, reply, serve, stream, whole
from treadle import Agent, Retry, RunResult
from treadle.events import AnyEvent
from treadle.providers import OpenAI
from treadle.testing import FakeClock, assert_strict
from treadle.testing.strict import Kind

Call = tuple[str, str, str]
"""A call as a server sends it: its ID, the tool's name, and the text of the arguments."""

BOTH: tuple[Kind, ...] = ("openai", "template")
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}

both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


@dataclass(frozen=True, slots=True)
class Provider:
    """A client and the server that it talks to."""

    model: OpenAI
    server: SseServer

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies that the server got."""
        return [request.json for request in self.server.requests]

    def messages(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of one request, by default of the last one."""
        return self.requests[number]["messages"]

    def results(self, number: int = -1) -> dict[str, str]:
        """The tool messages of one request: call ID to content."""
        said = self.messages(number)
        return {m["tool_call_id"]: m["content"] for m in said if m["role"] == "tool"}


@asynccontextmanager
async def provider(
    *answers: Answer, kinds: Sequence[Kind] = BOTH, **options: Any
) -> AsyncGenerator[Provider]:
    """Serve these answers to a client; at the end, hold each request to the rules of `kinds`."""
    async with serve(*answers) as server:
        yield Provider(OpenAI("m", base_url=server.url, **options), server)
    for request in server.requests:
        for kind in kinds:
            assert_strict(request.body, kind)


def saying(
    text: str | None, *calls: Call, streamed: bool, finish: str | None = None, **fields: Any
) -> Answer:
    """Answer with a text and calls, whole or in pieces of a few characters."""
    finish = finish or ("tool_calls" if calls else "stop")
    if not streamed:
        wires = [wire(*call) for call in calls]
        return whole(reply(text, finish, **({"tool_calls": wires} if wires else {}), **fields))
    deltas = [delta(**{name: value}) for name, value in fields.items()]
    deltas += [delta(content=text[at : at + 3]) for at in range(0, len(text or ""), 3) if text]
    for place, (call_id, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        deltas.append(delta(tool_calls=[wire(call_id, name, arguments[:half], index=place)]))
        more: dict[str, Any] = {"index": place, "function": {"arguments": arguments[half:]}}
        deltas.append(delta(tool_calls=[more]))
    return stream(*deltas, delta(finish), {"choices": [], "usage": USAGE}, DONE)


def wire(call_id: str, name: str, arguments: str, **fields: Any) -> dict[str, Any]:
    """Return one call in the server's form."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **fields}


async def ask(
    agent: Agent[Any, Any], input: Any, *, streamed: bool, **options: Any
) -> RunResult[Any]:
    """Run the agent, watched (then its model streams) or not."""
    if not streamed:
        return await agent.run(input, **options)
    run = agent.start(input, **options)
    assert [event async for event in run]
    return await run


async def watch(agent: Agent[Any, Any], input: Any = "x", **options: Any) -> list[AnyEvent]:
    """Return every event that `agent.stream` yields."""
    return [event async for event in agent.stream(input, **options)]


def kinds_of(events: Sequence[AnyEvent]) -> list[str]:
    """Return the dotted types of events."""
    return [event.type for event in events]


def patient(attempts: int = 3, **options: Any) -> tuple[Retry, FakeClock]:
    """Return a retry policy, and the clock on which its waits pass at once."""
    clock = FakeClock()
    return Retry(attempts=attempts, clock=clock, jitter=0, **options), clock
