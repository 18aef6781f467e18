"""State that tools share, and that a conversation keeps."""

import asyncio

from treadle import Agent, MemoryStore, RunContext, tool
from treadle.testing import ScriptedModel, calls


@tool
def look(ctx: RunContext) -> list[str]:
    """Look into the cart."""
    return ctx.state.get("cart") or []


@tool
def put(ctx: RunContext, item: str) -> str:
    """Put an item into the cart."""
    cart = [*look(ctx), item]
    ctx.state.set("cart", cart)
    return f"{len(cart)} in the cart"


async def main() -> None:
    """Fill a cart in two runs of one conversation."""
    store = MemoryStore()
    script = [
        calls(("c1", "put", {"item": "tea"})),
        "Tea is in.",
        calls(("c2", "put", {"item": "milk"})),
        calls(("c3", "look", {})),
        "Tea and milk.",
    ]
    agent = Agent("shop", ScriptedModel(script), tools=[put, look], store=store)
    await agent.run("Tea, please.", conversation="c1")
    result = await agent.run("And milk. What have I got?", conversation="c1")
    print([each.value for each in result.tool_results])
    # > ['2 in the cart', ['tea', 'milk']]


asyncio.run(main())
