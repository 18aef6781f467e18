"""What a type checker makes of the public names; nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from treadle import (
    ON_FAILURE,
    Agent,
    Graph,
    GraphView,
    NodeContext,
    PlanExecute,
    PlanResult,
    RunContext,
    RunResult,
    Scope,
    State,
    Swarm,
    SwarmResult,
    SwarmStep,
    Tool,
    tool,
)
from treadle.state import Branch, TypedView
from treadle.testing import ScriptedModel


@dataclass
class Invoice:
    number: str


@dataclass
class Deps:
    user: str


@tool
def plain(a: int) -> int:
    return a


@tool(name="other", timeout=5)
async def with_context(ctx: RunContext[Deps], a: int) -> str:
    return assert_type(ctx.deps, Deps).user * a


async def results() -> None:
    model = ScriptedModel(["hello"])
    text = Agent("text", model)
    assert_type(await text.run("hi"), RunResult[str])
    assert_type(text.run_sync("hi").output, str)

    typed = Agent("typed", model, output_type=Invoice, deps_type=Deps, tools=[plain, with_context])
    assert_type((await typed.run("hi", deps=Deps("me"))).output, Invoice)
    assert_type(await typed.start("hi", deps=Deps("me")), RunResult[Invoice])

    numbers = Agent("numbers", model, output_type=list[int])
    assert_type(numbers.run_sync("hi").output, list[int])


def tools() -> None:
    assert_type(plain, Tool)
    assert_type(with_context, Tool)


async def plans() -> None:
    plan = PlanExecute("plan", executor=Agent("worker", ScriptedModel([])))
    assert_type(await plan.run("hi"), PlanResult)
    assert_type(await plan.start("hi"), PlanResult)
    assert_type(plan.run_sync("hi").output, str)
    assert_type(plan.run_sync("hi").replans, int)


async def swarms() -> None:
    model = ScriptedModel([])
    swarm = Swarm("s", agents=[Agent("a", model), Agent("b", model)])
    assert_type(await swarm.run("hi"), SwarmResult[str])
    assert_type(await swarm.start("hi"), SwarmResult[str])
    assert_type(swarm.run_sync("hi").steps, list[SwarmStep])
    assert_type((await swarm.resume("r")).handoff_chain, list[str])
    mixed = Swarm[Any]("m", agents=[Agent[None, str]("a", model), Agent("b", output_type=int)])
    assert_type(await mixed.run("hi"), SwarmResult[Any])
    numbers = Swarm("n", agents=[Agent("a", model, output_type=int)])
    assert_type(numbers.run_sync("hi").output, int)


class Story(TypedDict):
    topic: str
    lines: list[str]


def state() -> None:
    assert_type(State().branch(), Branch)
    assert_type(TypedView(Invoice).read(State(), Scope.GRAPH).number, str)


def write_line(ctx: NodeContext[Story]) -> str:
    assert_type(ctx.values, Story)
    ctx.update(lines=["It rains."])
    return assert_type(ctx.values["topic"], str)


async def illustrate(ctx: NodeContext[Story]) -> bytes:
    return ctx.values["topic"].encode()


def about_weather(view: GraphView[Story]) -> bool:
    return assert_type(view.values, Story)["topic"] == "rain"


def graphs() -> None:
    model = ScriptedModel(["hello"])
    named = assert_type(Graph("story", state=Story), Graph[Story])
    assert_type(named.add_node("write", write_line).add_node("draw", illustrate), Graph[Story])
    named.add_node("tell", Agent("teller", model), input=lambda s: f"About {s.values['topic']}")
    named.add_router("route", {"draw": about_weather}, default="tell")
    named.add_edge("write", "draw", when=lambda s: s.values["lines"] == [])
    named.add_edge("write", "tell", when=ON_FAILURE | about_weather)
    named.add_edge("draw", to=lambda s: s.values["topic"])
    named.add_map("each", over=lambda s: s.values["lines"], node="draw", join="tell")
    assert_type(named.validate(), list[str])
    assert_type(Graph[Story]("story"), Graph[Story])

    named.add_edge("draw", to=lambda s: s.values["lines"])  # pyright: ignore[reportArgumentType] no ID
    named.add_node("wrong", lambda ctx: ctx.values["nothing"])  # pyright: ignore[reportGeneralTypeIssues, reportUnknownLambdaType]
    other = Graph("other", state=Invoice)
    other.add_node("write", write_line)  # pyright: ignore[reportArgumentType] another state
