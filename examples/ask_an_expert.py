"""An agent that asks two others; a tool of one waits for a yes, and so does the whole run."""

import asyncio

from treadle import Agent, AgentEntered, AgentLeft, Approve, ToolFinished, open_store, tool
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, calls, reply


@tool
async def measure(what: str) -> str:
    """Measure something."""
    return f"the {what} is 40 cm"


@tool(approval=True)
async def cut(what: str) -> str:
    """Cut something: there is no way back."""
    return f"the {what} is cut"


def expert(name: str, work: str, what: str) -> Agent:
    """Make an agent that does one thing with its tool and tells the result."""

    def answer(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return calls(("w", work, {"what": what}))
        return reply(request.messages[-1].tool_results[0].text)

    return Agent(name, FunctionModel(answer), tools=[measure, cut])


def carpenter(request: ModelRequest) -> ModelReply:
    """Ask both experts in one reply, then sum up what they say."""
    if len(request.messages) == 1:
        asked = {"input": "Do your part of the loom."}
        return calls(("c1", "ask_weaver", asked), ("c2", "ask_joiner", asked))
    return reply("; ".join(each.text for each in request.messages[-1].tool_results))


agent = Agent(
    "carpenter",
    FunctionModel(carpenter),
    tools=[
        expert("weaver", "measure", "warp beam").as_tool("ask_weaver"),
        expert("joiner", "cut", "treadle").as_tool("ask_joiner"),
    ],
    store=open_store("memory:"),
)


async def main() -> None:
    """Watch a run until it pauses, and let it go on with a decision."""
    run = agent.start("Build a loom.", run_id="loom")
    async for event in run:
        match event:
            case AgentEntered(path=path, input=text):
                print(path, "is asked:", text)
            case ToolFinished(path=path, output=output) if path:
                print(path, "found:", output)
            case AgentLeft(path=path, stop_reason=why):
                print(path, "left:", why)
            case _:
                pass
    # > weaver#1 is asked: Do your part of the loom.
    # > weaver#1 found: the warp beam is 40 cm
    # > weaver#1 left: answer
    # > joiner#1 is asked: Do your part of the loom.
    # > joiner#1 left: paused

    result = await run
    (call,) = result.pending
    print(result.reason, call.path, call.name, call.arguments)
    # > Somebody has to decide on cut. joiner#1 cut {'what': 'treadle'}

    # With a store that lasts, this may be another process, days later.
    result = await agent.resume("loom", decisions={call.call_id: Approve(by="Ann")})
    print(result.output)
    # > the warp beam is 40 cm; the treadle is cut
    print(result.usage.requests, "requests,", result.usage.tool_calls, "tool calls")
    # > 6 requests, 4 tool calls


asyncio.run(main())
