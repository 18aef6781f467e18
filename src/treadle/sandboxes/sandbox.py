"""The sandbox that a developer builds: where commands run, and what they may do there."""

from __future__ import annotations

import os
import re
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine, release
from shutil import which
from tempfile import gettempdir

from treadle.errors import ConfigError
from treadle.ports.command_runner import Command, CommandEnd
from treadle.sandboxes import bubblewrap, seccomp, system
from treadle.sandboxes.bubblewrap import Mounts
from treadle.sandboxes.found import (
    BACKENDS,
    CONTAINING,
    Backend,
    Wanted,
    find_backend,
    sandbox_launch,
)
from treadle.sandboxes.walls import SandboxPlan
from treadle.tools.builtin.command import launch
from treadle.tools.builtin.launcher import SHELL

MB = 1_000_000
COUNTS_APART = (5, 14)
"""The first Linux that counts the processes of a user namespace apart from the user's others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """How much a command may use. Sizes are in bytes; None is no limit.

    `memory` and `processes` (threads count) are for all that a command starts, together;
    `cpu_seconds`, `file_size` and `open_files` for each process. `tmp_size` is the room in /tmp,
    which is memory, and once more in /dev/shm; only bubblewrap knows it.

    Raises:
        ConfigError: a limit is no whole number above 0.
    """

    cpu_seconds: int | None = 600
    memory: int | None = 2000 * MB
    processes: int | None = 256
    file_size: int | None = 1000 * MB
    open_files: int | None = 1024
    tmp_size: int = 100 * MB

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value: object = getattr(self, name)
            if value is None and name != "tmp_size":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"SandboxLimits({name}={value!r}): give a whole number above 0.")

    def by_kernel(self) -> list[tuple[int, int]]:
        """Return the limits that the kernel holds for each process."""
        bounds = [
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_DATA, self.memory),
            (resource.RLIMIT_FSIZE, self.file_size),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CORE, 0),
        ]
        return [(kind, most) for kind, most in bounds if most is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Runs commands where they reach the workspace, the system's programs, and nothing else.

    ```python
    from treadle.sandboxes import Sandbox, SandboxLimits
    from treadle.tools import code_tools

    sandbox = Sandbox(env=("CI",), limits=SandboxLimits(memory=500_000_000))
    tools = code_tools(".", sandbox=sandbox)
    ```

    `backend="auto"` is the first that really works here: bubblewrap, then Landlock (Linux 6.12);
    where none does, commands do not run. `"local"` contains nothing: it only bounds what a command
    uses, keeps the environment from it, and ends all that it has started.

    There is no network without `network=True`, and of the environment only the language and what
    `env` names. The workspace may be changed unless it is `read_only`; `readable` and `writable`
    are more files and folders. `bwrap` is bubblewrap's program.

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

    def __post_init__(self) -> None:
        if self.backend not in ("auto", *BACKENDS):
            names = ", ".join(map(repr, ("auto", *BACKENDS)))
            raise ConfigError(f"Sandbox(backend={self.backend!r}): write one of {names}.")
        for name in ("env", "readable", "writable"):
            value: object = getattr(self, name)
            if isinstance(value, str | bytes | Path):
                raise ConfigError(f"Sandbox({name}={value!r}): give a tuple, like ({value!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for variable in self.env:
            if not variable or "=" in variable or "\0" in variable:
                raise ConfigError(f"Sandbox(env=...): {variable!r} is no name of a variable.")
        for name in ("readable", "writable"):
            paths = tuple(_existing(name, path) for path in getattr(self, name))
            object.__setattr__(self, name, paths)

    def check(self) -> Backend:
        """Start a command that does nothing; return the back end that it ran in.

        Raises:
            ConfigError: none works here, so no command would run; the message says why.
        """
        try:
            return find_backend(self.backend, self.bwrap, self._plan_of)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    async def run(self, command: Command) -> CommandEnd:
        """Run a command; when this returns or is cancelled, no process of it is left."""
        return await launch(command, lambda: sandbox_launch(self.plan(command)))

    def plan(self, command: Command) -> SandboxPlan:
        """Return what to run, and the walls around it.

        Raises:
            ValueError: no sandbox works here, or the workspace is none for it.
        """
        system.check_folder(command.workspace)
        backend = find_backend(self.backend, self.bwrap, self._plan_of)
        return self._plan_of(backend, command)

    def _plan_of(self, backend: Backend, command: Command) -> SandboxPlan:
        if backend in CONTAINING and sys.platform != "linux":
            raise ValueError(f"it is for Linux, and this is {sys.platform}")
        limits = self.limits
        own = [command.workspace]
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
            readable=[*map(str, self.readable), *(own if self.read_only else [])],
            writable=[*map(str, self.writable), *([] if self.read_only else own)],
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


def _existing(name: str, path: str | Path) -> str:
    """Return a path without links; it must be there."""
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
