"""A plan whose steps run at the same time; it changes when one fails, and when somebody steers."""

import asyncio
import re

from msgspec.json import encode

from treadle import Agent, ModelReply, ModelRequest, PlanExecute, tool
from treadle.events import NodeFinished, PlanChanged
from treadle.testing import FunctionModel, calls, reply

FIRST = {"train": [], "hotel": [], "pay": ["train", "hotel"]}
SECOND = {"flat": [], "pay": ["train", "flat"]}
THIRD = {"bike": [], "pay": ["train", "flat", "bike"]}


@tool(on_error="fail")
async def offers(what: str) -> str:
    """Search for offers."""
    if what == "hotel":
        raise ValueError("all hotels are full")
    return f"a {what} for {len(what) * 20} euros"


def plan_of(steps: dict[str, list[str]]) -> str:
    """Return what a planner says."""
    listed = [{"id": i, "description": f"See to: {i}", "dependencies": d} for i, d in steps.items()]
    return encode({"goal": "A weekend in Oslo", "steps": listed}).decode()


def think(request: ModelRequest) -> ModelReply:
    """Stand for the model of the planner."""
    said = request.messages[-1].text
    if said.startswith("Make a plan"):
        return reply(plan_of(FIRST))
    if said.startswith("The plan has to change"):
        return reply(plan_of(THIRD if "user steering" in said else SECOND))
    return reply("You have " + ", ".join(re.findall(r"^Result: (.*)$", said, re.MULTILINE)) + ".")


def work(request: ModelRequest) -> ModelReply:
    """Stand for the model that carries steps out."""
    step = re.findall(r"Your step, (\w+)", request.messages[0].text)[0]
    if step == "pay":
        return reply("a receipt")
    if request.messages[-1].role == "tool":
        return reply(request.messages[-1].tool_results[0].text)
    return calls(("o1", "offers", {"what": step}))


async def main() -> None:
    """Plan, and change the plan twice."""
    planner = Agent("planner", FunctionModel(think))
    executor = Agent("agent", FunctionModel(work), tools=[offers])
    run = PlanExecute("weekend", planner=planner, executor=executor).start("A weekend in Oslo.")
    async for event in run:
        if isinstance(event, NodeFinished):
            print(event.node, "failed" if event.error else "is done")
            if event.node == "flat":
                await run.steer("I want to cycle there.")
        elif isinstance(event, PlanChanged) and event.plan.change.kind == "revised":
            print([f"{step.id} {step.status}" for step in event.plan.steps])
    # > train is done
    # > hotel failed
    # > ['train completed', 'flat pending', 'pay pending']
    # > flat is done
    # > ['train completed', 'flat completed', 'bike pending', 'pay pending']
    # > bike is done
    # > pay is done
    result = await run
    print(result.output)
    # > You have a train for 100 euros, a flat for 80 euros, a bike for 80 euros, a receipt.
    print(result.replans, [message.role for message in result.messages])
    # > 2 ['user', 'user', 'assistant']


asyncio.run(main())
