"""A tree of agents: one asks two experts at once, who use tools, and one of them asks a critic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Agent, ModelReply, ModelRequest, RunContext, Usage, tool
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


class Tree:
    """The agents, and what their tools did: the tool, its argument, and its key.

    `tell` is told of that outside.
    """

    def __init__(self, tell: Callable[[str], None] | None = None, **options: Any) -> None:
        self.did: list[tuple[str, str, str]] = []
        self._tell = tell
        self.asked: list[str] = []
        critic = Agent("critic", self._model("critic", [("k", "judge", "x")]), tools=self._tools())
        expert = Agent(
            "expert",
            self._model("expert", [("e", "look", "1"), ("f", "ask_critic", "is it?")]),
            tools=[*self._tools(), critic.as_tool("ask_critic")],
            max_parallel_tools=1,
        )
        writer = Agent("writer", self._model("writer", [("w", "add", "2")]), tools=self._tools())
        self.boss = Agent(
            "boss",
            self._model("boss", [("a", "expert", "why?"), ("b", "writer", "write")], at_once=True),
            tools=[expert, writer.as_tool()],
            **options,
        )

    def _model(
        self, name: str, plan: list[tuple[str, str, str]], *, at_once: bool = False
    ) -> FunctionModel:
        """Make the calls of the plan, one after another or all at once, and then answer."""
        rounds = [plan] if at_once else [[each] for each in plan]

        def answer(request: ModelRequest) -> ModelReply:
            turn = sum(message.role == "assistant" for message in request.messages)
            self.asked.append(f"{name} {turn}")
            if turn < len(rounds):
                made = [(i, n, self._arguments(n, text)) for i, n, text in rounds[turn]]
                return calls(*made, usage=USAGE)
            return reply(f"{name}: {last_text(request)}", usage=USAGE)

        return FunctionModel(answer)

    @staticmethod
    def _arguments(name: str, text: str) -> dict[str, Any]:
        return {"text": text} if name in ("look", "add", "judge") else {"input": text}

    def _tools(self) -> list[Any]:
        def note(ctx: RunContext, text: str) -> None:
            self.did.append((ctx.tool, text, ctx.idempotency_key))
            if self._tell is not None:
                self._tell(f"{ctx.tool} {ctx.idempotency_key}")

        @tool(idempotent=True)
        async def look(ctx: RunContext, text: str) -> str:
            """Look."""
            note(ctx, text)
            return f"saw {text}"

        @tool
        async def add(ctx: RunContext, text: str) -> str:
            """Add."""
            note(ctx, text)
            ctx.state.set("added", text)
            return f"added {text}"

        @tool(idempotent=True)
        async def judge(ctx: RunContext, text: str) -> str:
            """Judge."""
            note(ctx, text)
            ctx.state.session.set("judged", text)
            return f"judged {text}"

        return [look, add, judge]


def repeating(request: ModelRequest) -> ModelReply:
    """A reply that repeats what was said last."""
    return reply(last_text(request), usage=USAGE)


def playing(*rounds: Any) -> FunctionModel:
    """A model that gives these replies, by the turn it is asked in; the last one again and again.

    A function makes the reply of the request.
    """

    def answer(request: ModelRequest) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        each = rounds[min(turn, len(rounds) - 1)]
        return each(request) if callable(each) else each

    return FunctionModel(answer)


def asking(*asked: tuple[str, str], **options: Any) -> Any:
    """A reply that asks agents: the call ID and the tool for each."""
    return calls(*((call_id, name, {"input": "?"}) for call_id, name in asked), **options)
