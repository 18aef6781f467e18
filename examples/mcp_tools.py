"""Tools of an MCP server beside one of ours; a question of the server waits for a decision."""

import asyncio
import sys
from pathlib import Path

from treadle import Agent, Edit, MemoryStore, tool
from treadle.mcp import MCP
from treadle.testing import ScriptedModel, calls

SERVER = Path(__file__).parent / "mcp" / "weather_server.py"


@tool
def pack(items: list[str]) -> str:
    """Note what to pack."""
    return f"noted: {', '.join(items)}"


async def main() -> None:
    """Run an agent, and answer the server's question."""
    model = ScriptedModel(
        [
            calls(("c1", "weather_forecast", {"city": "Paris"})),
            calls(("c2", "pack", {"items": ["umbrella"]}), ("c3", "weather_warnings", {})),
            "Take an umbrella.",
        ]
    )
    async with MCP.stdio(sys.executable, str(SERVER), name="weather") as weather:
        agent = Agent("guide", model, tools=[pack, *weather.tools], store=MemoryStore())
        result = await agent.run("Pack for Paris.")
        print(result.tool_results[0].value["structuredContent"]["sky"])
        # > light rain
        print(result.stop_reason, result.pending[0].reason)
        # > paused MCP server 'weather' asks: For which country?

        answer = Edit({"country": "France"}, by="ann")
        result = await agent.resume(result.run_id, decisions={"c3": answer})
        print(result.tool_results[-1].text)
        # > No warnings for France.
    print(result.output)
    # > Take an umbrella.


asyncio.run(main())
