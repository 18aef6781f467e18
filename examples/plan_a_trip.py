"""An agent that plans, waits for a yes in the middle, and goes on with its plan."""

import asyncio

from treadle import Agent, Approve, Conversation, MemoryStore, PlanChanged, tool
from treadle.testing import ScriptedModel, calls

TRIP = {
    "goal": "Spend a weekend in Oslo",
    "steps": [
        {"index": 1, "title": "Find a night train", "status": "in_progress"},
        {"index": 2, "title": "Find a hotel", "status": "pending"},
        {"index": 3, "title": "Pay for both", "status": "pending", "dependencies": [1, 2]},
    ],
    "constraints": ["At most 400 euros"],
}


@tool
async def search(what: str) -> str:
    """Search for offers."""
    return {"train": "sleeper, 160 euros", "hotel": "by the fjord, 190 euros"}[what]


@tool(approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} euros paid"


SCRIPT = [
    calls(("c1", "generate_plan", TRIP)),
    calls(("c2", "search", {"what": "train"}), ("c3", "search", {"what": "hotel"})),
    calls(
        ("c4", "update_plan", {"index": 1, "status": "completed", "notes": "160 euros"}),
        ("c5", "update_plan", {"index": 2, "status": "completed", "notes": "190 euros"}),
    ),
    calls(("c6", "pay", {"euros": 350})),
    calls(("c7", "update_plan", {"index": 3, "status": "completed"})),
    "Both are paid: 350 euros.",
]


async def main() -> None:
    """Plan, pause, and go on."""
    store = MemoryStore()
    agent = Agent("traveller", ScriptedModel(SCRIPT), tools=[search, pay], planning=True)

    run = agent.start("A weekend in Oslo, please.", conversation="oslo", store=store)
    async for event in run:
        if isinstance(event, PlanChanged):
            print(event.plan.version, event.plan.change.kind, [s.title for s in event.plan.ready])
    # > 1 created ['Find a hotel']
    # > 2 updated ['Find a hotel']
    # > 3 updated ['Pay for both']
    paused = await run
    print(paused.stop_reason, [call.name for call in paused.pending])
    # > paused ['pay']

    decisions = {call.call_id: Approve() for call in paused.pending}
    result = await agent.resume(paused.run_id, store=store, decisions=decisions)
    print(result.output)
    # > Both are paid: 350 euros.
    conversation = await Conversation.open("oslo", store=store)
    plan = await conversation.plan()
    if plan is not None:
        print(plan.done, [step.notes for step in plan.steps])
    # > True ['160 euros', '190 euros', '']


asyncio.run(main())
