"""What the stories are made of: agents whose replies depend on what was said, and their tools.

All of it tells outside what it does: each question to a model, each effect of a call, and each of
a function that is a step.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from tests.crash.agent import Tell
from treadle import Agent, ModelReply, ModelRequest, RunContext, Tool, Usage
from treadle.testing import FunctionModel, calls, reply

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)
IDEMPOTENT = frozenset(("look", "note", "measure", "steer"))
"""The tools whose calls may take effect more than once."""

Call = tuple[str, str, dict[str, Any]]
Round = str | Sequence[Call] | Callable[[ModelRequest], "str | Sequence[Call]"]
"""What a model says in a turn: a text, or calls; or what makes that of the request."""


class Cast:
    """Makes the agents and the tools of one story, which tell what they do."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.tools = [
            _tool("look", self._act, idempotent=True),
            _tool("pay", self._act),
            _tool("book", self._act, parallel=False),
            _tool("measure", self._measure, idempotent=True),
            _tool("note", self._note, idempotent=True),
        ]

    def agent(self, name: str, *rounds: Round, tools: Sequence[Any] = (), **options: Any) -> Agent:
        """Return an agent that says these rounds, one a turn, the last again and again."""
        model = FunctionModel(self._model(name, rounds))
        return Agent(name, model=model, tools=[*self.tools, *tools], **options)

    def _model(self, name: str, rounds: Sequence[Round]) -> Callable[[ModelRequest], ModelReply]:
        def answer(request: ModelRequest) -> ModelReply:
            turn = sum(message.role == "assistant" for message in request.messages)
            mark = f"{name}:{turn}:{zlib.crc32(encode(list(request.messages))):08x}"
            self.tell(f"asked {mark}")
            said = rounds[min(turn, len(rounds) - 1)]
            made = said(request) if callable(said) else said
            if isinstance(made, str):
                return replace(reply(made, usage=USAGE), model=mark)
            return replace(calls(*made, text=f"Turn {turn}.", usage=USAGE), model=mark)

        return answer

    def took_effect(self, ctx: RunContext) -> None:
        """Tell that a call takes effect."""
        self.tell(f"call {ctx.call_id} {ctx.tool} {ctx.idempotency_key}")

    async def step(self, key: str, attempt: int) -> None:
        """Take effect in a function that is a step of a flow."""
        await asyncio.sleep(0)
        self.tell(f"step {key} {attempt}")
        await asyncio.sleep(0)

    async def _act(self, ctx: RunContext, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        self.took_effect(ctx)
        await asyncio.sleep(0)
        return f"{ctx.tool} {arguments['n']}"

    def _measure(self, ctx: RunContext, arguments: dict[str, Any]) -> str:
        self.took_effect(ctx)
        return f"measured {arguments['n']}"

    async def _note(self, ctx: RunContext, arguments: dict[str, Any]) -> int:
        noted = ctx.state.get("noted", 0) + arguments["n"]
        ctx.state.set("noted", noted)
        self.took_effect(ctx)
        ctx.state.session.set(f"note-{arguments['n']}", noted)
        return noted


def _tool(name: str, function: Any, **options: Any) -> Tool:
    schema = {"properties": {"n": {"type": "integer"}}}
    return Tool.from_schema(name, f"It does {name}.", schema, function, **options)


def does(*names: str, n: int = 1) -> list[Call]:
    """Return calls of these tools, each with a number."""
    return [(f"{name}-{n + place}", name, {"n": n + place}) for place, name in enumerate(names)]


def asks(*names: str) -> list[Call]:
    """Return calls of agents that are tools."""
    return [(f"ask-{name}", name, {"input": f"Well, {name}?"}) for name in names]


def summed(request: ModelRequest) -> str:
    """Return a text that depends on what was said, but for outcomes that may be unknown."""
    heard = [message.text for message in request.messages]
    for message in request.messages:
        heard += [each.text for each in message.tool_results if each.name in ("look", "note")]
    return f"{len(heard)} texts, {zlib.crc32(' '.join(heard).encode()):08x}"
