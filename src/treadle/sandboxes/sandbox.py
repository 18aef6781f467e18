"""The sandbox that a developer builds: where commands run, and what they may do there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine, release
from shutil import which
from tempfile import gettempdir

from treadle.errors import ConfigError
from treadle.ports.command_runner import Command, CommandEnd
from treadle.sandboxes import bubblewrap, seccomp, system
from treadle.sandboxes.bubblewrap import Mounts
from treadle.sandboxes.docker import Box, container_plan, settings
from treadle.sandboxes.found import (
    BACKENDS,
    CONTAINING,
    Backend,
    Wanted,
    container_launch,
    find_backend,
    sandbox_launch,
)
from treadle.sandboxes.limits import SandboxLimits
from treadle.sandboxes.walls import Around, SandboxPlan
from treadle.tools.builtin.command import Launch, launch
from treadle.tools.builtin.launcher import SHELL

KINDS = {
    "network": bool,
    "read_only": bool,
    "limits": SandboxLimits,
    "bwrap": str,
    "docker": str,
    "image": str,
}
"""What some options are; the string "off" would be taken for yes."""
COUNTS_APART = (5, 14)
"""The first Linux that counts the processes of a user namespace apart from the user's others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Runs commands where they reach the workspace, the system's programs, and nothing else.

    ```python
    from treadle.sandboxes import Sandbox, SandboxLimits
    from treadle.tools import code_tools

    sandbox = Sandbox(env=("CI",), limits=SandboxLimits(memory=500_000_000))
    tools = code_tools(".", sandbox=sandbox)
    ```

    `backend="auto"` is the first that really works here: bubblewrap, then Landlock (Linux 6.12),
    then docker, if an `image` is named; where none does, commands do not run. `"local"` contains
    nothing: it only bounds what a command uses, keeps the environment from it, and ends all that
    it has started.

    There is no network without `network=True`, and of the environment only the language and what
    `env` names. The workspace may be changed unless it is `read_only`; `readable` and `writable`
    are more files and folders. `bwrap` and `docker` are the programs of those. With docker the
    system's programs are those of the `image`, which is never fetched.

    Raises:
        ConfigError: an option is of no use; the message says which.
    """

    backend: Wanted = "auto"
    network: bool = False
    env: tuple[str, ...] = ()
    read_only: bool = False
    readable: tuple[str | Path, ...] = ()
    writable: tuple[str | Path, ...] = ()
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    bwrap: str = "bwrap"
    docker: str = "docker"
    image: str = ""

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            if not isinstance(getattr(self, name), kind):
                given: object = getattr(self, name)
                raise ConfigError(f"Sandbox({name}={given!r}): give a {kind.__name__}.")
        if self.backend not in ("auto", *BACKENDS):
            names = ", ".join(map(repr, ("auto", *BACKENDS)))
            raise ConfigError(f"Sandbox(backend={self.backend!r}): write one of {names}.")
        if self.image.startswith("-") or (self.backend == "docker" and not self.image):
            raise ConfigError(
                f"Sandbox(image={self.image!r}): name an image that is on this machine, "
                "like 'python:3.13-slim'."
            )
        for name in ("env", "readable", "writable"):
            value: object = getattr(self, name)
            if isinstance(value, str | bytes | Path) or not isinstance(value, Iterable):
                raise ConfigError(f"Sandbox({name}={value!r}): give a tuple, like ({value!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for variable in self.env:
            _check_variable(variable)
        for name in ("readable", "writable"):
            paths = tuple(_existing(name, path) for path in getattr(self, name))
            object.__setattr__(self, name, paths)

    def check(self) -> Backend:
        """Start a command that does nothing; return the back end that it ran in.

        Raises:
            ConfigError: none works here, so no command would run; the message says why.
        """
        try:
            return self._find()
        except ValueError as error:
            raise ConfigError(str(error)) from error

    async def run(self, command: Command) -> CommandEnd:
        """Run a command; when this returns or is cancelled, no process of it is left."""
        return await launch(command, lambda: self.plan(command))

    def plan(self, command: Command) -> Launch:
        """Return what to run, and the walls around it.

        Raises:
            ValueError: no sandbox works here, or the workspace is none for it.
        """
        system.check_folder(command.workspace)
        return self._launch_of(self._find(), command)

    def _find(self) -> Backend:
        needs = (self.bwrap, self.docker, self.image, *settings())
        return find_backend(self.backend, needs, self._launch_of)

    def _launch_of(self, backend: Backend, command: Command) -> Launch:
        if backend == "docker":
            return container_launch(container_plan(self._box(command), command))
        if backend in CONTAINING and sys.platform != "linux":
            raise ValueError(f"it is for Linux, and this is {sys.platform}")
        return sandbox_launch(self._plan_of(backend, command))

    def _box(self, command: Command) -> Box:
        if not self.image:
            raise ValueError("it needs an image: Sandbox(image=...)")
        readable, writable = self._folders(command)
        return Box(self.docker, self.image, self.network, self.env, readable, writable, self.limits)

    def _folders(self, command: Command) -> tuple[list[str], list[str]]:
        """Return what a command may read, and what it may change, too."""
        own = [command.workspace]
        read_only = self.read_only or command.read_only
        return (
            [*map(str, self.readable), *(own if read_only else [])],
            [*map(str, self.writable), *([] if read_only else own)],
        )

    def _plan_of(self, backend: Around, command: Command) -> SandboxPlan:
        limits = self.limits
        readable, writable = self._folders(command)
        plan = SandboxPlan(
            argv=[*SHELL, command.text],
            env=system.environment(self.env),
            folder=command.folder,
            rlimits=limits.by_kernel(),
            processes=limits.processes,
            memory=limits.memory,
            walls=backend,
            nproc=None if os.getuid() == 0 else limits.processes,
            counted=_kernel() >= COUNTS_APART,
            filter=b"",
            seccomp=seccomp.call_number(machine()),
            asked={},
            network=self.network,
            readable=readable,
            writable=writable,
            scratch=gettempdir(),
            files=[],
            devices=[f"/dev/{name}" for name in system.DEVICES],
        )
        if backend == "bubblewrap":
            self._enclose(plan, command)
        elif backend == "landlock":
            plan["readable"] += [*system.PROGRAMS, *system.settings(network=self.network)]
            plan["writable"] += plan["devices"]
            plan["filter"] = seccomp.open_filter(
                machine(), network=self.network, root=os.getuid() == 0
            )
            plan["asked"] = seccomp.asked_calls(machine())
        return plan

    def _enclose(self, plan: SandboxPlan, command: Command) -> None:
        program = which(self.bwrap)
        if program is None:
            raise ValueError(f"there is no program {self.bwrap!r}")
        mounts = Mounts(
            plan["readable"],
            plan["writable"],
            command.folder,
            self.limits.tmp_size,
            self.network,
        )
        plan["argv"] = bubblewrap.arguments(program, mounts, command.text)
        plan["env"] |= {"HOME": bubblewrap.HOME, "TMPDIR": "/tmp"}  # noqa: S108 of its own
        plan["folder"] = "/"
        plan["scratch"] = None
        plan["files"] = bubblewrap.accounts()
        plan["filter"] = seccomp.enclosed_filter(machine(), network=self.network)


def _check_variable(name: object) -> None:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise ConfigError(f"Sandbox(env=...): {name!r} is no name of a variable.")
    if name in ("HOME", "TMPDIR"):
        raise ConfigError(f"Sandbox(env=...): a command has its own {name}; leave it out.")


def _existing(name: str, path: object) -> str:
    """Return a path without links; it must be there."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ConfigError(f"Sandbox({name}=...): {path!r} is no path.")
    found = os.path.realpath(Path(path).expanduser())
    if not os.path.exists(found):
        raise ConfigError(f"Sandbox({name}=...): there is no {str(path)!r}.")
    try:
        system.check_folder(found)
    except ValueError as error:
        raise ConfigError(f"Sandbox({name}=...): {error}.") from error
    return found


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release())[:2])
