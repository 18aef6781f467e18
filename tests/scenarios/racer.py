"""A process that runs in a conversation: `python -m tests.scenarios.racer URL ID FOLDER`.

It says "ready". For each line that it is told it runs once, and says how that ended. The line is
`if_busy`, or "die" for a run that dies in its tool, or "resume RUN_ID".
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from treadle import Agent, ConversationBusy, ModelReply, ModelRequest, open_store, tool
from treadle.testing import FunctionModel, calls


def answer(request: ModelRequest) -> str | ModelReply:
    """Call the tool once in each run; the answer is the number of messages before it."""
    if request.messages[-1].role == "user":
        return calls((f"c{len(request.messages)}", "count", {}))
    return str(len(request.messages))


async def race(url: str, conversation: str, folder: Path) -> None:
    """Run as often as it is told."""
    way = ""

    @tool
    async def count() -> str:
        """Count in a file, and take a while."""
        with (folder / "counted").open("ab") as file:
            file.write(b"counted\n")
        if way == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.2)
        return "counted"

    store = open_store(url)
    agent = Agent("a", FunctionModel(answer), tools=[count], store=store)
    print("ready", flush=True)
    while way := (await asyncio.to_thread(sys.stdin.readline)).strip():
        print(await run(agent, conversation, way), flush=True)
    await store.close()


async def run(agent: Agent[Any, str], conversation: str, way: str) -> str:
    """Run once, and return how it ended."""
    options: dict[str, Any] = {"conversation": conversation}
    if way == "die":
        options["run_id"] = f"{conversation}-dead"
    elif not way.startswith("resume"):
        options["if_busy"] = way
    try:
        if way.startswith("resume"):
            result = await agent.resume(way.split()[1])
        else:
            result = await agent.run("go", **options)
    except ConversationBusy:
        return "busy"
    return f"{result.stop_reason} {result.output}"


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
