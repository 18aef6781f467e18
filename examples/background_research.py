"""Two agents work in the background; the run goes on, looks, tells one more, and waits for both."""

import asyncio

from treadle import Agent, DelegateFinished, DelegateStarted, ToolFinished, delegates, tool
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, calls, reply

began, told = asyncio.Event(), asyncio.Event()


@tool
async def read_archive(topic: str) -> str:
    """Read what the archive has on a topic: it takes its time."""
    began.set()
    await told.wait()
    return f"{topic}: 1851"


def archivist(request: ModelRequest) -> ModelReply:
    """Read the archive, then answer with what was found and what was said meanwhile."""
    if len(request.messages) == 1:
        return calls(("r", "read_archive", {"topic": request.messages[0].text}))
    said = [message.text for message in request.messages[1:] if message.role == "user"]
    found = next(m.tool_results[0].text for m in request.messages if m.role == "tool")
    return reply(f"{found} ({', '.join(said)})")


async def editor(request: ModelRequest) -> ModelReply:
    """Start both agents, go on, and sum up what they come to."""
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn == 0:
        return calls(
            ("c1", "delegate", {"agent": "archivist", "task": "treadle patents"}),
            ("c2", "delegate", {"agent": "poet", "task": "A line about looms."}),
        )
    if turn == 1:
        await began.wait()
        return calls(("c3", "check_delegate", {"ids": ["archivist#1"]}))
    if turn == 2:
        message = {"id": "archivist#1", "text": "only the first one"}
        return calls(("c4", "message_delegate", message))
    if turn == 3:
        told.set()
        return calls(("c5", "wait_for_delegate", {}))
    found = request.messages[-1].tool_results[0].value
    return reply(" / ".join(each["output"] for each in found))


agent = Agent(
    "editor",
    FunctionModel(editor),
    tools=delegates(
        [
            Agent("archivist", FunctionModel(archivist), tools=[read_archive]),
            Agent("poet", FunctionModel(lambda _: reply("Threads cross and hold."))),
        ]
    ),
)


async def main() -> None:
    """Watch the run and what works in its background."""
    run = agent.start("A page on treadles, please.")
    async for event in run:
        match event:
            case DelegateStarted(delegate_id=id, task=task):
                print(id, "begins:", task)
            case ToolFinished(name="check_delegate", result=result):
                print([(each["id"], each["state"]) for each in result.value])
            case ToolFinished(path=path, output=output) if path:
                print(path, "found", output)
            case DelegateFinished(delegate_id=id, stop_reason=why):
                print(id, "is over:", why)
            case _:
                pass
    # > archivist#1 begins: treadle patents
    # > poet#1 begins: A line about looms.
    # > poet#1 is over: answer
    # > [('archivist#1', 'running')]
    # > archivist#1 found treadle patents: 1851
    # > archivist#1 is over: answer

    result = await run
    print(result.output)
    # > treadle patents: 1851 (only the first one) / Threads cross and hold.
    print(result.usage.requests, "requests in all")
    # > 8 requests in all


asyncio.run(main())
