"""How often the local model calls the right tool and answers from its result.

    python benchmarks/local_reliability.py [model]

Twenty questions that need one call of one of four tools, asked of a whole agent; then twenty calls
that are forced, whose arguments must fit the tool's schema. The questions were written after the
words of `treadle.providers.local.template` were fixed: do not change those words to suit them.
Exits with 1 when fewer than 18 questions come out right, or a forced call does not parse.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from typing import NamedTuple

import msgspec

from treadle import Agent, RunResult, tool
from treadle.errors import ModelError
from treadle.messages import Message, Thread, ToolCall
from treadle.ports.model import ModelRequest, ModelSettings, ToolSpec
from treadle.providers.local.model import Local

LEAST_RIGHT = 18
WEATHER = {
    "lisbon": "24 degrees, sunny",
    "helsinki": "-6 degrees, snow",
    "nairobi": "27 degrees, cloudy",
    "dublin": "11 degrees, rain",
}
CLOCKS = {"toronto": "08:20", "mumbai": "17:50", "lagos": "13:20", "seoul": "21:20"}
STOCK = {"umbrella": 38, "candle": 412, "notebook": 56, "bicycle": 7}


@tool
def calculate(expression: str) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: Numbers and + - * /, for example "2 + 3".
    """
    found = re.fullmatch(r"\s*(-?[\d.]+)\s*([-+*/x])\s*(-?[\d.]+)\s*=?\s*", expression)
    if not found:
        return f"{expression!r} is not of the form: number operator number"
    left, right = float(found[1]), float(found[3])
    match found[2]:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "/":
            value = left / right if right else float("nan")
        case _:
            value = left * right
    return f"{value:g}"


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city right now.

    Args:
        city: Name of the city.
    """
    return WEATHER.get(city.lower().partition(",")[0], f"no weather station in {city}")


@tool
def get_time(city: str) -> str:
    """Get the time of day in a city.

    Args:
        city: Name of the city.
    """
    return CLOCKS.get(city.lower().partition(",")[0], f"no clock in {city}")


@tool
def count_stock(item: str) -> str:
    """Count the pieces of an item that are in stock.

    Args:
        item: Name of the item.
    """
    count = STOCK.get(item.lower().rstrip("s"))
    return f"no item called {item}" if count is None else f"{count} pieces"


class Question(NamedTuple):
    """What is asked, the tool to call, and what must stand in its result and in the answer."""

    text: str
    tool: str
    result: str
    answer: str


QUESTIONS = [
    Question("What is 318 + 467?", "calculate", "785", "785"),
    Question("What is 902 - 485?", "calculate", "417", "417"),
    Question("What is 36 * 27?", "calculate", "972", "972"),
    Question("What is 1530 / 45?", "calculate", "34", "34"),
    Question("Please work out 77 plus 194.", "calculate", "271", "271"),
    Question("How much is 640 minus 256?", "calculate", "384", "384"),
    Question("Multiply 58 by 16.", "calculate", "928", "928"),
    Question("Divide 1125 by 9.", "calculate", "125", "125"),
    Question("What is the weather like in Lisbon?", "get_weather", "24", "24|sunny"),
    Question("How warm is it in Helsinki?", "get_weather", "-6", "-6"),
    Question("Tell me the weather in Nairobi.", "get_weather", "27", "27|cloud"),
    Question("Is it raining in Dublin?", "get_weather", "11", "rain"),
    Question("What time is it in Toronto?", "get_time", "08:20", "0?8:20"),
    Question("Tell me the time in Mumbai.", "get_time", "17:50", "17:50|5:50"),
    Question("What is the current time in Lagos?", "get_time", "13:20", "13:20|1:20"),
    Question("What's the time in Seoul right now?", "get_time", "21:20", "21:20|9:20"),
    Question("How many umbrellas are in stock?", "count_stock", "38", "38"),
    Question("Check the stock of candles.", "count_stock", "412", "412"),
    Question("Are there any notebooks in stock?", "count_stock", "56", "56|yes"),
    Question("How many bicycles do we have in stock?", "count_stock", "7", "7|seven"),
]
TOOLS = [calculate, get_weather, get_time, count_stock]


def is_right(question: Question, result: RunResult[str]) -> bool:
    """Whether the one right call was made and its result stands in the answer."""
    made = [call.name for message in result.messages for call in message.tool_calls]
    came = " ".join(part.text for message in result.messages for part in message.tool_results)
    return (
        result.stop_reason == "answer"
        and made == [question.tool]
        and question.result in came
        and re.search(question.answer, result.output, re.IGNORECASE) is not None
    )


async def ask_all(model: Local) -> int:
    """Ask every question of a fresh run, and return how many came out right."""
    agent = Agent("assistant", model=model, instructions="You are helpful.", tools=TOOLS)
    right = 0
    for question in QUESTIONS:
        start = time.perf_counter()
        try:
            result = await agent.run(question.text)
        except ModelError as error:
            good, calls, said = False, [], f"{type(error).__name__}: {error}"
        else:
            good, said = is_right(question, result), result.output
            calls = [call for message in result.messages for call in message.tool_calls]
        right += good
        print(f"{'ok ' if good else 'BAD'} {time.perf_counter() - start:5.1f} s  {question.text}")
        made = "; ".join(f"{call.name}({call.raw})" for call in calls) or "no call"
        print(f"             {made} -> {said!r}")
    return right


async def force_all(model: Local) -> int:
    """Force a call for every question, and return how many have arguments that fit."""
    specs = tuple(ToolSpec(each.name, each.description, each.parameters) for each in TOOLS)
    required = {each.name: set(each.parameters["properties"]) for each in TOOLS}
    fit = 0
    for question in QUESTIONS:
        request = ModelRequest(
            messages=Thread([Message.user(question.text)]),
            tools=specs,
            settings=ModelSettings(tool_choice="required"),
        )
        reply = await model.complete(request)
        calls = reply.message.tool_calls
        good = len(calls) == 1 and fits(calls[0], required.get(calls[0].name, set()))
        fit += good
        if not good:
            print(f"BAD forced: {question.text} -> {reply.message.text!r} {calls}")
    return fit


def fits(call: ToolCall, required: set[str]) -> bool:
    """Whether the arguments are JSON texts under exactly the required names."""
    try:
        arguments = msgspec.json.decode(call.raw, type=dict[str, str])
    except msgspec.MsgspecError:
        return False
    return arguments.keys() == required


async def main() -> int:
    """Print the table and return the exit status."""
    model = Local(sys.argv[1] if len(sys.argv) > 1 else "")
    start = time.perf_counter()
    right = await ask_all(model)
    middle = time.perf_counter()
    fit = await force_all(model)
    end = time.perf_counter()
    count = len(QUESTIONS)
    print(f"\n{model.profile.name}, all four tools offered for every question")
    print(f"whole loops right     {right:2} of {count}   {middle - start:6.1f} s")
    print(f"forced calls parsed   {fit:2} of {count}   {end - middle:6.1f} s")
    return 0 if right >= LEAST_RIGHT and fit == count else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
