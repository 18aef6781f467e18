"""`treadle mcp`: what it refuses, and that help tells how to use it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Treadle

MODULE = """
from treadle import Agent, tool
from treadle.mcp import MCPServer
from treadle.testing import ScriptedModel

@tool
def add(a: int) -> int:
    return a

clerk = Agent("clerk", ScriptedModel(["Hi."]))
unknown = Agent("unknown", "no-such-provider:x")
empty = []
number = 3
server = MCPServer(add)
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder with a module of agents."""
    (tmp_path / "shop_of_mcp.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("TREADLE_MCP_TOKEN", raising=False)


def test_help(treadle: Treadle) -> None:
    """Help has examples, and what a client's configuration says."""
    ended = treadle("mcp", "--help")

    assert ended.code == 0
    assert "treadle mcp my_agents:writer --http" in ended.out
    assert '"command": "treadle"' in ended.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "There is nothing to serve"),
        (("shop_of_mcp",), "'shop_of_mcp' names no agent or tool"),
        (("shop_of_mcp:nobody",), "has no 'nobody'"),
        (("shop_of_mcp:number",), "its type is int"),
        (("shop_of_mcp:empty",), "is an empty list"),
        (("shop_of_mcp:unknown",), "no-such-provider"),
        (("no_such_module:x",), "There is no module 'no_such_module'"),
        (("shop_of_mcp:add", "shop_of_mcp:add"), "defined twice"),
        (("shop_of_mcp:add", "--port", "1"), "--port is for --http"),
        (("shop_of_mcp:add", "--allow-host", "x"), "--allow-host is for --http"),
        (("shop_of_mcp:clerk", "--describe", "clerk"), "write NAME=TEXT"),
        (("shop_of_mcp:clerk", "--describe", "x=y"), "a description of 'x'"),
        (("shop_of_mcp:add", "--http", "--host", "0.0.0.0"), "a token is needed"),  # noqa: S104
        (("shop_of_mcp:add", "--http", "--token", "short"), "has 5 characters"),
        (("shop_of_mcp:add", "--store", "nonsense:x"), "nonsense"),
        (("shop_of_mcp:server", "--name", "x"), "--name is not for an MCPServer"),
        (("shop_of_mcp:server", "shop_of_mcp:add"), "is served alone"),
    ],
)
def test_what_is_refused(treadle: Treadle, words: tuple[str, ...], told: str) -> None:
    """A wrong word is one line that says what to do, before anything is served."""
    ended = treadle("mcp", *words)

    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_a_port_that_is_none(treadle: Treadle) -> None:
    """Ports are numbers."""
    ended = treadle("mcp", "shop_of_mcp:add", "--http", "--port", "70000")

    assert ended.code == 2
    assert "is no port" in ended.err
