"""Servers that others have written, each used by an agent on a scripted model."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.parts import ask
from tests.mcp.real import OF_PYTHON, ROOT, missing, node_server, python_server
from treadle import Image, Text
from treadle.mcp import MCP

pytestmark = pytest.mark.e2e
PATH_OF_PYTHON = {"PYTHONPATH": str(OF_PYTHON)}


async def test_filesystem(tmp_path: Path) -> None:
    """Files are written and read; what is outside its folder is an error that the model sees."""
    place = str(tmp_path / "note.txt")
    async with MCP.stdio(*node_server("mcp-server-filesystem", str(tmp_path)), name="files") as it:
        found = await ask(
            it,
            ("files_write_file", {"path": place, "content": "hello\n"}),
            ("files_read_text_file", {"path": place}),
            ("files_read_text_file", {"path": "/etc/hostname"}),
            ("files_list_directory", {"path": str(tmp_path)}),
        )

    wrote, read, refused, listed = found.tool_results
    assert (tmp_path / "note.txt").read_text() == "hello\n"
    assert not wrote.is_error
    assert read.text.count("hello") == 1
    assert refused.is_error
    assert "outside allowed directories" in refused.text
    assert "note.txt" in listed.text


async def test_everything() -> None:
    """Text, images, links, structured values, progress, resources and prompts."""
    async with MCP.stdio(*node_server("mcp-server-everything", "stdio"), name="every") as it:
        names = [tool.name for tool in it.tools]
        found = await ask(
            it,
            ("every_get-sum", {"a": 2, "b": 40}),
            ("every_get-tiny-image", {}),
            ("every_get-structured-content", {"location": "Chicago"}),
            ("every_trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        )
        resources = await it.resources()
        content = await it.read_resource(resources[0]["uri"])
        (message,) = await it.prompt("simple-prompt")

    added, pictured, structured, long = found.tool_results
    assert len(names) > 10
    assert "42" in added.text
    assert any(isinstance(part, Image) and part.content for part in pictured.parts)
    assert json.loads(structured.text)["temperature"]
    assert "completed" in long.text
    assert isinstance(content[0], Text)
    assert message.role == "user"
    assert message.text


async def test_everything_asks() -> None:
    """A question in the middle of a call is answered by a function."""
    asked: list[str] = []

    def elicit(question: Any) -> dict[str, Any]:
        asked.append(question.message)
        return {"name": "Ann", "check": True}

    command = node_server("mcp-server-everything", "stdio")
    async with MCP.stdio(*command, name="every", elicit=elicit) as it:
        names = {tool.name for tool in it.tools}
        assert "every_trigger-elicitation-request" in names
        found = await ask(it, ("every_trigger-elicitation-request", {}))

    assert len(asked) == 1
    assert "Ann" in found.tool_results[0].text


async def test_time() -> None:
    """The server of the time speaks the protocol without sessions."""
    command = python_server("mcp_server_time", "--local-timezone", "UTC")
    async with MCP.stdio(*command, name="time", env=PATH_OF_PYTHON) as it:
        given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        found = await ask(
            it, ("time_convert_time", given), ("time_get_current_time", {"timezone": "No/Where"})
        )

    converted, refused = found.tool_results
    assert "21:00" in converted.text
    assert refused.is_error
    assert "No/Where" in refused.text


async def test_git(tmp_path: Path) -> None:
    """The server of git looks at a repository."""
    made = await asyncio.create_subprocess_exec("git", "init", "-q", "-b", "main", cwd=tmp_path)
    await made.wait()
    (tmp_path / "new.txt").write_text("new")
    place = {"repo_path": str(tmp_path)}
    command = python_server("mcp_server_git", "--repository", str(tmp_path))
    async with MCP.stdio(*command, name="git", env=PATH_OF_PYTHON) as it:
        found = await ask(
            it,
            ("git_git_status", place),
            ("git_git_add", {**place, "files": ["new.txt"]}),
            ("git_git_diff_staged", place),
        )

    status, added, diff = found.tool_results
    assert "new.txt" in status.text
    assert not added.is_error
    assert "+new" in diff.text


def test_everything_over_http() -> None:
    """Its HTTP server listens everywhere, so it and its client get a network of their own."""
    apart = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        missing("This machine lets nobody make a network namespace.")
    program = [sys.executable, "-m", "tests.mcp.everything_http"]
    ended = subprocess.run(
        [*apart, *program, *node_server("mcp-server-everything", "streamableHttp")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "42" in ended.stdout
