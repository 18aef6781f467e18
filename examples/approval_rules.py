"""Rules for calls, a yes that holds for a conversation, and a question in the middle of a call."""

import asyncio

from treadle import Agent, Approve, AskApproval, Conversation, Edit, RunContext, open_store, tool
from treadle.journal import ApprovalDecided
from treadle.testing import ScriptedModel, calls
from treadle.tools import Above, Rule, Rules


@tool
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@tool
async def sign(ctx: RunContext, paper: str) -> str:
    """Have a paper signed."""
    if ctx.answer is None:
        who = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
        raise AskApproval(f"Who signs {paper}?", who)
    return f"{paper} is signed by {ctx.answer['name']}"


RULES = Rules(
    Rule("deny", "pay", {"amount": Above(1000)}, reason="Nobody pays more than 1000."),
    Rule("ask", "pay", {"amount": Above(100)}, once="tool", name="large amounts"),
    Rule("allow", "pay"),
)
SCRIPT = [
    calls(
        ("c1", "pay", {"to": "Ann", "amount": 50}),
        ("c2", "pay", {"to": "Bob", "amount": 500}),
        ("c3", "pay", {"to": "Eve", "amount": 5000}),
        ("c4", "sign", {"paper": "the lease"}),
    ),
    "Done but for Eve.",
    calls(("c5", "pay", {"to": "Bob", "amount": 600})),
    "Bob has it.",
]
store = open_store("memory:")
agent = Agent("clerk", ScriptedModel(SCRIPT), tools=[pay, sign], approval=RULES, store=store)


async def main() -> None:
    """Pause, decide, and pay again without a question."""
    paused = await agent.run("Pay them, and have the lease signed.", conversation="ann")
    for call in paused.pending:
        print(call.call_id, call.name, call.reason or "-")
    # > c2 pay -
    # > c4 sign Who signs the lease?
    result = await agent.resume(
        paused.run_id,
        decisions={"c2": Approve(by="alice"), "c4": Edit({"name": "Carl"}, by="alice")},
    )
    for each in result.messages[2].tool_results:
        print("-", each.text)
    # > - paid 50 to Ann
    # > - paid 500 to Bob
    # > - Not run: a rule does not allow this call. The reason: Nobody pays more than 1000.
    # > - the lease is signed by Carl

    result = await agent.run("Bob wants 600 more.", conversation="ann")
    print(result.output)
    # > Bob has it.
    conversation = await Conversation.open("ann", store=store)
    for _, entry in await conversation.entries():
        if isinstance(entry, ApprovalDecided):
            print(entry.call_id, entry.verdict, entry.by or "-", entry.rule or "-", entry.note)
    # > c1 approve - allow pay
    # > c3 deny - deny pay by amount
    # > c2 approve alice large amounts
    # > c4 edit alice -
    # > c5 approve alice large amounts The yes to call 'c2' holds.


asyncio.run(main())
