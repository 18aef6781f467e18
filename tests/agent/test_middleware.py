"""Middleware changes what happens; what it does not override costs nothing."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import BaseModel

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
    ToolStarted,
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
    assert [answer.call_id for answer in found] == words
    assert found[1].is_error
    assert (found[2].text, found[3].text, found[3].is_error) == ("instead", "not allowed", True)


class Invoice(BaseModel):
    """What is paid."""

    number: str
    due: date


async def test_before_tool_sees_validated_values() -> None:
    """They are what the tool would get: its own types, with defaults; so are those it returns."""
    seen: list[dict[str, Any]] = []
    paid: list[Any] = []

    class Gate(Middleware):
        async def before_tool(
            self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
        ) -> dict[str, Any] | None:
            seen.append(arguments)
            if arguments["amount"] > Decimal(100):
                raise ToolError("too much")
            return {"invoice": arguments["invoice"], "amount": "99.5"} if len(seen) == 3 else None

    @tool
    async def pay(invoice: Invoice, amount: Decimal, note: str = "none") -> str:
        """Pay."""
        paid.append((invoice, amount, note))
        return "paid"

    invoice = {"number": "INV-1", "due": "2026-01-02"}
    model = ScriptedModel(
        [
            calls(("1", "pay", {"invoice": invoice, "amount": "500"})),
            calls(("2", "pay", {"invoice": invoice, "amount": "not a number"})),
            calls(("3", "pay", {"invoice": invoice, "amount": 7})),
            calls(("4", "pay", {"invoice": invoice, "amount": 8, "note": "late"})),
            "done",
        ]
    )
    result = await Agent("a", model, tools=[pay], middleware=[Gate()]).run("x")

    typed = Invoice(number="INV-1", due=date(2026, 1, 2))
    assert seen == [
        {"invoice": typed, "amount": Decimal(500), "note": "none"},
        {"invoice": typed, "amount": Decimal(7), "note": "none"},
        {"invoice": typed, "amount": Decimal(8), "note": "late"},
    ]
    assert [type(given["amount"]) for given in seen] == [Decimal] * 3
    assert [type(given["invoice"]) for given in seen] == [Invoice] * 3
    assert paid == [(typed, Decimal(7), "none"), (typed, Decimal("99.5"), "none")]
    assert [found.is_error for found in result.tool_results] == [True, True, False, False]
    assert result.tool_results[0].text == "too much"
    assert "amount" in result.tool_results[1].text


async def test_edited_arguments_are_shown_as_json() -> None:
    """Watchers get what the tool got as JSON values, whatever types middleware passed on."""

    class Later(Middleware):
        async def before_tool(
            self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
        ) -> dict[str, Any]:
            return {"invoice": arguments["invoice"].model_copy(update={"due": date(2026, 2, 3)})}

    @tool
    async def pay(invoice: Invoice) -> str:
        """Pay."""
        return str(invoice.due)

    asked = {"invoice": {"number": "INV-1", "due": "2026-01-02"}}
    model = ScriptedModel([calls(("1", "pay", asked)), "done"])
    run = Agent("a", model, tools=[pay], middleware=[Later()]).start("x")
    shown = [event.arguments async for event in run if isinstance(event, ToolStarted)]

    assert (await run).tool_results[0].text == "2026-02-03"
    assert shown == [{"invoice": {"number": "INV-1", "due": "2026-02-03"}}]


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

    model = ScriptedModel([calls(("1", "echo", {"text": "secret"})), "done"])
    result = await run_with([Redact()], model=model)

    assert result.messages[2].tool_results[0].text == "***"
    assert model.requests[1].messages[2].tool_results[0].text == "***"
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
