"""Ask one question with Treadle."""

import asyncio
import sys

from treadle import Agent
from treadle.providers import OpenAI


async def main(provider: str) -> None:
    """Print the answer."""
    model = OpenAI("m", api_key="x", base_url=f"{provider}/answer/v1")
    agent = Agent("assistant", model, instructions="Answer briefly.")
    result = await agent.run("What is the weather like?")
    print(result.output)


asyncio.run(main(sys.argv[1]))
