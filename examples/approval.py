"""Calls that wait for somebody: one is edited, one is denied, and the run goes on."""

import asyncio

from treadle import Agent, Conversation, Deny, Edit, RunContext, open_store, tool
from treadle.testing import ScriptedModel, calls


def is_large(_: RunContext, arguments: dict[str, int]) -> bool:
    """Whether somebody has to look at a refund."""
    return arguments["amount"] > 100


@tool(approval=is_large)
async def refund(invoice: str, amount: int) -> str:
    """Refund an amount."""
    return f"{amount} refunded for {invoice}"


ASKED = calls(
    ("c1", "refund", {"invoice": "INV-1", "amount": 20}),
    ("c2", "refund", {"invoice": "INV-2", "amount": 500}),
    ("c3", "refund", {"invoice": "INV-3", "amount": 900}),
)
store = open_store("memory:")
model = ScriptedModel([ASKED, "I refunded INV-1 and a part of INV-2, and nothing of INV-3."])
agent = Agent("cashier", model, tools=[refund], store=store)


async def main() -> None:
    """Pause, decide twice, and go on."""
    result = await agent.run("Refund all three.", conversation="ann", run_id="refunds")
    print(result.stop_reason, "-", result.reason)
    # > paused - Somebody has to decide on refund.

    # From here on it may be another process, days later: the store has it all.
    conversation = await Conversation.open("ann", store=store)
    for call in await conversation.pending():
        print(call.call_id, call.name, call.arguments)
    # > c2 refund {'invoice': 'INV-2', 'amount': 500}
    # > c3 refund {'invoice': 'INV-3', 'amount': 900}

    result = await agent.resume("refunds", decisions={"c2": Edit({"amount": 50})})
    print(result.stop_reason, [call.call_id for call in result.pending])
    # > paused ['c3']

    result = await agent.resume("refunds", decisions={"c3": Deny("It is too late.")})
    for each in result.tool_results:
        print("-", each.text)
    # > - 20 refunded for INV-1
    # > - 50 refunded for INV-2
    # > (Somebody changed the arguments of this call before it ran.)
    # > - Not run: somebody looked at this call and did not approve it. The reason: It is too late.
    print(result.output)
    # > I refunded INV-1 and a part of INV-2, and nothing of INV-3.


asyncio.run(main())
