"""What stands around a sandbox: something to steal, somebody to harm, somebody to talk to."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import pytest

import treadle.tools.builtin.launcher
from tests.sandboxes.attack import Place
from tests.sandboxes.own_docker import MISSING, OwnDocker, can_start
from treadle.ports.command_runner import Command, CommandEnd
from treadle.sandboxes import Sandbox
from treadle.sandboxes.found import Backend

Run = Callable[..., Coroutine[None, None, CommandEnd]]
PYTHON = os.path.realpath(sys.executable)
CONTAINING: tuple[Backend, ...] = ("bubblewrap", "landlock")

NEEDED = bool(os.environ.get("TREADLE_NEED_STORES"))
"""Whether what cannot be tested here is a failure, as in CI."""

SLEEPER = "import time; time.sleep(600)"


def available(backend: Backend) -> Backend:
    """Return a back end that can be tested here, or skip."""
    if backend == "bubblewrap" and which("bwrap") is None and not NEEDED:
        pytest.skip("there is no bubblewrap here; make sandboxes")
    return backend


@pytest.fixture(scope="session")
def own_docker() -> Iterator[OwnDocker]:
    """A docker engine with an image."""
    if not can_start():
        if NEEDED:
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    engine = OwnDocker()
    try:
        engine.start()
        engine.make_image()
        yield engine
    finally:
        engine.close()


@pytest.fixture
def docker(own_docker: OwnDocker, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnDocker]:
    """The engine that is talked to; a test leaves no container there."""
    monkeypatch.setenv("DOCKER_HOST", own_docker.host)
    yield own_docker
    assert own_docker.containers() == []


def _listening(kind: int, address: object, family: int, stack: ExitStack) -> socket.socket:
    listener = stack.enter_context(socket.socket(family, kind))
    listener.bind(address)  # pyright: ignore[reportArgumentType] of either family
    if kind == socket.SOCK_STREAM:
        listener.listen()
    return listener


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def place(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A workspace, and beside it a secret, a process with another, and open sockets."""
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret.txt"
    secret.write_text("CANARY")
    secret.chmod(0o640)
    monkeypatch.setenv("SOME_API_KEY", "CANARY")
    with ExitStack() as stack:
        victim = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", SLEEPER], env={"KEY": "CANARY"})
        )
        stack.callback(victim.kill)
        inet, unix = socket.AF_INET, socket.AF_UNIX
        tcp = _listening(socket.SOCK_STREAM, ("127.0.0.1", 0), inet, stack)
        udp = _listening(socket.SOCK_DGRAM, ("127.0.0.1", 0), inet, stack)
        abstract = f"treadle-{os.urandom(8).hex()}"
        listeners = [
            tcp,
            udp,
            _listening(socket.SOCK_STREAM, f"\0{abstract}", unix, stack),
            _listening(socket.SOCK_DGRAM, str(outside / "socket"), unix, stack),
        ]
        master, slave = os.openpty()
        stack.callback(os.close, master)
        stack.callback(os.close, slave)
        yield Place(
            workspace=workspace,
            outside=outside,
            victim=victim.pid,
            tcp=tcp.getsockname()[1],
            udp=udp.getsockname()[1],
            abstract=abstract,
            terminal=os.ttyname(slave),
            own_file=treadle.tools.builtin.launcher.__file__,
            heard=lambda: bool(select.select(listeners, [], [], 0)[0]),
        )
        assert victim.poll() is None, "the process outside was ended"


@pytest.fixture
def run(workspace: Path) -> Run:
    """Run a command in a sandbox, in the workspace."""

    async def make(sandbox: Sandbox, text: str, *, seconds: float = 20) -> CommandEnd:
        folder = str(workspace)
        return await sandbox.run(
            Command(text=text, workspace=folder, folder=folder, seconds=seconds, max_output=10_000)
        )

    return make


@pytest.fixture(params=CONTAINING)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each back end that contains a command."""
    return available(request.param)


@pytest.fixture
def walls(backend: Backend) -> Sandbox:
    """A sandbox with its defaults."""
    return Sandbox(backend=backend)


@pytest.fixture
def this_python(backend: Backend) -> Sandbox:
    """A sandbox in which this Python can be run."""
    return Sandbox(backend=backend, readable=(sys.base_prefix,))
