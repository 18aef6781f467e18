"""A run whose process is killed in the middle of a tool, and that another process finishes."""

import asyncio
import subprocess
import sys
from tempfile import TemporaryDirectory

from treadle import Agent, ModelReply, ModelRequest, RunContext, open_store, tool
from treadle.testing import FunctionModel, calls, reply

WILL_BE_KILLED = len(sys.argv) > 1


@tool
async def reserve(item: str) -> str:
    """Reserve an item."""
    print("reserving", item, flush=True)
    return "reserved"


@tool(idempotent=True)
async def ship(ctx: RunContext, item: str) -> str:
    """Ship an item; shipping it twice under one key is shipping it once."""
    print("shipping", item, "under the key", ctx.idempotency_key, flush=True)
    if WILL_BE_KILLED:
        await asyncio.sleep(3600)
    return "shipped"


def answer(request: ModelRequest) -> ModelReply:
    """Stand in for a model: reserve, then ship, then say so."""
    asked = sum(message.role == "assistant" for message in request.messages)
    print("asking the model, turn", asked + 1, flush=True)
    steps = [
        calls(("c1", "reserve", {"item": "a loom"})),
        calls(("c2", "ship", {"item": "a loom"})),
        reply("Your loom is on its way."),
    ]
    return steps[asked]


agent = Agent("depot", FunctionModel(answer), tools=[reserve, ship])


async def begin(url: str) -> None:
    """Start the run; this process does not live to see its end."""
    await agent.run("Send me a loom.", run_id="order-7", store=open_store(url))


async def go_on(url: str) -> None:
    """Finish the run."""
    store = open_store(url)
    result = await agent.resume("order-7", store=store)
    print(result.output)
    print(result.turns, "turns,", result.usage.tool_calls, "tool calls")
    await store.close()


def main(url: str) -> None:
    """Start the run in a child, kill that while it ships, and finish the run here."""
    command = [sys.executable, __file__, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:  # noqa: S603 this file
        for line in child.stdout or ():
            print("child:", line.decode().strip())
            if line.startswith(b"shipping"):
                child.kill()
    asyncio.run(go_on(url))
    # > child: asking the model, turn 1
    # > child: reserving a loom
    # > child: asking the model, turn 2
    # > child: shipping a loom under the key order-7:c2
    # > shipping a loom under the key order-7:c2
    # > asking the model, turn 3
    # > Your loom is on its way.
    # > 3 turns, 2 tool calls


if WILL_BE_KILLED:
    asyncio.run(begin(sys.argv[1]))
else:
    with TemporaryDirectory() as folder:
        main(f"sqlite:///{folder}/orders.db")
