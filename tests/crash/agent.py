"""The agent that is killed: fifty turns of every kind of call, and an answer that sums them up.

Its model's replies depend on the history only. Each tool tells outside when it takes effect.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from treadle import Agent, Limits, Tool
from treadle.agent.outside import append_from_outside
from treadle.journal import AnyEntry, MessageQueued
from treadle.messages import Message
from treadle.ports.context import RunContext
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, calls
from treadle.view import View

TURNS = 50
APPROVED_TURN = 20
STEERED_TURN = 30
IDEMPOTENT = frozenset(("look", "note", "steer"))
STEERING = MessageQueued(
    run_id="", at=datetime(2026, 1, 1, tzinfo=UTC), id="msg_steer", message=Message.user("Faster.")
)

Where = Literal["model", "tool"]
Call = tuple[str, str, dict[str, Any]]
Tell = Callable[[str], None]


def asked(turn: int) -> list[Call]:
    """Return the calls that the model makes in a turn."""
    if turn == APPROVED_TURN:
        names = ["deploy"]
    elif turn == STEERED_TURN:
        names = ["steer"]
    else:
        kinds = (["pay"], ["look", "send", "look"], ["measure"], ["note"], ["pay", "look"])
        names = kinds[turn % len(kinds)]
    return [(f"{turn}-{place}", name, {"n": turn + place}) for place, name in enumerate(names)]


def answer_to(messages: Sequence[Message]) -> str:
    """Return the answer that the model gives to this history."""
    heard = [
        text
        for message in messages
        for text in (message.text, *(result.text for result in message.tool_results))
    ]
    return f"{len(heard)} texts, {zlib.crc32(' '.join(heard).encode()):08x}"


def turn_of(messages: Sequence[Message]) -> int:
    """Return the number of the turn that comes next, from 0."""
    return sum(message.role == "assistant" for message in messages)


class Hold:
    """Holds the run for a while, at one turn: in its model call, or in its tool."""

    def __init__(
        self, tell: Tell, where: Where | None = None, turn: int = 0, seconds: float = 0.0
    ) -> None:
        self._tell = tell
        self._point = (where, turn)
        self._seconds = seconds

    async def at(self, where: Where, turn: int) -> None:
        """Wait, where this is the point."""
        if self._point == (where, turn):
            self._tell(f"{where} {turn}")
            await asyncio.sleep(self._seconds)


def build(store: Any, tell: Tell, hold: Hold) -> Agent[None, str]:
    """Return the agent, whose tools tell what they do: name, call and key."""

    async def model(request: ModelRequest) -> str | ModelReply:
        turn = turn_of(request.messages)
        await hold.at("model", turn)
        if turn == TURNS:
            return answer_to(request.messages)
        return calls(*asked(turn), text=f"Turn {turn}.")

    return Agent(
        "crashing",
        model=FunctionModel(model),
        tools=_tools(store, tell, hold),
        limits=Limits(max_turns=TURNS * 4, max_tool_calls=TURNS * 12),
    )


def _tools(store: Any, tell: Tell, hold: Hold) -> list[Tool]:
    def take_effect(ctx: RunContext) -> None:
        tell(f"{ctx.tool} {ctx.call_id} {ctx.idempotency_key}")

    async def act(ctx: RunContext, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        take_effect(ctx)
        await hold.at("tool", int(ctx.call_id.partition("-")[0]))
        await asyncio.sleep(0)
        return f"{ctx.tool} {arguments['n']}"

    def measure(ctx: RunContext, arguments: dict[str, Any]) -> str:
        take_effect(ctx)
        return f"measured {arguments['n']}"

    async def note(ctx: RunContext, arguments: dict[str, Any]) -> int:
        noted = ctx.state.get("noted", 0) + arguments["n"]
        ctx.state.set("noted", noted)
        take_effect(ctx)
        ctx.state.set(f"note-{arguments['n']}", noted)
        return noted

    async def steer(ctx: RunContext, arguments: dict[str, Any]) -> str:
        def entries(view: View) -> Sequence[AnyEntry]:
            return [] if STEERING.id in view.mail.receipts else [STEERING]

        await append_from_outside(store, ctx.conversation_id, entries)
        take_effect(ctx)
        return "steered"

    return [
        _tool("pay", act, parallel=False),
        _tool("look", act, idempotent=True),
        _tool("send", act),
        _tool("measure", measure),
        _tool("note", note, idempotent=True),
        _tool("deploy", act, approval=True),
        _tool("steer", steer, idempotent=True),
    ]


def _tool(name: str, function: Any, **options: Any) -> Tool:
    schema = {"properties": {"n": {"type": "integer"}}}
    return Tool.from_schema(name, f"It does {name}.", schema, function, **options)
