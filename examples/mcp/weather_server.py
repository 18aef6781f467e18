"""An MCP server with a tool that asks before it acts; `examples/mcp_tools.py` starts it."""

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("weather")


class Place(BaseModel):
    """Where to look."""

    country: str


@server.tool()
def forecast(city: str) -> dict[str, object]:
    """Look up the weather of a city."""
    return {"city": city, "celsius": 12, "sky": "light rain"}


def ask() -> Elicit[Place]:
    """Ask where to look."""
    return Elicit("For which country?", Place)


@server.tool()
def warnings(place: Annotated[Place, Resolve(ask)]) -> str:
    """Look up weather warnings; asks for which country."""
    return f"No warnings for {place.country}."


server.run()
