"""What a type checker makes of the public names; nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, assert_type

from treadle import Agent, RunContext, RunResult, Scope, State, Tool, tool
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


class Story(TypedDict):
    topic: str


def state() -> None:
    assert_type(State().branch(), Branch)
    assert_type(TypedView(Story).read(State(), Scope.GRAPH), Story)
    assert_type(TypedView(Invoice).read(State(), Scope.GRAPH).number, str)


def tools() -> None:
    assert_type(plain, Tool)
    assert_type(with_context, Tool)
