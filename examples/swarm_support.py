"""A support desk of three: they hand the conversation over, and share what they found out."""

import asyncio

from treadle import Agent, MemoryStore, RunContext, Swarm, tool
from treadle.events import HandedOff
from treadle.testing import ScriptedModel, calls


@tool
async def find_invoice(ctx: RunContext, customer: str) -> str:
    """Find the last invoice of a customer."""
    ctx.state.set("invoice", 123)  # its own; a handoff moves it to where the others see it
    return f"{customer} paid invoice 123 twice"


@tool
async def pay_back(ctx: RunContext, amount: int) -> str:
    """Pay money back."""
    invoice = ctx.state.get("invoice")
    return f"{amount} euros of invoice {invoice} are paid back; it is {type(invoice).__name__} 123"


def desk() -> Swarm[str]:
    """Return the swarm."""
    triage = Agent(
        "triage",
        ScriptedModel(
            [
                calls(("c1", "find_invoice", {"customer": "Ada"})),
                calls(("c2", "transfer_to_billing", {"message": "Invoice 123 was paid twice."})),
            ]
        ),
        tools=[find_invoice],
    )
    billing = Agent(
        "billing",
        ScriptedModel(
            [
                calls(("c1", "consult_legal", {"input": "May we pay 40 euros back?"})),
                calls(("c2", "pay_back", {"amount": 40})),
                "You have your 40 euros back.",
                "On Friday.",
            ]
        ),
        tools=[pay_back],
        description="Knows invoices, and pays money back.",
    )
    legal = Agent("legal", ScriptedModel(["Yes, you may."]), description="Knows the law.")
    return Swarm(
        "support",
        agents=[triage, billing, legal],
        handoffs={"triage": ["billing"]},
        consults={"billing": ["legal"]},
        max_handoffs=5,
        store=MemoryStore(),
    )


async def main() -> None:
    """Ask for a refund, and then ask whoever answered."""
    support = desk()
    run = support.start("I need a refund for invoice 123.", conversation="ada")
    async for event in run:
        if isinstance(event, HandedOff):
            print(f"{event.source} hands over to {event.target}: {event.text}")
    # > triage hands over to billing: Invoice 123 was paid twice.
    result = await run
    print(result.output)
    # > You have your 40 euros back.
    print(result.tool_results[-1].text)
    # > 40 euros of invoice 123 are paid back; it is int 123
    for step in result.steps:
        print(step.agent, step.turns, step.usage.tool_calls)
    # > triage 2 2
    # > billing 3 2
    after = await support.run("When?", conversation="ada")
    print(after.agent, "-", after.output)
    # > billing - On Friday.


asyncio.run(main())
