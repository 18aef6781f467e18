"""A run that outgrows its window: old turns leave, exact references stay."""

import asyncio
from itertools import count

from treadle import Agent, Compaction, ContextCompacted, Conversation, Limits, MemoryStore, tool
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, calls, reply

NUMBERS = count(1)


def answer(request: ModelRequest) -> ModelReply:
    """Read thirty reports, then answer; write notes when asked for one."""
    if not request.tools:
        return reply('{"rolling_summary": "Reports were read.", "user_goal": ["The worst delay."]}')
    number = next(NUMBERS)
    if number <= 30:
        return calls((f"c{number}", "read_report", {"number": number}))
    return reply("The worst delay was in ORD-0017.")


@tool
async def read_report(number: int) -> str:
    """Read a report."""
    filler = "All went as it was planned, and nothing more is to be said of that day. " * 12
    return f"Report on ORD-{number:04}, at https://example.com/orders/{number}. {filler}"


async def main() -> None:
    """Run, watch what leaves, and look at what is left."""
    store = MemoryStore()
    agent = Agent(
        "reader",
        model=FunctionModel(answer),
        tools=[read_report],
        compaction=Compaction(window=4_000),
        limits=Limits(max_turns=50),
        store=store,
    )
    run = agent.start("Which order was delayed the most?", conversation="reports")
    async for event in run:
        if isinstance(event, ContextCompacted):
            print(f"{event.strategy}: {event.messages_before} -> {event.messages} messages")
    result = await run
    print(result.output)
    print(result.messages[0].text)
    print("ORD-0001" in result.messages[1].text, "orders/1" in result.messages[1].text)
    print(result.context.compactions, result.context.total < 4_000)
    conversation = await Conversation.open("reports", store=store)
    print(len(result.messages), "of", len(await conversation.entries()), "entries are in the view")


asyncio.run(main())
