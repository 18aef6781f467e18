"""A client of any protocol on a real server of this machine, and what that server answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenarios.every_protocol import ALL, Api, Call, Client, Reply, Wire
from tests.servers import Answer, End, SseServer, serve, whole
from treadle.testing import assert_strict


def on(*apis: Api) -> pytest.MarkDecorator:
    """Run a test on these protocols."""
    return pytest.mark.parametrize("api", apis, ids=[api.name for api in apis])


on_every = on(*ALL)


@dataclass(frozen=True, slots=True)
class Line:
    """A client of one protocol and the server that it talks to."""

    api: Api
    model: Client
    server: SseServer

    @property
    def requests(self) -> list[Wire]:
        """The bodies that the server got."""
        return [request.json for request in self.server.requests]

    def results(self, number: int = -1) -> list[str]:
        """What tools returned, as one request says it: by default the last."""
        return [text for _, text in self.api.results(self.requests[number])]

    def ids(self, number: int = -1) -> list[str | None]:
        """The IDs under which one request gives results."""
        return [call_id for call_id, _ in self.api.results(self.requests[number])]


@asynccontextmanager
async def connect(api: Api, *answers: Answer, **options: Any) -> AsyncGenerator[Line]:
    """Serve these answers to a client; at the end, hold each request to the protocol's rules."""
    async with serve(*answers) as server:
        yield Line(api, api.client(server.url, **options), server)
    for request in server.requests:
        for kind in api.kinds:
            assert_strict(request.body, kind)


def frame(event: Wire | bytes) -> bytes:
    """Return an event as it is sent: in UTF-8, and with its name where it has one."""
    if isinstance(event, bytes):
        return event
    head = f"event: {event['type']}\n" if "type" in event else ""
    return f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def stream(*events: Wire | bytes, end: End = "done") -> Answer:
    """Return an answer of these events, each in a write of its own."""
    return Answer(pieces=tuple(map(frame, events)), end=end)


def streamed(api: Api, reply: Reply) -> list[Wire | bytes]:
    """Return all events of a stream."""
    return [*api.begun(reply), *api.ended(reply), *api.end]


def saying(
    api: Api, text: str = "", *calls: Call, streamed: bool, number: int = 1, **fields: Any
) -> Answer:
    """Answer with a text in two pieces, and calls."""
    middle = (len(text) + 1) // 2
    texts = [piece for piece in (text[:middle], text[middle:]) if piece]
    return answer(api, Reply(texts=texts, calls=calls, number=number, **fields), streamed=streamed)


def answer(api: Api, reply: Reply, *, streamed: bool) -> Answer:
    """Answer with this reply, whole or in pieces."""
    if not streamed:
        return whole(api.body(reply))
    return stream(*api.begun(reply), *api.ended(reply), *api.end)
