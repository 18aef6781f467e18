"""Middleware changes what happens; what it does not override costs nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from treadle import (
    Agent,
    Message,
    Middleware,
    ModelReply,
    ModelRequest,
    RunContext,
    RunFailed,
    Text,
    ToolCall,
    ToolError,
    ToolResult,
    tool,
)
from treadle.ports.middleware import Hooks
from treadle.testing import ScriptedModel, calls


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


async def run_with(
    middleware: list[Middleware], *requests: Any, model: ScriptedModel | None = None
) -> Any:
    """Run one batch of calls under middleware."""
    model = model or ScriptedModel([calls(*requests), "done"])
    return await Agent("a", model, tools=[echo], middleware=middleware).run("x")


async def test_before_model_may_change_the_request_or_answer() -> None:
    """A changed system prompt arrives; an answer means that no call is made."""

    class Sign(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            return replace(request, system="signed")

    class Answer(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelReply:
            return ModelReply(message=Message.assistant("cached"))

    model = ScriptedModel(["hi"])
    await Agent("a", model, middleware=[Sign()]).run("x")
    cached = await Agent("a", model, middleware=[Answer()]).run("x")

    assert model.requests[0].system == "signed"
    assert (cached.output, len(model.requests)) == ("cached", 1)


async def test_the_order_of_hooks() -> None:
    """First to last before, last to first after."""
    log: list[str] = []

    class Named(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
            log.append(f"before {self.name}")

        async def after_model(self, ctx: RunContext, reply: ModelReply) -> None:
            log.append(f"after {self.name}")

    await Agent("a", ScriptedModel(["hi"]), middleware=[Named("1"), Named("2")]).run("x")

    assert log == ["before 1", "before 2", "after 2", "after 1"]


async def test_before_tool_may_edit_answer_or_refuse() -> None:
    """Edited arguments are validated; a refusal is the call's result."""

    class Gate(Middleware):
        async def before_tool(
            self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
        ) -> dict[str, Any] | ToolResult | None:
            match arguments["text"]:
                case "edit":
                    return {"text": "edited"}
                case "break":
                    return {"text": {"not": "text"}}
                case "answer":
                    return ToolResult(call.id, call.name, (Text("instead"),))
                case "refuse":
                    raise ToolError("not allowed")
                case _:
                    return None

    words = ["edit", "break", "answer", "refuse", "keep"]
    result = await run_with([Gate()], *((word, "echo", {"text": word}) for word in words))

    found = result.messages[2].tool_results
    assert [answer.text for answer in found][::4] == ["edited", "keep"]
    assert found[1].is_error
    assert (found[2].text, found[3].text, found[3].is_error) == ("instead", "not allowed", True)


async def test_after_tool_and_after_model_may_rewrite() -> None:
    """What they return is what is kept and seen."""

    class Redact(Middleware):
        async def after_tool(
            self, ctx: RunContext, call: ToolCall, result: ToolResult
        ) -> ToolResult:
            return replace(result, parts=(Text("***"),))

        async def after_model(self, ctx: RunContext, reply: ModelReply) -> ModelReply | None:
            if reply.message.tool_calls:
                return None
            return replace(reply, message=Message.assistant("rewritten"))

        async def before_final(self, ctx: RunContext, output: Any) -> Any:
            return output.upper()

    result = await run_with([Redact()], ("1", "echo", {"text": "secret"}))

    assert result.messages[2].tool_results[0].text == "***"
    assert result.messages[-1].text == "rewritten"
    assert result.output == "REWRITTEN"


async def test_an_error_in_middleware_fails_the_run() -> None:
    """With the cause chained and a valid history."""

    class Broken(Middleware):
        async def before_tool(
            self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
        ) -> None:
            raise ValueError("bug")

    with pytest.raises(RunFailed, match="ValueError: bug") as caught:
        await run_with([Broken()], ("1", "echo", {"text": "a"}), ("2", "echo", {"text": "b"}))

    messages = caught.value.result.messages
    assert [found.call_id for found in messages[-1].tool_results] == ["1", "2"]


def test_what_is_not_overridden_is_not_called() -> None:
    """Only overridden hooks are in the run's lists."""

    class One(Middleware):
        async def before_final(self, ctx: RunContext, output: Any) -> Any:
            return output

    hooks = Hooks((One(), Middleware()))

    assert len(hooks.before_final) == 1
    assert hooks.before_model == hooks.after_model == hooks.before_tool == hooks.after_tool == ()
