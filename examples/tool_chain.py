"""Tools that hand on to each other, and one that ends the run."""

from treadle import Agent, Finish, Next, tool
from treadle.testing import ScriptedModel, calls


@tool
def validate(order: str) -> Next:
    """Check an order, then price it."""
    return Next("price", {"order": order, "items": 3}, output="valid")


@tool
def price(order: str, items: int) -> str:
    """Price an order."""
    return f"{order} costs {items * 5}"


@tool
def close(summary: str) -> Finish:
    """Close the case."""
    return Finish({"closed": summary})


# The model asks for `validate` only; `price` follows without asking it in between.
model = ScriptedModel([calls(("c1", "validate", {"order": "A-7"})), "It costs 15."])
result = Agent("clerk", model, tools=[validate, price, close]).run_sync("Handle A-7")
print([(each.name, each.text) for each in result.tool_results])
# > [('validate', 'valid'), ('validate', 'A-7 costs 15')]
print(len(model.requests), result.output)
# > 2 It costs 15.

model = ScriptedModel([calls(("c1", "close", {"summary": "paid"}))])
result = Agent("clerk", model, tools=[close]).run_sync("Close it")
print(result.output, result.turns)
# > {'closed': 'paid'} 1
