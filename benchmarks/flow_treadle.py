"""The same work of several agents with Treadle, as its users write it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from benchmarks.flow_work import (
    AGENT_NODES,
    BRANCHES,
    HANDOFFS,
    MEMBERS,
    NODES,
    REASON,
    RING,
    TASK,
    branch_question,
    count_on,
    flow_jobs,
    tool_arguments,
)
from benchmarks.work import ANSWER, INSTRUCTIONS, TOOL_NAME, expect, weather
from benchmarks.worker import work
from treadle import (
    END,
    START,
    Agent,
    Graph,
    Limits,
    MemoryStore,
    NodeContext,
    Swarm,
    tool,
)
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import calls, reply

QUESTIONS = [branch_question(number) for number in range(BRANCHES)]
LIMITS = Limits(max_turns=10_000, max_tool_calls=10_000)


class Fixed:
    """A model that answers at once."""

    def __init__(self, answer: Callable[[ModelRequest], ModelReply]) -> None:
        self._answer = answer

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer."""
        return self._answer(request)


@tool
async def get_weather(city: str, unit: str = "C") -> str:
    """Current weather in a city."""
    return weather(city, unit)


def counting(request: ModelRequest) -> ModelReply:
    """Be the model of an agent node."""
    return reply(count_on(request.messages[-1].text))


def forecasting(request: ModelRequest) -> ModelReply:
    """Be the model of a branch."""
    turn = sum(message.role == "assistant" for message in request.messages)
    arguments = tool_arguments(turn)
    if arguments is None:
        return reply(ANSWER)
    return calls((f"call_{turn}", TOOL_NAME, dict(arguments)))


def answering(_: ModelRequest) -> ModelReply:
    """Be the model of the last member."""
    return reply(ANSWER)


def handing_to(name: str) -> Callable[[ModelRequest], ModelReply]:
    """Return what the model of a member does: it hands over."""
    return lambda _: calls((f"call_{name}", f"transfer_to_{name}", {"message": REASON}))


def agent(name: str, answer: Callable[[ModelRequest], ModelReply]) -> Agent:
    """Return an agent."""
    return Agent(name, Fixed(answer), instructions=INSTRUCTIONS)


async def add_one(context: NodeContext) -> int:
    """Be a node: add one."""
    number = context.get("number", 0) + 1
    context.graph.set("number", number)
    return number


def joined(context: NodeContext) -> list[str]:
    """Be the join: all answers, in order."""
    return context.output("each")


def make_numbers() -> Graph:
    """Return the graph of functions."""
    graph = Graph("numbers", max_steps=NODES + 10)
    for name in RING:
        graph.add_node(name, add_one)
    close_ring(graph)
    graph.add_edge(RING[-1], RING[0], when=lambda s: s["number"] < NODES)
    return graph.add_edge(RING[-1], END)


def make_texts() -> Graph:
    """Return the graph of agents."""
    graph = Graph("texts", max_steps=AGENT_NODES + 10, limits=LIMITS)
    for name in RING:
        graph.add_node(name, agent(name, counting))
    close_ring(graph)
    graph.add_edge(RING[-1], RING[0], when=lambda s: int(s.output(RING[-1])) < AGENT_NODES)
    return graph.add_edge(RING[-1], END)


def close_ring(graph: Graph) -> None:
    """Add the edges of the ring that are always taken."""
    graph.add_edge(START, RING[0])
    for name, after in pairwise(RING):
        graph.add_edge(name, after)


def make_swarm() -> Swarm:
    """Return the chain of members."""
    pairs = [*pairwise(MEMBERS)]
    members = [agent(name, handing_to(after)) for name, after in pairs]
    members.append(agent(MEMBERS[-1], answering))
    return Swarm(
        "chain",
        agents=members,
        entry=MEMBERS[0],
        handoffs={name: [after] for name, after in pairs},
        max_handoffs=HANDOFFS,
        limits=LIMITS,
    )


class Treadle:
    """The work with Treadle."""

    def __init__(self) -> None:
        self._numbers, self._texts, self._swarm = make_numbers(), make_texts(), make_swarm()
        self._forecaster = Agent(
            "forecaster", Fixed(forecasting), instructions=INSTRUCTIONS, tools=[get_weather]
        )
        self._fan = (
            Graph("fan", max_steps=BRANCHES + 10)
            .add_node("branch", self._forecaster)
            .add_node("join", joined)
            .add_map("each", over=lambda _: QUESTIONS, node="branch", join="join", limit=BRANCHES)
            .add_edge(START, "each")
            .add_edge("join", END)
        )

    async def nodes(self, runs: int) -> None:
        """Run a graph of functions."""
        for _ in range(runs):
            result = await self._numbers.run("count")
            expect("path", len(result.execution_path), NODES)

    async def kept_nodes(self, runs: int) -> None:
        """Run it, each run a conversation in memory."""
        store = MemoryStore()
        for number in range(runs):
            name = f"count-{number}"
            result = await self._numbers.run("count", conversation=name, store=store)
            expect("path", len(result.execution_path), NODES)

    async def agent_nodes(self, runs: int) -> None:
        """Run a graph of agents."""
        for _ in range(runs):
            result = await self._texts.run("0")
            expect("path", len(result.execution_path), AGENT_NODES)
            expect("output", result.output, str(AGENT_NODES))

    async def handoffs(self, runs: int) -> None:
        """Run the swarm."""
        for _ in range(runs):
            result = await self._swarm.run(TASK)
            expect("answer", result.output, ANSWER)
            expect("path", [*result.handoff_chain], [*MEMBERS])

    async def fan_out(self, runs: int) -> None:
        """Run the branches at once."""
        for _ in range(runs):
            result = await self._fan.run(TASK)
            expect("answers", result.output, [ANSWER] * BRANCHES)

    async def singles(self, runs: int) -> None:
        """Run the agent by itself."""
        for _ in range(runs):
            for question in QUESTIONS:
                expect("answer", (await self._forecaster.run(question)).output, ANSWER)


if __name__ == "__main__":
    work(lambda: flow_jobs(Treadle()))
