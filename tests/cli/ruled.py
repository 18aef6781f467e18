"""An agent whose calls are decided on by rules, by somebody, and in the middle."""

from __future__ import annotations

from treadle import Agent, AskApproval, ModelReply, RunContext, tool
from treadle.ports.model import ModelRequest
from treadle.testing import FunctionModel, calls
from treadle.tools import Above, Rule, Rules


@tool
def refund(amount: int) -> str:
    """Give money back."""
    return f"{amount} refunded"


@tool
def sign(ctx: RunContext) -> str:
    """Have somebody sign."""
    if ctx.answer is None:
        schema = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
        raise AskApproval("Who signs?", schema)
    return f"signed by {ctx.answer['name']}"


def answer(request: ModelRequest) -> ModelReply | str:
    """Refund thrice, have it signed, and tell the results."""
    last = request.messages[-1]
    if last.role != "user":
        return "; ".join(result.text for result in last.tool_results)
    amounts = [(f"c{n}", "refund", {"amount": n}) for n in (5, 500, 5000)]
    return calls(*amounts, ("s", "sign", {}))


clerk = Agent(
    "clerk",
    model=FunctionModel(answer),
    tools=[refund, sign],
    approval=Rules(
        Rule("deny", "refund", {"amount": Above(1000)}, reason="Too much.", name="most"),
        Rule("ask", "refund", {"amount": Above(100)}, name="large"),
        Rule("allow", "refund", name="small"),
    ),
)
