"""The Model Context Protocol: tools of its servers for agents, and agents for its clients."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.mcp.auth import (
        Bearer,
        ClientCredentials,
        FileTokens,
        IdentityAssertion,
        MemoryTokens,
        OAuth,
        TokenStore,
    )
    from treadle.mcp.client import MCP
    from treadle.mcp.exchange import Question
    from treadle.mcp.server import MCPServer

__all__ = [
    "MCP",
    "Bearer",
    "ClientCredentials",
    "FileTokens",
    "IdentityAssertion",
    "MCPServer",
    "MemoryTokens",
    "OAuth",
    "Question",
    "TokenStore",
]

_HOMES = {
    "MCP": "treadle.mcp.client",
    "Bearer": "treadle.mcp.auth",
    "ClientCredentials": "treadle.mcp.auth",
    "FileTokens": "treadle.mcp.auth",
    "IdentityAssertion": "treadle.mcp.auth",
    "MCPServer": "treadle.mcp.server",
    "MemoryTokens": "treadle.mcp.auth",
    "OAuth": "treadle.mcp.auth",
    "Question": "treadle.mcp.exchange",
    "TokenStore": "treadle.mcp.auth",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'treadle.mcp' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
