"""Real MCP servers, as `make servers` puts them into build/mcp."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_PYTHON = ROOT / "build/mcp/python"
OF_NODE = ROOT / "build/mcp/node/node_modules"
PYTHON = os.environ.get("TREADLE_MCP_PYTHON", sys.executable)


def python_server(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a server that is written in Python."""
    if not (OF_PYTHON / module).exists():
        missing(f"{module} is not in build/mcp/python: run make servers.")
    return PYTHON, "-m", module, *arguments


def node_server(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a server that is written in JavaScript."""
    program = OF_NODE / ".bin" / name
    node = shutil.which("node")
    if node is None or not program.exists():
        missing(f"{name} is not in build/mcp/node: install Node.js 20 or newer, run make servers.")
    return str(node), str(program.resolve()), *arguments


def missing(reason: str) -> None:
    """Skip a test that cannot run here; in CI that is a failure."""
    if os.environ.get("TREADLE_NEED_SERVERS"):
        pytest.fail(reason)
    pytest.skip(reason)
