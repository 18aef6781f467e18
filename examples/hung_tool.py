"""A tool that hangs is killed; the next call of it goes well."""

import time

from treadle import Agent, RunContext, ToolProgress, tool
from treadle.events import AnyEvent
from treadle.testing import ScriptedModel, calls


@tool(isolation="process", timeout=0.5)
def count_primes(ctx: RunContext, below: int) -> int:
    """Count the primes below a number."""
    if below > 1000:
        ctx.report("this takes a while")
        time.sleep(1e9)  # noqa: TID251 it hangs on purpose
    found = [n for n in range(2, below) if all(n % k for k in range(2, int(n**0.5) + 1))]
    ctx.state.set("largest", found[-1])
    return len(found)


class Progress:
    """Prints what tools report while they run."""

    def on_event(self, event: AnyEvent) -> None:
        """Print progress."""
        if isinstance(event, ToolProgress):
            print(event.name, event.progress)


# A worker process loads this file, too, but not this block.
if __name__ == "__main__":
    script = [
        calls(("c1", "count_primes", {"below": 10**12})),
        calls(("c2", "count_primes", {"below": 1000})),
        "There are 168 primes below 1000.",
    ]
    agent = Agent("counter", ScriptedModel(script), tools=[count_primes])
    result = agent.run_sync("How many primes are there?", observers=[Progress()])
    # > count_primes this takes a while
    print([each.text for each in result.tool_results])
    # > ["Tool 'count_primes' timed out after 0.5 s.", '168']
    print(result.state.get("agent::counter::largest"), result.output)
    # > 997 There are 168 primes below 1000.
