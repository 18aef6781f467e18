"""An overloaded provider under many runs at once: each ends, and the limits hold all the while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.scenarios.provider import both_ways, saying
from tests.servers import Answer, delta, serve, stream, whole
from treadle import Agent, ModelError, ModelSettings, Retry
from treadle.models import Fallback, RateLimit
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers import OpenAI
from treadle.providers._http import HTTP
from treadle.testing import FakeClock

RUNS = 200
IMPATIENT = ModelSettings(timeout=0.5)


class Counting:
    """A transport that counts how many exchanges are open."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send, and count until the answer is closed."""
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            return _Counted(await HTTP.send(request), self)
        except BaseException:
            self.open -= 1
            raise


class _Counted:
    """A response that says when it is closed."""

    def __init__(self, response: HttpResponse, counting: Counting) -> None:
        self._response = response
        self._counting = counting

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        return await self._response.read()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.pieces()

    async def close(self) -> None:
        self._counting.open -= 1
        await self._response.close()


def trouble(*, streamed: bool) -> list[Answer]:
    """What an overloaded server does, one after another."""
    busy = {"error": {"message": "busy", "code": "overloaded"}}
    cut = Answer(pieces=(b'{"choices": [',), framing="length", length=500, end="close")
    half = stream(delta(content="Hal")) if streamed else cut
    return [
        saying("Hello.", streamed=streamed),
        whole(busy, 429, {"Retry-After": "3"}),
        saying("Hello.", streamed=streamed),
        whole(busy, 503),
        Answer(end="reset"),
        whole(busy, 529),
        half,
        saying("Hello.", streamed=streamed),
        Answer(end="hang"),
    ]


async def outcome(agent: Agent[Any, str], *, streamed: bool) -> str:
    """What a run comes to: its answer, or the class of its error."""
    run = agent.start("Hello?")
    try:
        if streamed:
            async for _ in run:
                pass
        return (await run).output
    except ModelError as error:
        return type(error).__name__


async def outcomes(agent: Agent[Any, str], *, streamed: bool) -> list[str]:
    """What many runs at once come to."""
    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(outcome(agent, streamed=streamed)) for _ in range(RUNS)]
    return [task.result() for task in runs]


@both_ways
async def test_every_run_ends(streamed: bool) -> None:
    """With an answer or a typed error; no exchange and no task is left, and no bound exceeded."""
    counting, retry = Counting(), Retry(attempts=4, clock=FakeClock())
    async with serve(*trouble(streamed=streamed) * RUNS) as server:
        client = OpenAI("m", base_url=server.url, settings=IMPATIENT, transport=counting)
        agent = Agent("a", RateLimit(client, concurrency=20), retry=retry)
        ends = await outcomes(agent, streamed=streamed)

    assert len(ends) == RUNS
    assert ends.count("Hello.") > RUNS / 4
    assert set(ends) <= {"Hello.", "RateLimited", "Overloaded", "IncompleteReply", "ModelTimeout"}
    assert (counting.open, counting.most) == (0, 20)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both_ways
async def test_a_second_provider_answers_for_the_first(streamed: bool) -> None:
    """Every run has an answer, none of it from the half of another one."""
    counting = Counting()
    async with (
        serve(*trouble(streamed=streamed) * RUNS) as server,
        serve(saying("Hello.", streamed=streamed)) as other,
    ):
        first = OpenAI("m", base_url=server.url, settings=IMPATIENT, transport=counting)
        second = OpenAI("n", base_url=other.url, transport=counting)
        model = Fallback(RateLimit(first, concurrency=20), RateLimit(second, concurrency=5))
        ends = await outcomes(Agent("a", model, retry=Retry(attempts=1)), streamed=streamed)

    assert ends == ["Hello."] * RUNS
    assert counting.open == 0
    assert counting.most <= 25
    assert 0 < len(server.requests) <= RUNS
