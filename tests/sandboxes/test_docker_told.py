"""What docker is told, and which engines are refused: by a program that answers as it would."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from treadle.ports.command_runner import Command
from treadle.sandboxes import SandboxLimits
from treadle.sandboxes.container import ContainerPlan
from treadle.sandboxes.docker import Box, container_plan
from treadle.sandboxes.system import mounts_below

GOOD: dict[str, Any] = {
    "OSType": "linux",
    "MemoryLimit": True,
    "PidsLimit": True,
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin"],
}
ANSWERS = """#!/bin/sh
case "$*" in
    *context*) echo "unix://$(dirname "$0")/socket" ;;
    *info*) cat "$(dirname "$0")/info.json" ;;
    *image*) echo '{"/data":{}}' ;;
    *ps*) ;;
    *) exit 9 ;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that answers for an engine; what that tells of itself can be written."""
    path = tmp_path / "docker" / "docker"
    path.parent.mkdir()
    path.write_text(ANSWERS)
    path.chmod(0o755)
    (path.parent / "info.json").write_text(json.dumps(GOOD))
    return path


def planned(program: Path, workspace: Path, **options: Any) -> ContainerPlan:
    """Return what docker is told for a command."""
    defaults: dict[str, Any] = {
        "docker": str(program),
        "image": "image:1",
        "network": False,
        "env": (),
        "readable": [],
        "writable": [str(workspace)],
        "limits": SandboxLimits(),
    }
    folder = str(workspace)
    command = Command(text="-x; 'y'", workspace=folder, folder=folder, seconds=1, max_output=1000)
    return container_plan(Box(**(defaults | options)), command)


def values(plan: ContainerPlan, option: str) -> list[str]:
    """Return what follows an option, each time."""
    return [plan["argv"][at + 1] for at, word in enumerate(plan["argv"]) if word == option]


def test_a_container_has_walls_and_limits(program: Path, workspace: Path) -> None:
    """Unless told otherwise; the command is the last of many words, whatever it is."""
    plan = planned(program, workspace)

    assert plan["client"] == [
        *(str(program), "--config", "/nonexistent"),
        *("--host", f"unix://{program.parent}/socket"),
    ]
    assert {"--read-only", "--init", "--no-healthcheck"} < set(plan["argv"])
    for option, value in (
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--network", "none"),
        ("--pull", "never"),
        ("--log-driver", "none"),
        ("--memory", "2000000000"),
        ("--memory-swap", "2000000000"),
        ("--pids-limit", "257"),
        ("--shm-size", "100000000"),
        ("--mount", f'"type=bind","src={workspace}","dst={workspace}"'),
    ):
        assert values(plan, option) == [value]
    assert [each.partition(":")[0] for each in values(plan, "--tmpfs")] == ["/tmp", "/data"]  # noqa: S108 the container's
    assert values(plan, "--ulimit") == [
        *("cpu=600:600", "fsize=1000000000:1000000000", "nofile=1024:1024", "core=0:0")
    ]
    assert plan["argv"][-2:] == ["sh", "-x; 'y'"]


def test_values_are_in_no_list_of_processes(
    program: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker is told names, and takes the values from its environment."""
    monkeypatch.setenv("WANTED", "CANARY")

    plan = planned(program, workspace, env=("WANTED",))

    assert "WANTED" in values(plan, "--env")
    assert plan["env"]["WANTED"] == "CANARY"
    assert "PATH" not in plan["env"]
    assert "CANARY" not in " ".join([*plan["client"], *plan["argv"]])


def test_without_limits_there_are_none(program: Path, workspace: Path) -> None:
    """And with the network nothing is said about it."""
    limits = SandboxLimits(
        cpu_seconds=None, memory=None, processes=None, file_size=None, open_files=None
    )

    plan = planned(program, workspace, limits=limits, network=True)

    assert values(plan, "--pids-limit") == ["-1"]
    assert values(plan, "--ulimit") == ["core=0:0"]
    assert not {"--memory", "--network"} & set(plan["argv"])


def test_who_a_command_is(program: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This user, or for root whoever has the workspace."""
    found = workspace.stat()
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert values(planned(program, workspace), "--user") == [f"{found.st_uid}:{found.st_gid}"]

    monkeypatch.setattr(os, "getuid", lambda: 1234)
    assert values(planned(program, workspace), "--user") == [f"1234:{os.getgid()}"]


def test_this_programs_packages_are_read_only(program: Path) -> None:
    """Where they lie in the workspace."""
    root = Path(__file__).parents[2].resolve()

    mounts = values(planned(program, root), "--mount")

    assert f'"type=bind","src={root}","dst={root}"' in mounts
    assert f'"type=bind","src={root}/src/treadle","dst={root}/src/treadle","readonly"' in mounts


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"OSType": "windows"}, "for containers of windows, not of Linux"),
        ({"SecurityOptions": ["name=apparmor"]}, "no filter of system calls"),
        ({"SecurityOptions": ["name=seccomp,profile=unconfined"]}, "no filter of system calls"),
        ({"SecurityOptions": None}, "no filter of system calls"),
        ({"MemoryLimit": False}, r"cannot bound memory here; SandboxLimits\(memory=None\)"),
        ({"PidsLimit": False}, r"cannot bound processes here; SandboxLimits\(processes=None\)"),
        ({"MemoryLimit": "yes"}, "tells too little of itself: Expected `bool`"),
    ],
)
def test_an_engine_with_holes_is_refused(
    program: Path, workspace: Path, changes: dict[str, Any], told: str
) -> None:
    """What it cannot hold is said, and what to do."""
    (program.parent / "info.json").write_text(json.dumps(GOOD | changes))

    with pytest.raises(ValueError, match=told):
        planned(program, workspace)


def test_an_engine_elsewhere_is_refused(program: Path, workspace: Path) -> None:
    """It has other files."""
    program.write_text(ANSWERS.replace("unix://", "tcp://"))

    with pytest.raises(ValueError, match="reached by tcp: it may be on another machine"):
        planned(program, workspace)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\necho 'it is\n away' >&2; exit 1", "^it is away$"),
        ("#!/bin/sh\nexit 1", "^it failed: "),
        ("#!/bin/sh\n", "reached by no socket"),
    ],
)
def test_a_program_that_fails_is_told(
    program: Path, workspace: Path, script: str, told: str
) -> None:
    """In its own words."""
    program.write_text(script)

    with pytest.raises(ValueError, match=told):
        planned(program, workspace)


def test_no_folder_is_made(program: Path, workspace: Path) -> None:
    """The engine would make one that is missing, as root."""
    command = Command(
        text="true",
        workspace=str(workspace),
        folder=str(workspace / "none"),
        seconds=1,
        max_output=1000,
    )
    box = Box(str(program), "image:1", False, (), [], [str(workspace)], SandboxLimits())

    with pytest.raises(ValueError, match=r"there is no folder '.*/none'"):
        container_plan(box, command)


def test_the_socket_is_not_given_to_a_command(program: Path) -> None:
    """It could do all that root can."""
    with pytest.raises(ValueError, match="the socket of its engine is in"):
        planned(program, program.parent)


def test_what_is_mounted_below_is_found() -> None:
    """Each place, whatever its name."""
    below = mounts_below("")

    assert "/proc" in below
    assert all(path.startswith("/") for path in below)
    assert mounts_below("/no/such/place") == []
