"""Agents for the command line's tests: they answer by rule, without a network."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from tests.agent.relay import Relay
from treadle import (
    Agent,
    AuthenticationFailed,
    Finish,
    Interrupt,
    Message,
    ModelReply,
    Reasoning,
    tool,
)
from treadle.ports.model import ModelProfile, ModelRequest
from treadle.testing import FunctionModel, calls, chunks, raises, reply
from treadle.testing.scripted import Chunks, Raises, last_text


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def wait() -> str:
    """Wait for ever."""
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
    return "never"


@tool
def answer(numbers: list[int]) -> Finish:
    """End the run with these numbers."""
    return Finish(numbers)


@tool(approval=True)
def refund(invoice: str, amount: int) -> str:
    """Give money back."""
    return f"{amount} for {invoice}"


@tool(name="refund", approval=True)
def refund_in_words(invoice: str, amount: int, why: str) -> str:
    """Give money back, and say why."""
    return f"{amount} for {invoice}: {why}"


@tool
def ask_human() -> Interrupt:
    """Wait for somebody."""
    return Interrupt("a human has to look")


def clerk_replies(request: ModelRequest) -> ModelReply | str:
    """Refund each invoice that was named, all in one reply, then tell the results."""
    last = request.messages[-1]
    if last.role != "user":
        return "Done: " + "; ".join(result.text for result in last.tool_results)
    invoices = [word for word in last_text(request).split() if word.startswith("INV")]
    wanted = [
        (f"c{place}", "refund", {"invoice": invoice, "amount": 500})
        for place, invoice in enumerate(invoices, 1)
    ]
    return calls(*wanted, text="One moment.") if wanted else f"{len(request.messages)} heard."


def call_human(request: ModelRequest) -> ModelReply | str:
    """Wait for a human once."""
    return calls(("c1", "ask_human", {})) if last_text(request) == "wait" else "Seen."


def count(request: ModelRequest) -> str:
    """Say how much has been said, and what came last."""
    return f"{len(request.messages)}: {last_text(request)}"


def sum_up(request: ModelRequest) -> ModelReply | str:
    """Call `add` once, then tell its result."""
    if request.messages[-1].role == "user":
        return calls(("c1", "add", {"a": 20, "b": 3}), text="Let me see.")
    return f"It is {last_text(request)}."


def call_wait(request: ModelRequest) -> ModelReply | str:
    """Call `wait`, unless the last thing said was about something else."""
    return (
        calls(("c1", "wait", {}), text="One moment.") if last_text(request) == "wait" else "Here."
    )


def fail(_: ModelRequest) -> Raises:
    """Be refused after some text."""
    return raises(AuthenticationFailed("The key was refused.\nCheck it.", provider="x"), "Well, ")


def think(_: ModelRequest) -> Chunks:
    """Think, then answer, with a control character in it."""
    return chunks([Reasoning("Let me think."), "Done", "\x1b[2J."])


def finish(_: ModelRequest) -> ModelReply:
    """Answer with a value."""
    return calls(("c1", "answer", {"numbers": [1, 2]}))


def long_result(request: ModelRequest) -> ModelReply | Message:
    """Call `lines`, which prints a lot."""
    if request.messages[-1].role == "user":
        return calls(("c1", "lines", {"text": "x" * 300}))
    return reply("ok").message


@tool
def lines(text: str) -> str:
    """Return many lines."""
    return "\n".join(f"{number} {text}" for number in range(20))


def extract(_: ModelRequest) -> str:
    """Answer in JSON."""
    return '{"number": 7}'


@dataclass
class Page:
    """What `extractor` answers with."""

    number: int


counter = Agent("counter", FunctionModel(count))
adder = Agent("adder", FunctionModel(sum_up), tools=[add])
waiter = Agent("waiter", FunctionModel(call_wait), tools=[wait])
failing = Agent("failing", FunctionModel(fail))
thinker = Agent("thinker", FunctionModel(think))
finisher = Agent("finisher", FunctionModel(finish), tools=[answer])
liner = Agent("liner", FunctionModel(long_result), tools=[lines])
extractor = Agent(
    "extractor",
    FunctionModel(extract, profile=ModelProfile(native_output=True)),
    output_type=Page,
)
clerk = Agent("clerk", FunctionModel(clerk_replies), tools=[refund])
new_clerk = Agent("clerk", FunctionModel(clerk_replies), tools=[refund_in_words])
interrupter = Agent("interrupter", FunctionModel(call_human), tools=[ask_human])
modelless = Agent("modelless")
number = 3


steps = FunctionModel(lambda request: reply(f"Done: {last_text(request)}"))
relay = Relay("relay", Agent("first", steps), (), Agent("last", steps))
