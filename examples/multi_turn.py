"""A conversation, continued from its history, and one that a store keeps."""

import asyncio

from treadle import Agent, open_store
from treadle.testing import ScriptedModel


async def main() -> None:
    """Talk twice, in both ways."""
    agent = Agent("assistant", ScriptedModel(["Noted.", "It is heron."]))
    first = await agent.run("The codename is heron.")
    second = await agent.run("What is the codename?", history=first.messages)
    print([message.role for message in second.messages])
    # > ['user', 'assistant', 'user', 'assistant']
    print(second.output)
    # > It is heron.

    model = ScriptedModel(["Noted.", "It is heron."])
    agent, store = agent.replace(model=model), open_store("memory:")
    await agent.run("The codename is heron.", conversation="c1", store=store)
    await agent.run("What is the codename?", conversation="c1", store=store)
    print([message.text for message in model.requests[-1].messages])
    # > ['The codename is heron.', 'Noted.', 'What is the codename?']


asyncio.run(main())
