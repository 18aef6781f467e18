"""What docker is told: the container of one command, on an engine of this machine."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import PurePath
from shutil import which

import msgspec
from msgspec import Struct

from treadle.ports.command_runner import Command
from treadle.sandboxes import system
from treadle.sandboxes.container import LABEL, ContainerPlan, is_left
from treadle.sandboxes.limits import SandboxLimits

ASK_SECONDS = 20.0
UNIX = "unix://"
SETTINGS = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME")
NO_SETTINGS = "/nonexistent"
"""For the settings of docker's user: a proxy's password would go to each container."""
TMP = "/tmp"  # noqa: S108 of the container's own
OF_THE_INIT = 1
"""How many processes beside the command's are counted with them."""
SH = 'exec /bin/sh -c -- "$1" 2>&1'
"""The command within: both of its outputs are one, so they keep their order."""
ULIMITS = {  # without that of data: the engine bounds memory, and needs some to begin
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_CORE: "core",
}


class Box(Struct, frozen=True):
    """What a developer says about containers. `docker` is the program, `image` what they are of."""

    docker: str
    image: str
    network: bool
    env: tuple[str, ...]
    readable: list[str]
    writable: list[str]
    limits: SandboxLimits


class _Told(Struct, rename="pascal"):
    """What an engine tells of itself, as far as that matters."""

    memory_limit: bool
    pids_limit: bool
    security_options: list[str] | None
    system: str = msgspec.field(name="OSType")


class Daemon(Struct, frozen=True):
    """An engine that answers. `client` are the first words of all that it is told."""

    client: list[str]
    socket: str
    bounds: dict[str, bool]
    volumes: list[str]


def container_plan(box: Box, command: Command) -> ContainerPlan:
    """Return what to run, and in which container.

    Raises:
        ValueError: there is no engine for it, or no image, or a folder cannot be given to it.
    """
    daemon = _find_daemon(box.docker, box.image, settings())
    if not os.path.isdir(command.folder):  # the engine would make it, as root
        raise ValueError(f"there is no folder {command.folder!r}")
    environment = system.environment(box.env) | {"HOME": TMP, "TMPDIR": TMP}
    if "PATH" not in box.env:
        del environment["PATH"]  # the image's is better
    return ContainerPlan(
        client=daemon.client,
        argv=[
            *("--pull", "never", "--init", "--log-driver", "none", "--no-healthcheck"),
            *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--ipc", "private", "--cgroupns", "private", "--user", _user(command.workspace)),
            *([] if box.network else ["--network", "none"]),
            *_bounds(box.limits, daemon.bounds),
            *_scratch(box, daemon.volumes),
            *_mounts(box, daemon.socket),
            *(word for name in sorted(environment) for word in ("--env", name)),
            *("--workdir", command.folder, "--entrypoint", "/bin/sh"),
            *(box.image, "-c", SH, "sh", command.text),
        ],
        env=environment,
        folder="/",
        rlimits=[],
        processes=None,
        memory=None,
        holds=box.limits.memory,
    )


def settings() -> tuple[str, ...]:
    """Return what decides which engine docker talks to."""
    return tuple(os.environ.get(name, "") for name in SETTINGS)


@cache
def _find_daemon(docker: str, image: str, wanted: tuple[str, ...]) -> Daemon:  # noqa: ARG001 with others it is another
    """Return the engine, and remove what programs that were killed have left there.

    Raises:
        ValueError: it does not answer, is on another machine, is not safe, or lacks the image.
    """
    program = which(docker)
    if program is None:
        raise ValueError(f"there is no program {docker!r}")
    host = _ask([program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]).strip()
    if not host.startswith(UNIX):
        raise ValueError(
            f"its engine is reached by {host.partition(':')[0] or 'no socket'}: it may be on "
            "another machine, and has other files than this one. Name one of this machine, like "
            "DOCKER_HOST=unix:///var/run/docker.sock"
        )
    client = [program, "--config", NO_SETTINGS, "--host", host]
    told = _check_safe(_ask([*client, "info", "--format", "{{json .}}"]))
    _remove_left(client)
    return Daemon(
        client,
        os.path.realpath(host.removeprefix(UNIX)),
        {"memory": told.memory_limit, "processes": told.pids_limit},
        _volumes(client, image),
    )


def _check_safe(told: str) -> _Told:
    """Return what an engine tells of itself.

    Raises:
        ValueError: its walls have holes, or it tells too little.
    """
    try:
        engine = msgspec.json.decode(told, type=_Told)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its engine tells too little of itself: {error}") from error
    if engine.system != "linux":
        raise ValueError(f"its engine is for containers of {engine.system}, not of Linux")
    options = engine.security_options or []
    if not any("name=seccomp" in each and "unconfined" not in each for each in options):
        raise ValueError("its engine has no filter of system calls (seccomp)")
    return engine


def _remove_left(client: list[str]) -> None:
    line = '{{.ID}} {{.State}} {{.Label "' + LABEL + '"}}'
    listed = _ask([*client, "ps", "--all", "--filter", f"label={LABEL}", "--format", line])
    for each in listed.splitlines():
        identity, state, label = each.split(" ", 2)
        if is_left(label, running=state in ("running", "paused")):
            with suppress(ValueError):  # another program may do the same
                _ask([*client, "rm", "--force", "--volumes", identity])


def _volumes(client: list[str], image: str) -> list[str]:
    """Return the folders of an image that would be writable, on a disk without bounds."""
    try:
        told = _ask([*client, "image", "inspect", "--format", "{{json .Config.Volumes}}", image])
    except ValueError as error:
        raise ValueError(f"{error}; fetch or build it first: docker pull {image}") from error
    return sorted(msgspec.json.decode(told, type=dict[str, object] | None) or {})


def _ask(argv: list[str]) -> str:
    """Return what docker answers.

    Raises:
        ValueError: it fails, or does not answer in time.
    """
    try:
        asked = subprocess.run(  # noqa: S603 the developer names the program
            argv, capture_output=True, text=True, timeout=ASK_SECONDS, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"no answer within {ASK_SECONDS:g} seconds") from error
    if asked.returncode:
        raise ValueError(" ".join(asked.stderr.split())[:800] or f"it failed: {argv[0]}")
    return asked.stdout


def _user(workspace: str) -> str:
    """Return who the command is: this user, or for root whoever has the workspace."""
    if os.getuid():
        return f"{os.getuid()}:{os.getgid()}"
    found = os.stat(workspace)
    return f"{found.st_uid}:{found.st_gid}"


def _bounds(limits: SandboxLimits, known: dict[str, bool]) -> Iterator[str]:
    for name, known_here in known.items():
        if getattr(limits, name) is not None and not known_here:
            raise ValueError(
                f"its engine cannot bound {name} here; SandboxLimits({name}=None) does without"
            )
    for kind, most in limits.by_kernel():
        if kind in ULIMITS:
            yield from ("--ulimit", f"{ULIMITS[kind]}={most}:{most}")
    if limits.memory is not None:
        yield from ("--memory", str(limits.memory), "--memory-swap", str(limits.memory))
    most = -1 if limits.processes is None else limits.processes + OF_THE_INIT
    yield from ("--pids-limit", str(most), "--shm-size", str(limits.tmp_size))


def _scratch(box: Box, volumes: list[str]) -> Iterator[str]:
    """Yield folders in memory, for temporary files and where the image wants a volume."""
    given = {*box.readable, *box.writable}
    for path in {TMP: None, **dict.fromkeys(volumes)}:
        if path not in given:
            options = f"exec,nosuid,nodev,mode=1777,size={box.limits.tmp_size}"
            yield from ("--tmpfs", f"{path}:{options}")


def _mounts(box: Box, socket: str) -> Iterator[str]:
    """Yield the files and folders of this machine, each by its own path.

    What is mounted below a folder that may only be read could be written, so it is named, too.
    """
    modes = dict.fromkeys(box.readable, "readonly") | dict.fromkeys(box.writable, "")
    modes |= dict.fromkeys(system.own_folders(box.writable), "readonly")
    for path in [path for path, mode in modes.items() if mode]:
        for below in system.mounts_below(path):
            modes.setdefault(below, "readonly")
    for path, mode in modes.items():
        if os.path.realpath(path) != path:
            raise ValueError(f"{path!r} was a file or folder, and is a link now")
        if PurePath(socket).is_relative_to(path):
            raise ValueError(f"the socket of its engine is in {path!r}: a command could use it")
        fields = ["type=bind", f"src={path}", f"dst={path}", *([mode] if mode else [])]
        yield from ("--mount", ",".join(map(_field, fields)))


def _field(text: str) -> str:
    """Return a field of a line of comma-separated values, whatever is in it."""
    return '"' + text.replace('"', '""') + '"'
