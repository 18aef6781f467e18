"""An agent and a tool behind an MCP server; its client approves a call and hears of progress."""

import asyncio
from typing import Any

from treadle import Agent, RunContext, ToolProgress, tool
from treadle.mcp import MCP, MCPServer
from treadle.testing import ScriptedModel, calls


@tool
async def pack(ctx: RunContext, boxes: int) -> str:
    """Pack some boxes."""
    for box in range(1, boxes + 1):
        ctx.report({"progress": box, "total": boxes, "message": f"box {box}"})
    return f"{boxes} boxes are packed"


@tool(approval=True)
def ship(boxes: int) -> str:
    """Ship some boxes."""
    return f"{boxes} boxes are on their way"


model = ScriptedModel([calls(("c1", "ship", {"boxes": 2})), "They are on their way."])
shipper = Agent("shipper", model, tools=[ship])
server = MCPServer(shipper, pack, name="yard", descriptions={"shipper": "Ships boxes."})


def approve(question: Any) -> dict[str, Any]:
    """Say yes, as somebody at a client would."""
    print(question.message)
    return {"decision": "approve"}


async def main() -> None:
    """Serve over HTTP, and use the server from an agent of another program."""
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve_http(port=0, on_ready=listening.set_result))
        async with MCP.http(await listening, elicit=approve) as yard:
            asked = calls(
                ("c1", "yard_pack", {"boxes": 2}), ("c2", "yard_shipper", {"input": "Ship both."})
            )
            agent = Agent("boss", ScriptedModel([asked, "Done."]), tools=yard.tools)
            run = agent.start("Pack two boxes and ship them.")
            async for event in run:
                if isinstance(event, ToolProgress) and event.name == "yard_pack":
                    print(event.progress)
            for result in (await run).tool_results:
                print(result.name, "->", result.text)
        serving.cancel()


asyncio.run(main())
# > shipper wants to call ship with {"boxes": 2}.
# > yard_pack -> 2 boxes are packed
# > yard_shipper -> They are on their way.
