"""A run with two agents in the background, each with tools of its own, that the run waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.agent.nested import playing
from treadle import Agent, ModelReply, ModelRequest, RunContext, Usage, delegates, tool
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


def starts(*given: tuple[str, str, str], **options: Any) -> ModelReply:
    """A reply that starts agents: the call ID, the agent and the task of each."""
    made = [(call, "delegate", {"agent": agent, "task": task}) for call, agent, task in given]
    return calls(*made, **options)


def waits(call: str, *ids: str, **arguments: Any) -> ModelReply:
    """A reply that waits for agents, by default for all."""
    given = {"ids": list(ids), **arguments} if ids else arguments
    return calls((call, "wait_for_delegate", given), usage=USAGE)


def checks(call: str, *ids: str) -> ModelReply:
    """A reply that looks how agents are doing."""
    return calls((call, "check_delegate", {"ids": list(ids)} if ids else {}), usage=USAGE)


def outputs(request: ModelRequest) -> str:
    """What agents came to, as the last call of the request tells it."""
    told = [result.value for message in request.messages for result in message.tool_results]
    return "; ".join(str(each.get("output", each.get("error"))) for each in told[-1])


def states(request: ModelRequest) -> str:
    """The states of agents, as the last call of the request tells them."""
    told = [result.value for message in request.messages for result in message.tool_results]
    return "; ".join(f"{each['id']} {each['state']}" for each in told[-1])


class Crewed:
    """The agents, and what their tools did: the tool, its argument, and its key.

    `tell` is told of that outside.
    """

    def __init__(self, tell: Callable[[str], None] | None = None, **options: Any) -> None:
        self.did: list[tuple[str, str, str]] = []
        self._tell = tell
        self.asked: list[str] = []
        tools = self._tools()
        scout = Agent("scout", self._model("scout", self._call("s", "look")), tools=tools)
        coder = Agent(
            "coder",
            self._model("coder", self._call("k", "add"), self._call("l", "look")),
            tools=tools,
        )
        begins = starts(("a", "scout", "scout it"), ("b", "coder", "code it"), usage=USAGE)
        rounds = (begins, self._call("w", "add"), waits("c"), outputs)
        self.boss = Agent(
            "boss",
            self._model("boss", *rounds),
            tools=[*tools, *delegates([scout, coder])],
            **options,
        )

    @staticmethod
    def _call(call: str, name: str) -> ModelReply:
        return calls((call, name, {"text": call}), usage=USAGE)

    def _model(self, name: str, *rounds: Any) -> FunctionModel:
        """Give these replies, one after another, and then repeat what was said last."""

        def answer(request: ModelRequest) -> ModelReply:
            turn = sum(message.role == "assistant" for message in request.messages)
            self.asked.append(f"{name} {turn}")
            if turn >= len(rounds):
                return reply(f"{name}: {last_text(request)}", usage=USAGE)
            each = rounds[turn]
            return reply(str(each(request)), usage=USAGE) if callable(each) else each

        return FunctionModel(answer)

    def _tools(self) -> list[Any]:
        def note(ctx: RunContext, text: str) -> None:
            self.did.append((ctx.tool, text, ctx.idempotency_key))
            if self._tell is not None:
                self._tell(f"{ctx.tool} {ctx.idempotency_key}")

        @tool(idempotent=True)
        async def look(ctx: RunContext, text: str) -> str:
            """Look."""
            note(ctx, text)
            ctx.state.session.set(f"seen_{text}", text)
            return f"saw {text}"

        @tool
        async def add(ctx: RunContext, text: str) -> str:
            """Add."""
            note(ctx, text)
            ctx.state.set("added", text)
            return f"added {text}"

        return [look, add]


def boss(*rounds: Any, agents: list[Agent[Any, Any]], **options: Any) -> Agent[Any, str]:
    """An agent that gives these replies, with these agents in the background."""
    settings = {name: options.pop(name) for name in tuple(options) if name in _SETTINGS}
    return Agent("boss", playing(*rounds), tools=delegates(agents, **settings), **options)


_SETTINGS = ("max_running", "max_started", "on_end", "detached")
