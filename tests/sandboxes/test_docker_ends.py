"""Containers when something dies: the launcher, this program, the engine; and engines of no use."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandboxes.conftest import Run
from tests.sandboxes.own_docker import IMAGE, OwnDocker
from tests.sandboxes.test_ordinary_user import NOBODY, script
from tests.tools.builtin.left import running
from treadle.sandboxes import Sandbox
from treadle.sandboxes.container import LABEL, is_left, owner

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox

folder, image, text = sys.argv[1:]
command = Command(text=text, workspace=folder, folder=folder, seconds=60, max_output=1000)
end = asyncio.run(Sandbox(backend="docker", image=image).run(command))
print(end.ending, end.exit_code, end.reason, end.output)
"""


@pytest.fixture
def box() -> Sandbox:
    """A sandbox with its defaults."""
    return Sandbox(backend="docker", image=IMAGE)


async def begun(workspace: Path) -> None:
    """Wait until a command has begun."""
    while not (workspace / "begun").exists():  # noqa: ASYNC110 another process makes it true
        await asyncio.sleep(0.01)


async def gone(docker: OwnDocker, workspace: Path) -> None:
    """Wait until nothing is left of a command."""
    while docker.containers() or running(str(workspace)):  # noqa: ASYNC110 as above
        await asyncio.sleep(0.05)


def launcher_of(docker: OwnDocker) -> int:
    """Return the launcher of the one container there is."""
    label = docker.tell("ps", "--all", "--format", '{{.Label "' + LABEL + '"}}').strip()
    return int(label.split("/")[-2])


async def test_a_launcher_that_dies_takes_its_container_along(
    run: Run, box: Sandbox, workspace: Path, docker: OwnDocker
) -> None:
    """Somebody else waits for that."""
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        command = tasks.create_task(run(box, "touch begun; sleep 60"))
        await begun(workspace)
        os.kill(launcher_of(docker), signal.SIGKILL)
        end = await command
        await gone(docker, workspace)

    assert (end.ending, end.reason) == ("stopped", "its launcher was ended")


async def test_a_program_that_dies_leaves_nothing(workspace: Path, docker: OwnDocker) -> None:
    """No container and no process."""
    text = "touch begun; setsid sleep 60 & sleep 60"
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(workspace), IMAGE, text
    )
    async with asyncio.timeout(30):
        await begun(workspace)
        program.kill()
        await program.wait()
        await gone(docker, workspace)


async def test_a_container_removed_by_somebody_is_told(
    run: Run, box: Sandbox, workspace: Path, docker: OwnDocker
) -> None:
    """The command was killed; what came of it is not known once the container is gone."""
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        command = tasks.create_task(run(box, "echo begun; touch begun; sleep 60"))
        await begun(workspace)
        docker.tell("rm", "--force", *docker.containers())
        end = await command

    assert end.output == "begun\n"
    if end.ending == "exited":  # the engine was asked between the two
        assert end.exit_code == 128 + signal.SIGKILL
    else:
        assert end.ending == "stopped"
        assert "its engine cannot say what came of it" in end.reason


def test_what_was_left_is_removed(docker: OwnDocker, box: Sandbox) -> None:
    """By the next program that begins, and nothing of those that live or are not seen."""
    own, elsewhere = owner(), owner().replace("[", "[9")
    dead = own.rpartition("/")[0] + "/1"
    for name, label in (("own", own), ("elsewhere", elsewhere), ("dead", dead), ("odd", "x")):
        docker.tell(
            *("run", "--detach", "--network", "none", "--name", name),
            *("--label", f"{LABEL}={label}", IMAGE, "sleep", "60"),
        )

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(docker.folder), IMAGE, "true"],
        capture_output=True,
        text=True,
        check=True,
    )
    left = docker.containers()
    docker.tell("rm", "--force", *left)

    assert ended.stdout.startswith("not_started"), "its socket is in the workspace"
    assert "the socket of its engine is in" in ended.stdout
    assert sorted(left) == ["elsewhere", "odd", "own"]


def test_who_is_gone_is_known() -> None:
    """By when a process began and when the system did; what is elsewhere only if it has ended."""
    machine, space, pid, began = owner().split("/")

    assert not is_left(owner(), running=True)
    assert not is_left(owner(), running=False)
    assert is_left(f"{machine}/{space}/{pid}/{int(began) + 1}", running=True)
    assert is_left(f"{machine}/{space}/99999999/{began}", running=True)
    assert not is_left(f"{machine}/other/{pid}/1", running=False)
    assert is_left(f"other/{space}/{pid}/1", running=False)
    assert not is_left(f"other/{space}/{pid}/1", running=True)
    assert not is_left("of/somebody/else", running=False)


@pytest.fixture
def mortal(own_docker: OwnDocker, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnDocker]:
    """An engine that may be killed, with a network of its own."""
    assert own_docker
    engine = OwnDocker("--default-address-pool", "base=10.213.0.0/16,size=24")
    try:
        engine.start()
        engine.make_image()
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine
    finally:
        engine.close()


async def test_an_engine_that_dies_is_told(
    run: Run, box: Sandbox, workspace: Path, mortal: OwnDocker
) -> None:
    """And after that one which is away; when it is back, what was left there is removed."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        command = tasks.create_task(run(box, "echo begun; touch begun; sleep 60"))
        await begun(workspace)
        mortal.kill()
        died = await command
        away = await run(box, "echo ran")
        mortal.start()
        left = mortal.containers()
        fresh = await run(box, "echo ran")

    assert (died.ending, died.output) == ("stopped", "begun\n")
    assert "may still be there: " in died.reason
    assert "Cannot connect to the Docker daemon" in died.reason
    assert (away.ending, away.output) == ("not_started", "")
    assert "Cannot connect to the Docker daemon" in away.reason
    assert len(left) == 1
    assert fresh.output == "ran\n"


async def test_the_network_can_be_allowed(
    run: Run, box: Sandbox, workspace: Path, mortal: OwnDocker
) -> None:
    """It is the engine's; without it there is none."""
    online = Sandbox(backend="docker", image=IMAGE, network=True)
    text = "cat /proc/net/dev /proc/net/route"

    alone, connected = await run(box, text), await run(online, text)

    assert "eth0" not in alone.output
    assert "eth0:" in connected.output
    assert "\t00000000\t" in connected.output  # a way to everywhere


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:9", "ssh://somebody@127.0.0.1"])
async def test_an_engine_elsewhere_is_refused(
    run: Run, box: Sandbox, host: str, monkeypatch: pytest.MonkeyPatch, own_docker: OwnDocker
) -> None:
    """It has other files; who it is asked as is not told."""
    monkeypatch.setenv("DOCKER_HOST", host)

    end = await run(box, "echo ran")

    assert end.ending == "not_started"
    assert f"reached by {host[:3]}: it may be on another machine" in end.reason
    assert "somebody" not in end.reason


async def test_an_engine_that_does_not_answer_is_told(
    run: Run, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_docker: OwnDocker
) -> None:
    """It is not waited for without end."""
    monkeypatch.setattr("treadle.sandboxes.docker.ASK_SECONDS", 0.5)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")

        end = await run(box, "echo ran")

    assert end.ending == "not_started"
    assert "docker: no answer within 0.5 seconds" in end.reason


async def test_a_program_that_is_missing_is_told(run: Run) -> None:
    """As for the other back ends."""
    end = await run(Sandbox(backend="docker", image=IMAGE, docker="no-such-program"), "echo ran")

    assert end.ending == "not_started"
    assert "docker: there is no program 'no-such-program'" in end.reason


def test_an_ordinary_user_stays_one(docker: OwnDocker, tmp_path: Path) -> None:
    """Whoever has the workspace: who may talk to the engine gets no rights of others by this."""
    socket_file = Path(docker.host.removeprefix("unix://"))
    mode = socket_file.stat().st_mode
    place = docker.folder / "place"
    place.mkdir()
    place.chmod(0o755)
    command = [
        *("env", "-i", f"PATH={os.environ['PATH']}", f"DOCKER_HOST={docker.host}"),
        *("PYTHONDONTWRITEBYTECODE=1", sys.executable, "-c", PROGRAM, str(place), IMAGE),
        "id -u; touch made",
    ]
    keep = tmp_path / "keep"
    keep.mkdir()
    socket_file.chmod(0o666)
    try:
        ended = subprocess.run(
            ["unshare", "-m", "sh", "-c", script(keep, command)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    finally:
        socket_file.chmod(mode)
        found = os.listdir(place)
        place.rmdir()

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"exited 1  {NOBODY}\ntouch: "), shlex.quote(ended.stdout)
    assert found == []
