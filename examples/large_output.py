"""An output that is too long for the model: kept whole, searched by it, read by a program."""

import asyncio

from treadle import Agent, Conversation, ModelReply, ModelRequest, open_store, tool
from treadle.ports.model import ModelProfile
from treadle.testing import FunctionModel, calls


@tool
def read_log() -> str:
    """Read a log of 3,000,000 bytes."""
    lines = (f"{n:05} {'disk full' if n == 31_417 else 'ok':>53}" for n in range(1, 50_001))
    return "\n".join(lines)


def answer(request: ModelRequest) -> ModelReply | str:
    """Read the log, look for what went wrong, and tell it, as a model would."""
    results = request.messages[-1].tool_results
    if not results:
        return calls(("c1", "read_log", {}))
    if results[0].artefact is not None:
        return calls(("c2", "read_output", {"id": results[0].artefact.id, "search": "full"}))
    return results[0].text.splitlines()[-1]


store = open_store("memory:")
small = FunctionModel(answer, profile=ModelProfile(name="small", window=8_000))
agent = Agent("reader", small, tools=[read_log], store=store)


async def main() -> None:
    """Ask, and look at what was kept."""
    result = await agent.run("What went wrong?", conversation="log")
    log, found = result.tool_results
    print(len(log.text) < 3_000, found.text.split()[:4], result.output.split()[-2:])
    # > True ['[1', 'line', 'has', 'it]'] ['disk', 'full']

    # From here on it may be another process: the store has all of it.
    conversation = await Conversation.open("log", store=store)
    for artefact in await conversation.artefacts():
        whole = await conversation.artefact(artefact)
        print(artefact.size, artefact.lines, whole.splitlines()[31_416].split())
        # > 2999999 50000 ['31417', 'disk', 'full']


asyncio.run(main())
