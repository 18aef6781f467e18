"""An agent on a real model of this machine calls a tool and answers from its result.

This is what `make demo` runs. The first time it fetches the model, about half a gigabyte.
"""

import asyncio
import sys

from treadle import (
    Agent,
    ModelFinished,
    ModelStarted,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TreadleError,
    tool,
)
from treadle.events import AnyEvent

QUESTION = "What is 23 * 17?"
RIGHT = str(23 * 17)


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b


agent = Agent(
    "calculator",
    "local:",
    instructions="You answer questions about numbers. Use the tool to calculate.",
    tools=[multiply],
)


def show(event: AnyEvent) -> None:
    """Print one event of the run."""
    match event:
        case RunStarted(run_id=run_id):
            print(f"run started    {run_id}")
        case ModelStarted(turn=turn, model=model):
            print(f"turn {turn}         asking {model} ...")
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case ModelFinished(usage=usage, seconds=seconds, final=final):
            tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
            end = "\n" if final else ""
            print(f"{end}model finished {tokens}, {seconds:.1f} s")
        case ToolStarted(name=name, arguments=arguments):
            print(f"tool started   {name}({arguments})")
        case ToolFinished(output=output, seconds=seconds):
            print(f"tool finished  {output}  ({1000 * seconds:.1f} ms)")
        case RunFinished(stop_reason=reason, turns=turns, seconds=seconds):
            print(f"run finished   {reason}, {turns} turns, {seconds:.1f} s")
        case _:
            pass


async def main() -> int:
    """Run the agent, show what happens, and check that the answer came from the tool."""
    print(f"question       {QUESTION}\n")
    run = agent.start(QUESTION)
    async for event in run:
        show(event)
    result = await run
    called = any(each.name == "multiply" and each.text == RIGHT for each in result.tool_results)
    right = RIGHT in result.output.replace(",", "")
    print(f"\nanswer         {result.output}")
    if not (called and right):
        print(f"That is wrong: {RIGHT} had to come from the tool and to be in the answer.")
    return 0 if called and right else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except TreadleError as error:
        sys.exit(f"The demo failed: {error}")
