"""The work of several agents with LangGraph, as its documentation shows it.

Run by an interpreter that has `langgraph`, `langgraph-swarm`, `langchain` and `msgspec`: see
`benchmarks/workflows.py`.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ARG002, D102 - what each method does stands in flow_work

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from langgraph_swarm import create_handoff_tool, create_swarm

from benchmarks.flow_work import (
    AGENT_NODES,
    BRANCHES,
    MEMBERS,
    NODES,
    RING,
    TASK,
    branch_question,
    count_on,
    flow_jobs,
    tool_arguments,
)
from benchmarks.work import ANSWER, INSTRUCTIONS, TOOL_NAME, expect, weather
from benchmarks.worker import work

MOST_STEPS = {"recursion_limit": NODES + 10}


class Model(BaseChatModel):
    """A chat model that answers at once, without the thread that the default would take."""

    @property
    def _llm_type(self):
        return "fixed"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

    async def _agenerate(self, messages, stop=None, run_manager=None, **options):
        return self._generate(messages)

    def answer(self, messages):
        raise NotImplementedError


class Counting(Model):
    """The model of an agent node."""

    def answer(self, messages):
        return AIMessage(count_on(messages[-1].content))


class Forecasting(Model):
    """The model of a branch."""

    def answer(self, messages):
        turn = sum(message.type == "ai" for message in messages)
        arguments = tool_arguments(turn)
        if arguments is None:
            return AIMessage(ANSWER)
        call = {"name": TOOL_NAME, "args": dict(arguments), "id": f"call_{turn}"}
        return AIMessage("", tool_calls=[call])


class Handing(Model):
    """The model of a member."""

    to: str = ""

    def answer(self, messages):
        if not self.to:
            return AIMessage(ANSWER)
        call = {"name": f"transfer_to_{self.to}", "args": {}, "id": f"call_{self.to}"}
        return AIMessage("", tool_calls=[call])


@tool(TOOL_NAME)
async def get_weather(city: str, unit: str = "C") -> str:
    """Current weather in a city."""
    return weather(city, unit)


class Numbers(TypedDict):
    """The state of the graph of functions."""

    number: int


class Texts(TypedDict):
    """The state of the graph of agents."""

    text: str


class Answers(TypedDict):
    """The state of the fan-out."""

    answers: Annotated[list[str], operator.add]


def ring(state, node, ended):
    """Return a graph of a cycle that is left when `ended` says so."""
    graph = StateGraph(state)
    for name in RING:
        graph.add_node(name, node)
    graph.add_edge(START, RING[0])
    for name, after in pairwise(RING):
        graph.add_edge(name, after)
    graph.add_conditional_edges(
        RING[-1], lambda state: END if ended(state) else RING[0], [END, RING[0]]
    )
    return graph


async def add_one(state: Numbers):
    """Be a node: add one."""
    return {"number": state["number"] + 1}


def add_one_in_sync(state: Numbers):
    """Be the same node for a graph without asyncio."""
    return {"number": state["number"] + 1}


COUNTING = Counting()
COUNTER = create_agent(COUNTING, [], system_prompt=INSTRUCTIONS)


async def ask(state: Texts):
    """Be a node that asks a model."""
    asked = [SystemMessage(INSTRUCTIONS), HumanMessage(state["text"])]
    return {"text": (await COUNTING.ainvoke(asked)).content}


def ask_in_sync(state: Texts):
    """Be the same node for a graph without asyncio."""
    asked = [SystemMessage(INSTRUCTIONS), HumanMessage(state["text"])]
    return {"text": COUNTING.invoke(asked).content}


async def run_agent(state: Texts):
    """Be a node that runs a whole agent."""
    result = await COUNTER.ainvoke({"messages": [HumanMessage(state["text"])]})
    return {"text": result["messages"][-1].content}


def numbers(node):
    """Return the graph of functions."""
    return ring(Numbers, node, lambda state: state["number"] >= NODES)


def texts(node):
    """Return the graph of models."""
    return ring(Texts, node, lambda state: int(state["text"]) >= AGENT_NODES).compile()


def thread(number):
    """Return what names the thread that a run is kept in."""
    return {"configurable": {"thread_id": str(number)}}


class LangGraph:
    """The work with LangGraph."""

    def __init__(self):
        self._numbers, self._numbers_in_sync = numbers(add_one), numbers(add_one_in_sync)
        self._asking, self._asking_in_sync = texts(ask), texts(ask_in_sync)
        self._running = texts(run_agent)
        self._swarm = self._make_swarm()
        self._forecaster = create_agent(Forecasting(), [get_weather], system_prompt=INSTRUCTIONS)
        self._fan = self._make_fan()

    def _make_swarm(self):
        members = [
            create_agent(
                Handing(to=after),
                [create_handoff_tool(agent_name=after)] if after else [],
                system_prompt=INSTRUCTIONS,
                name=name,
            )
            for name, after in zip(MEMBERS, [*MEMBERS[1:], ""], strict=True)
        ]
        return create_swarm(members, default_active_agent=MEMBERS[0]).compile()

    def _make_fan(self):
        async def branch(asked):
            return {"answers": [await self._forecast(asked["question"])]}

        def split(_):
            return [Send("branch", {"question": branch_question(n)}) for n in range(BRANCHES)]

        graph = StateGraph(Answers)
        graph.add_node("branch", branch)
        graph.add_node("join", lambda _: {})
        graph.add_conditional_edges(START, split, ["branch"])
        graph.add_edge("branch", "join")
        graph.add_edge("join", END)
        return graph.compile()

    async def nodes(self, runs):
        app = self._numbers.compile()
        for _ in range(runs):
            result = await app.ainvoke({"number": 0}, MOST_STEPS)
            expect("number", result["number"], NODES)

    async def nodes_in_sync(self, runs):
        app = self._numbers_in_sync.compile()
        for _ in range(runs):
            expect("number", app.invoke({"number": 0}, MOST_STEPS)["number"], NODES)

    async def kept_nodes(self, runs):
        app = self._numbers.compile(checkpointer=InMemorySaver())
        for number in range(runs):
            result = await app.ainvoke({"number": 0}, MOST_STEPS | thread(number))
            expect("number", result["number"], NODES)

    async def kept_nodes_in_sync(self, runs):
        app = self._numbers_in_sync.compile(checkpointer=InMemorySaver())
        for number in range(runs):
            result = app.invoke({"number": 0}, MOST_STEPS | thread(number))
            expect("number", result["number"], NODES)

    async def agent_nodes(self, runs):
        await self._count_with(self._asking, runs)

    async def agent_nodes_in_sync(self, runs):
        for _ in range(runs):
            result = self._asking_in_sync.invoke({"text": "0"}, MOST_STEPS)
            expect("text", result["text"], str(AGENT_NODES))

    async def whole_agent_nodes(self, runs):
        await self._count_with(self._running, runs)

    async def _count_with(self, app, runs):
        for _ in range(runs):
            result = await app.ainvoke({"text": "0"}, MOST_STEPS)
            expect("text", result["text"], str(AGENT_NODES))

    async def handoffs(self, runs):
        for _ in range(runs):
            asked = {"messages": [HumanMessage(TASK)]}
            result = await self._swarm.ainvoke(asked, MOST_STEPS)
            expect("answer", result["messages"][-1].content, ANSWER)
            expect("last member", result["active_agent"], MEMBERS[-1])

    async def _forecast(self, question):
        result = await self._forecaster.ainvoke({"messages": [HumanMessage(question)]})
        return result["messages"][-1].content

    async def fan_out(self, runs):
        for _ in range(runs):
            result = await self._fan.ainvoke({"answers": []})
            expect("answers", result["answers"], [ANSWER] * BRANCHES)

    async def singles(self, runs):
        for _ in range(runs):
            for number in range(BRANCHES):
                expect("answer", await self._forecast(branch_question(number)), ANSWER)


if __name__ == "__main__":
    work(lambda: flow_jobs(LangGraph()))
