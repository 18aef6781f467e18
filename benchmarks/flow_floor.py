"""The work of several agents by hand: the loop that is left when everything is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from benchmarks.flow_work import (
    AGENT_NODES,
    BRANCHES,
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

State = dict[str, int]
Node = Callable[[State], Awaitable[State]]


@dataclass(slots=True)
class Call:
    """What a reply asks for: a tool, or another member."""

    name: str
    arguments: str = "{}"


@dataclass(slots=True)
class Said:
    """One message of a thread."""

    role: str
    text: str = ""
    calls: Sequence[Call] = ()


@dataclass(slots=True)
class Member:
    """One agent: what it says, and whom it may hand over to."""

    model: Callable[[Sequence[Said]], Awaitable[Said]]
    handoffs: Mapping[str, str] = field(default_factory=dict[str, str])


class Weather(msgspec.Struct):
    """The arguments of the tool."""

    city: str
    unit: str = "C"


async def add_one(state: State) -> State:
    """Be a node: add one."""
    return {"number": state["number"] + 1}


async def counting(thread: Sequence[Said]) -> Said:
    """Be the model of an agent node."""
    return Said("assistant", count_on(thread[-1].text))


async def forecasting(thread: Sequence[Said]) -> Said:
    """Be the model of a branch."""
    arguments = tool_arguments(sum(said.role == "assistant" for said in thread))
    if arguments is None:
        return Said("assistant", ANSWER)
    called = Call(TOOL_NAME, msgspec.json.encode(arguments).decode())
    return Said("assistant", calls=[called])


async def answering(_: Sequence[Said]) -> Said:
    """Be the model of the last member."""
    return Said("assistant", ANSWER)


def handing_to(name: str) -> Member:
    """Return a member whose model hands over."""

    async def model(_: Sequence[Said]) -> Said:
        arguments = msgspec.json.encode({"message": REASON}).decode()
        return Said("assistant", calls=[Call(f"transfer_to_{name}", arguments)])

    return Member(model, {f"transfer_to_{name}": name})


async def get_weather(city: str, unit: str) -> str:
    """Answer at once."""
    return weather(city, unit)


class ByHand:
    """The work by hand."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = dict.fromkeys(RING, add_one)
        self._next = dict(zip(RING, [*RING[1:], RING[0]], strict=True))
        self._members = {name: handing_to(after) for name, after in pairwise(MEMBERS)}
        self._members[MEMBERS[-1]] = Member(answering)
        self._tools = {TOOL_NAME: get_weather}

    async def nodes(self, runs: int) -> None:
        """Walk a table of functions."""
        for _ in range(runs):
            state, at, path = {"number": 0}, RING[0], list[str]()
            while True:
                state |= await self._nodes[at](state)
                path.append(at)
                if at == RING[-1] and state["number"] >= NODES:
                    break
                at = self._next[at]
            expect("path", len(path), NODES)

    async def kept_nodes(self, runs: int) -> None:
        """Walk the table: by hand, nothing is kept."""
        await self.nodes(runs)

    async def agent_nodes(self, runs: int) -> None:
        """Walk a table of models."""
        for _ in range(runs):
            text, at, path = "0", RING[0], list[str]()
            while True:
                text = (await counting([Said("system", INSTRUCTIONS), Said("user", text)])).text
                path.append(at)
                if at == RING[-1] and int(text) >= AGENT_NODES:
                    break
                at = self._next[at]
            expect("path", len(path), AGENT_NODES)

    async def handoffs(self, runs: int) -> None:
        """Ask whoever has the work, until there is an answer."""
        for _ in range(runs):
            at, path = MEMBERS[0], [MEMBERS[0]]
            thread = [Said("system", INSTRUCTIONS), Said("user", TASK)]
            while (said := await self._members[at].model(thread)).calls:
                call = said.calls[0]
                message: dict[str, str] = msgspec.json.decode(call.arguments)
                at = self._members[at].handoffs[call.name]
                thread = [Said("system", INSTRUCTIONS), Said("user", message["message"])]
                path.append(at)
            expect("answer", said.text, ANSWER)
            expect("path", path, [*MEMBERS])

    async def _forecast(self, question: str) -> str:
        """Be one branch: ask, call the tool, ask again, until there is an answer."""
        thread = [Said("system", INSTRUCTIONS), Said("user", question)]
        while True:
            said = await forecasting(thread)
            thread.append(said)
            if not said.calls:
                return said.text
            for call in said.calls:
                arguments = msgspec.json.decode(call.arguments, type=Weather)
                output = await self._tools[call.name](arguments.city, arguments.unit)
                thread.append(Said("tool", output))

    async def fan_out(self, runs: int) -> None:
        """Do all branches at once."""
        for _ in range(runs):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._forecast(branch_question(number)))
                    for number in range(BRANCHES)
                ]
            expect("answers", [task.result() for task in tasks], [ANSWER] * BRANCHES)

    async def singles(self, runs: int) -> None:
        """Do the same, one after another."""
        for _ in range(runs):
            for number in range(BRANCHES):
                expect("answer", await self._forecast(branch_question(number)), ANSWER)


if __name__ == "__main__":
    work(lambda: flow_jobs(ByHand()))
