"""The work of several agents with the OpenAI Agents SDK, as its documentation shows it.

It has no graph: what goes from node to node is Python, and a node is a run. Run by an interpreter
that has `openai-agents` and `msgspec`: see `benchmarks/workflows.py`.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ARG002, D102 - what each method does stands in flow_work

from __future__ import annotations

import asyncio
import json

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from benchmarks.flow_work import (
    AGENT_NODES,
    BRANCHES,
    HANDOFFS,
    MEMBERS,
    RING,
    TASK,
    branch_question,
    count_on,
    flow_jobs,
    tool_arguments,
)
from benchmarks.work import ANSWER, INSTRUCTIONS, TOOL_NAME, expect, weather
from benchmarks.worker import work


class Fixed(Model):
    """A model that answers at once."""

    def __init__(self, answer):
        self._answer = answer

    async def get_response(self, system_instructions, input, *args, **options):
        return ModelResponse(output=[self._answer(input)], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


def said(text):
    """Return an answer."""
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="message", type="message", role="assistant", status="completed", content=[part]
    )


def called(name, arguments, call_id):
    """Return a call."""
    return ResponseFunctionToolCall(
        type="function_call", name=name, arguments=json.dumps(arguments), call_id=call_id
    )


def counting(items):
    """Be the model of an agent node."""
    return said(count_on(items if isinstance(items, str) else items[-1]["content"]))


def forecasting(items):
    """Be the model of a branch."""
    turn = sum(item.get("type") == "function_call" for item in items)
    arguments = tool_arguments(turn)
    if arguments is None:
        return said(ANSWER)
    return called(TOOL_NAME, dict(arguments), f"call_{turn}")


def handing_to(name):
    """Return the model of a member."""
    return Fixed(lambda _: called(f"transfer_to_{name}", {}, f"call_{name}"))


@function_tool(name_override=TOOL_NAME)
async def get_weather(city: str, unit: str = "C") -> str:
    """Current weather in a city."""
    return weather(city, unit)


class OpenAIAgents:
    """The work with the OpenAI Agents SDK."""

    def __init__(self):
        set_tracing_disabled(True)
        self._nodes = {
            name: Agent(name=name, instructions=INSTRUCTIONS, model=Fixed(counting))
            for name in RING
        }
        self._next = dict(zip(RING, [*RING[1:], RING[0]], strict=True))
        answering = Fixed(lambda _: said(ANSWER))
        member = Agent(name=MEMBERS[-1], instructions=INSTRUCTIONS, model=answering)
        for name in reversed(MEMBERS[:-1]):
            member = Agent(
                name=name,
                instructions=INSTRUCTIONS,
                model=handing_to(member.name),
                handoffs=[member],
            )
        self._entry = member
        self._forecaster = Agent(
            name="forecaster",
            instructions=INSTRUCTIONS,
            model=Fixed(forecasting),
            tools=[get_weather],
        )

    async def agent_nodes(self, runs):
        for _ in range(runs):
            text, at, path = "0", RING[0], []
            while True:
                text = (await Runner.run(self._nodes[at], text)).final_output
                path.append(at)
                if at == RING[-1] and int(text) >= AGENT_NODES:
                    break
                at = self._next[at]
            expect("path", len(path), AGENT_NODES)

    async def handoffs(self, runs):
        for _ in range(runs):
            result = await Runner.run(self._entry, TASK, max_turns=HANDOFFS + 2)
            expect("answer", result.final_output, ANSWER)
            expect("last member", result.last_agent.name, MEMBERS[-1])

    async def _forecast(self, question):
        return (await Runner.run(self._forecaster, question)).final_output

    async def fan_out(self, runs):
        for _ in range(runs):
            asked = [self._forecast(branch_question(number)) for number in range(BRANCHES)]
            expect("answers", await asyncio.gather(*asked), [ANSWER] * BRANCHES)

    async def singles(self, runs):
        for _ in range(runs):
            for number in range(BRANCHES):
                expect("answer", await self._forecast(branch_question(number)), ANSWER)


if __name__ == "__main__":
    work(lambda: flow_jobs(OpenAIAgents()))
