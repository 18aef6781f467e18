"""Middleware: what may change a run. It hides a secret and refuses a tool."""

from typing import Any

from treadle import Agent, Middleware, RunContext, ToolCall, ToolError, tool
from treadle.testing import ScriptedModel, calls


class Careful(Middleware):
    """Override the hooks you need; the others cost nothing."""

    async def before_tool(self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]) -> None:
        """Refuse what goes too far."""
        if call.name == "refund" and arguments.get("amount", 0) > ctx.metadata["most"]:
            raise ToolError("That is more than you may refund.")

    async def before_final(self, ctx: RunContext, output: Any) -> Any:
        """Hide what must not leave."""
        return output.replace(ctx.metadata["secret"], "***")


@tool
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


model = ScriptedModel([calls(("c1", "refund", {"amount": 500})), "No refund for INV-123."])
agent = Agent("desk", model, instructions="Be kind.", tools=[refund], middleware=[Careful()])
metadata = {"most": 100, "secret": "INV-123"}
result = agent.run_sync("Refund INV-123", metadata=metadata)
print(result.tool_results[0].text)
# > That is more than you may refund.
print(result.output)
# > No refund for ***.
