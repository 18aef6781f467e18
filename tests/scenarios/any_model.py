"""A model that plays any script, and holds each request that it gets to the strict rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tests.servers import reply
from treadle import Message, ModelError, ModelReply, ModelRequest, Overloaded, Reasoning, Run, Text
from treadle.messages import Part, ToolCall
from treadle.ports.model import FinishReason, ModelDelta, TextPiece
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
from treadle.testing import assert_strict
from treadle.usage import Usage


class Step(Struct, frozen=True):
    """One reply: what it says, the calls it makes, and how it ends."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    thought: str = ""
    end: FinishReason | None = None
    fails: str = ""

    @property
    def reply(self) -> ModelReply:
        """The reply whole."""
        parts: list[Part] = [Reasoning(self.thought)] if self.thought else []
        parts += [Text(self.text)] if self.text else []
        parts += [ToolCall(call_id, name, raw) for call_id, name, raw in self.calls]
        finish: FinishReason = self.end or ("tool_calls" if self.calls else "stop")
        message = Message("assistant", tuple(parts))
        return ModelReply(message=message, usage=Usage(3, output_tokens=2), finish_reason=finish)


class Captured:
    """A transport that keeps the bodies it is given and answers them all."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def send(self, request: HttpRequest) -> Captured:
        """Keep the body."""
        self.bodies.append(request.body)
        return self

    async def read(self) -> bytes:
        """Answer."""
        return json.dumps(reply("yes")).encode()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Answer."""
        yield await self.read()

    async def close(self) -> None:
        """Nothing is open."""


class Player:
    """Plays its steps and then says done. `run` is the run that is to be cancelled when told so."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self._wire = Captured()
        self._clients = {
            "openai": OpenAI("m", api_key="k", transport=self._wire),
            "template": OpenAI("m", api_key="k", merge_roles=True, transport=self._wire),
        }
        self._cancelling: list[asyncio.Task[Any]] = []
        self.run: Run[Any] | None = None
        self.asked = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer whole."""
        step = await self._next(request)
        if step.fails:
            await self._fail(step)
        return step.reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer in pieces of three characters."""
        step = await self._next(request)
        for at in range(0, len(step.text), 3):
            yield TextPiece(step.text[at : at + 3])
        if step.fails:
            await self._fail(step)
        yield step.reply

    async def check(self, request: ModelRequest) -> None:
        """Hold a request to what OpenAI and chat templates want."""
        for kind, client in self._clients.items():
            await client.complete(request)
            assert_strict(self._wire.bodies.pop(), "openai" if kind == "openai" else "template")

    async def cancel_run(self) -> None:
        """Have the run cancelled, and wait for that."""
        assert self.run is not None
        self._cancelling.append(asyncio.ensure_future(self.run.cancel("enough")))
        await asyncio.get_running_loop().create_future()

    async def _next(self, request: ModelRequest) -> Step:
        await self.check(request)
        self.asked += 1
        return self._steps.pop(0) if self._steps else Step("done")

    async def _fail(self, step: Step) -> None:
        match step.fails:
            case "cancel":
                await self.cancel_run()
            case "later":
                raise Overloaded("busy")
            case "broken":
                raise RuntimeError("a model of somebody else's")
            case _:
                raise ModelError("no")
