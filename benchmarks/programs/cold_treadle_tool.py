"""Ask one question with Treadle, with a tool at hand that the model does not call."""

import asyncio
import sys

from treadle import Agent, tool
from treadle.providers import OpenAI


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"mild in {city}"


async def main(provider: str) -> None:
    """Print the answer."""
    model = OpenAI("m", api_key="x", base_url=f"{provider}/answer/v1")
    agent = Agent("assistant", model, instructions="Answer briefly.", tools=[get_weather])
    result = await agent.run("What is the weather like?")
    print(result.output)


asyncio.run(main(sys.argv[1]))
