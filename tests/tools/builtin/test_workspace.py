"""No path leads out of a workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.builtin.conftest import Call
from treadle import ConfigError, ToolError
from treadle.tools import code_tools, read_tool, write_tool

TOOLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("read_file", {}),
    ("write_file", {"content": "changed"}),
    ("edit_file", {"old_string": "secret", "new_string": "changed"}),
)


def lay_links(workspace: Path) -> None:
    """Put links into the workspace that lead out of it in every way."""
    outside = workspace.parent / "outside"
    (workspace / "sub").mkdir()
    (workspace / "to_file").symlink_to(outside / "secret.txt")
    (workspace / "to_file_relative").symlink_to("../outside/secret.txt")
    (workspace / "to_folder").symlink_to(outside)
    (workspace / "sub" / "up").symlink_to("../..")
    (workspace / "chain").symlink_to("to_folder")
    (workspace / "loop").symlink_to("loop")


@pytest.mark.parametrize(("name", "arguments"), TOOLS)
@pytest.mark.parametrize(
    "path",
    [
        "{outside}/secret.txt",
        "/etc/passwd",
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "{workspace}/../outside/secret.txt",
        "to_file",
        "to_file_relative",
        "to_folder/secret.txt",
        "sub/up/outside/secret.txt",
        "chain/secret.txt",
        "loop",
        "loop/secret.txt",
    ],
)
async def test_paths_outside_are_refused(
    call: Call, workspace: Path, name: str, arguments: dict[str, str], path: str
) -> None:
    """Absolute paths, `..` and links to outside are refused by each tool (S27)."""
    lay_links(workspace)
    outside = workspace.parent / "outside"

    answer = await call(name, path=path.format(outside=outside, workspace=workspace), **arguments)

    assert answer.is_error
    assert "outside the workspace" in answer.text or "more than 40 links" in answer.text
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize(
    "path",
    ["a.txt", "./a.txt", "sub//../a.txt", "{workspace}/a.txt", "link", "absolute", "sub/up/a.txt"],
)
async def test_paths_inside_work_however_they_are_spelled(
    call: Call, workspace: Path, path: str
) -> None:
    """Links and absolute paths that stay inside are followed."""
    (workspace / "a.txt").write_text("inside")
    (workspace / "sub").mkdir()
    (workspace / "link").symlink_to("sub/../a.txt")
    (workspace / "absolute").symlink_to(workspace / "a.txt")
    (workspace / "sub" / "up").symlink_to("..")

    assert (await call("read_file", path=path.format(workspace=workspace))).text == "inside"


async def test_writing_through_a_link_keeps_the_link(call: Call, workspace: Path) -> None:
    """What a link inside points to is written, also when it is not there yet."""
    (workspace / "link").symlink_to("real.txt")

    answer = await call("write_file", path="link", content="x")

    assert not answer.is_error
    assert (workspace / "link").is_symlink()
    assert (workspace / "real.txt").read_text() == "x"


def test_a_workspace_that_is_a_link_is_where_it_leads(workspace: Path) -> None:
    """The root may be reached by a link; paths by either name are inside."""
    other = workspace.parent / "other"
    other.symlink_to(workspace)
    (workspace / "a.txt").write_text("inside")
    read = read_tool(other)

    assert read(path=str(other / "a.txt")) == "inside"
    assert read(path=str(workspace / "a.txt")) == "inside"


SWAP = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
made = 0
while True:
    for name in ("real", "link"):
        try:
            os.rename(name, "spot")
        except OSError:  # the writer has made a folder there
            made += 1
            os.rename("spot", f"made{made}")
        else:
            os.rename("spot", name)
"""
"""Puts a folder and a link to outside in the same place, by turns, as quickly as it can."""


@pytest.mark.e2e
def test_a_folder_swapped_for_a_link_leads_nowhere(workspace: Path) -> None:
    """While somebody swaps a folder for a link to outside, nothing outside is read or written."""
    outside = workspace.parent / "outside"
    (workspace / "real").mkdir()
    (workspace / "real" / "secret.txt").write_text("inside")
    (workspace / "link").symlink_to(outside)
    read, write = read_tool(workspace), write_tool(workspace)
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, workspace], stdout=subprocess.PIPE)
    seen: set[str] = set()
    try:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        for number in range(4000):
            try:
                seen.add(read(path="spot/secret.txt"))
                if number % 4 == 0:
                    write(path="spot/secret.txt", content="inside")
            except ToolError:
                continue
    finally:
        swapper.kill()
        swapper.communicate()

    assert seen == {"inside"}
    assert (outside / "secret.txt").read_text() == "secret"


def test_no_descriptor_is_left_open(workspace: Path) -> None:
    """Refusals close what they had opened."""
    lay_links(workspace)
    read = read_tool(workspace)
    before = os.listdir("/dev/fd")
    for path in ("to_file", "sub/up/x", "missing/x", "sub", "loop", "sub/../..", "/etc/passwd"):
        with pytest.raises(ToolError):
            read(path=path)

    assert len(os.listdir("/dev/fd")) == len(before)


def test_a_name_with_a_nul_is_refused(workspace: Path) -> None:
    """The system would take it for a shorter name, or raise something else than a text."""
    with pytest.raises(ToolError, match="holds a NUL character"):
        read_tool(workspace)(path="a.txt\0.png")


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_workspace_has_to_be_a_folder(tmp_path: Path, name: str) -> None:
    """Naming a folder that is not there fails at once, not at the first call."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="is not a folder; create it or name another"):
        code_tools(tmp_path / name)
