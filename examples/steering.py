"""Messages to a run at work: one that it takes in, and one that stops it."""

import asyncio

from treadle import Agent, Conversation, ConversationFinalized, ModelReply, open_store, tool
from treadle.testing import ScriptedModel, calls

store = open_store("memory:")
searching, found = asyncio.Event(), asyncio.Event()
LOOK = calls(("c1", "search", {"query": "looms"}))


@tool
async def search(query: str) -> str:
    """Search; it takes a while."""
    searching.set()
    await found.wait()
    return f"12 papers on {query}"


def agent(*script: str | ModelReply) -> Agent:
    """Return an agent whose model follows this script."""
    return Agent("librarian", ScriptedModel(list(script)), tools=[search], store=store)


async def steer() -> None:
    """Say something while a tool runs: the model gets it in its next turn."""
    run = agent(LOOK, "Three of them are new.").start("Papers on looms?", conversation="c1")
    await searching.wait()
    receipt = await run.steer("Only new ones, please.")
    print(receipt.status)
    # > queued
    found.set()
    result = await run
    print(receipt.status, [message.role for message in result.messages])
    # > applied ['user', 'assistant', 'tool', 'user', 'assistant']
    try:
        await run.steer("Thank you.")
    except ConversationFinalized as error:
        print(error)
    # > Conversation 'c1' has its answer; start another run with this.


async def stop() -> None:
    """Stop a run by its conversation, as another process would, and leave word for the next one."""
    searching.clear()
    found.clear()
    run = agent(LOOK).start("Papers on looms?", conversation="c2")
    await searching.wait()
    conversation = await Conversation.open("c2", store=store)
    await conversation.cancel("We are closing.")
    result = await run
    print(result.stop_reason, "-", result.reason)
    # > cancelled - We are closing.
    receipt = await conversation.steer("I meant hand looms.")
    result = await agent("There are five.").run("Once more, please.", conversation="c2")
    print(await receipt.refresh(), [message.text for message in result.messages[-3:]])
    # > applied ['I meant hand looms.', 'Once more, please.', 'There are five.']


async def main() -> None:
    """Do both."""
    await steer()
    await stop()


asyncio.run(main())
