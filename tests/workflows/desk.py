"""A swarm of three: triage looks up and hands over, billing asks and hands over, refund answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.agent.nested import playing
from treadle import (
    Agent,
    Message,
    ModelReply,
    ModelRequest,
    RunContext,
    RunResult,
    Swarm,
    Usage,
    open_store,
    tool,
)
from treadle.testing import FunctionModel, calls, reply

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


def hands(to: str, message: str = "", call: str = "h", **options: Any) -> ModelReply:
    """A reply that hands the conversation over."""
    given = {"message": message} if message else {}
    return calls((call, f"transfer_to_{to}", given), usage=USAGE, **options)


def consults(whom: str, asked: str = "?", call: str = "q") -> ModelReply:
    """A reply that asks a member."""
    return calls((call, f"consult_{whom}", {"input": asked}), usage=USAGE)


def says(text: str) -> ModelReply:
    """A reply that answers."""
    return reply(text, usage=USAGE)


def member(name: str, *rounds: Any, **options: Any) -> Agent[Any, str]:
    """An agent that gives these replies, by the turn it is asked in, in this history."""
    return Agent(name, playing(*rounds), **options)


def last_result(request: ModelRequest) -> str:
    """What the last call of the request came to."""
    return request.messages[-1].tool_results[-1].text


def repeats(request: ModelRequest) -> ModelReply:
    """A reply that answers with what the last call came to."""
    return says(last_result(request))


def said_in(told: ModelRequest | RunResult[Any]) -> list[str]:
    """What users said in the messages of a request, or of a result."""
    return [message.text for message in told.messages if message.role == "user"]


def _begins(message: Message) -> bool:
    """Whether a member begins with this message."""
    handed = (each.text.startswith("Handed over to") for each in message.tool_results)
    return message.role == "user" or any(handed)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Any]:
    """Open a store, and close it."""
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()


class Desk:
    """The swarm; `asked` is each question to a model, `did` each effect of a tool, by its key."""

    def __init__(
        self, *, on_ask: Callable[[str], Any] | None = None, approval: bool = False, **options: Any
    ) -> None:
        self.asked: list[str] = []
        self.did: list[str] = []
        self.requests: list[tuple[str, ModelRequest]] = []
        self._on_ask = on_ask
        look = calls(("l", "look", {"invoice": 7}), usage=USAGE)
        both = calls(
            ("n", "note", {"text": "twice"}),
            ("h", "transfer_to_billing", {"message": "INV-7 was paid twice."}),
            usage=USAGE,
        )
        pay = calls(("p", "pay", {"amount": 50}), usage=USAGE)
        self.triage = self._member("triage", look, both)
        self.billing = self._member(
            "billing", consults("refund", "how much?"), hands("refund", "Pay 50.")
        )
        self.refund = self._member("refund", pay, says("It is paid."), approval=approval)
        self.swarm: Swarm[str] = Swarm(
            "desk",
            agents=[self.triage, self.billing, self.refund],
            handoffs={"triage": ["billing"], "billing": ["refund"], "refund": ["triage"]},
            **options,
        )

    def _member(self, name: str, *rounds: ModelReply, approval: bool = False) -> Agent[Any, str]:
        async def answer(request: ModelRequest) -> ModelReply:
            begins = max(n for n, each in enumerate(request.messages) if _begins(each))
            turn = sum(each.role == "assistant" for each in request.messages[begins:])
            self.asked.append(f"{name} {turn}")
            self.requests.append((name, request))
            if self._on_ask is not None:
                await self._on_ask(f"{name} {turn}")
            if request.messages[begins].text == "how much?":
                return says("50")
            return rounds[min(turn, len(rounds) - 1)]

        return Agent(name, FunctionModel(answer), tools=self._tools(approval=approval))

    def _tools(self, *, approval: bool) -> list[Any]:
        @tool
        async def look(ctx: RunContext, invoice: int) -> str:
            """Look an invoice up."""
            self.did.append(ctx.idempotency_key)
            ctx.state.set("invoice", invoice)
            return "paid on Monday, and on Tuesday"

        @tool
        async def note(ctx: RunContext, text: str) -> str:
            """Note something."""
            self.did.append(ctx.idempotency_key)
            ctx.state.set("noted", text)
            return "noted"

        @tool(approval=approval)
        async def pay(ctx: RunContext, amount: int) -> str:
            """Pay."""
            self.did.append(ctx.idempotency_key)
            ctx.state.set("paid", amount)
            return f"{amount} paid for invoice {ctx.state.get('invoice')}"

        return [look, note, pay]
