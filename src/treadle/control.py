"""What a tool may ask of the loop, as typed values that no text can forge."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Next(Struct, frozen=True):
    """Run another tool with these arguments, without asking the model in between.

    `output` is this tool's own result, kept in `RunResult.tool_results`; the model sees only
    the last result of the chain. A chain has at most 10 links.
    """

    tool: str
    arguments: dict[str, Any] = {}
    output: Any = ""


class Interrupt(Struct, frozen=True):
    """Pause the run after this batch of calls is stored.

    `output` is the call's result for the model; without one it is the reason.
    """

    reason: str
    output: Any = None


class Finish(Struct, frozen=True):
    """End the run with this output, once the batch is stored and no other call of it failed."""

    output: Any


class Handoff(Struct, frozen=True):
    """Hand the conversation over to another member of the swarm, with a message for it.

    It happens once the batch is stored; of several in one reply the first counts. Where nobody of
    that name may be handed over to, the call is an error that the model sees.
    """

    agent: str
    message: str = ""


Control = Next | Interrupt | Finish | Handoff


class AskApproval(Exception):
    """Raised by a tool that finds out while it runs that it needs somebody's decision.

    ```python
    from treadle import Agent, Approve, AskApproval, MemoryStore, RunContext, tool
    from treadle.testing import ScriptedModel, calls


    @tool
    def book(ctx: RunContext, trip: str) -> str:
        if ctx.answer is None:
            raise AskApproval(f"The trip to {trip} costs 900.")
        return f"{trip} is booked"


    model = ScriptedModel([calls(("c1", "book", {"trip": "Rome"})), "Booked."])
    agent = Agent("clerk", model=model, tools=[book], store=MemoryStore())
    paused = agent.run_sync("To Rome, please.")
    print(paused.pending[0].reason)
    #> The trip to Rome costs 900.
    print(agent.resume_sync(paused.run_id, decisions={"c1": Approve()}).output)
    #> Booked.
    ```

    The call waits like one with `approval=True`: its siblings run, and the decision may come hours
    later, from another process. After a yes the tool runs again from its start, with the answer in
    `ctx.answer` and all of them in `ctx.answers`; after a no it does not, and the model is told.
    With a `schema` (a JSON Schema object) an `Edit` carries the answer, checked against it, and not
    other arguments. A call may ask 10 times.

    What the tool did before it asked stays done, what it wrote to the state too; ask first.
    """

    def __init__(self, reason: str, schema: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.schema = schema
