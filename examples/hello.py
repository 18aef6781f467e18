"""An agent with one tool."""

from typing import Literal

from treadle import Agent, tool
from treadle.testing import ScriptedModel, calls


@tool
def get_weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather in a city.

    Args:
        city: City name, for example "Paris".
        unit: Temperature unit.
    """
    return f"18 {unit} in {city}"


# The script stands in for a model; elsewhere this is model="openai:gpt-5.2", for example.
model = ScriptedModel([calls(("c1", "get_weather", {"city": "Paris"})), "It is 18 C in Paris."])
agent = Agent("assistant", model, instructions="You are helpful.", tools=[get_weather])

result = agent.run_sync("Weather in Paris?")
print(result.output)
# > It is 18 C in Paris.
print(result.stop_reason, result.turns, result.usage.tool_calls)
# > answer 2 1
