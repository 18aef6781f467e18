"""Which back end really works here: each is started once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from treadle.ports.command_runner import Command, CommandEnd
from treadle.sandboxes.container import ContainerPlan
from treadle.sandboxes.walls import SandboxPlan
from treadle.tools.builtin.command import MODULES as LAUNCHER
from treadle.tools.builtin.command import PACKAGES, Launch, launch_and_wait

Backend = Literal["bubblewrap", "landlock", "docker", "local"]
Wanted = Literal["auto", "bubblewrap", "landlock", "docker", "local"]
CONTAINING: tuple[Backend, ...] = ("bubblewrap", "landlock", "docker")
BACKENDS: tuple[Backend, ...] = (*CONTAINING, "local")
PROOF = 42

IN_SANDBOX = (*PACKAGES, "treadle.sandboxes")
MODULES = (
    *LAUNCHER,
    "treadle.sandboxes.landlock",
    "treadle.sandboxes.modes",
    "treadle.sandboxes.walls",
)

MakeLaunch = Callable[[Backend, Command], Launch]
_works: set[tuple[str, ...]] = set()


def sandbox_launch(plan: SandboxPlan) -> Launch:
    """Return the plan with the program that follows it."""
    return Launch(plan, IN_SANDBOX, MODULES)


def container_launch(plan: ContainerPlan) -> Launch:
    """Return the plan with the program that follows it."""
    return Launch(plan, IN_SANDBOX, (*LAUNCHER, "treadle.sandboxes.container"))


def find_backend(wanted: Wanted, needs: tuple[str, ...], make_launch: MakeLaunch) -> Backend:
    """Return the back end that is wanted, or for "auto" the first that works.

    That one worked once, with the programs that it `needs`, is remembered, not that one failed: it
    may be installed meanwhile.

    Raises:
        ValueError: none does; the message says why of each.
    """
    failures: list[str] = []
    for backend in BACKENDS if wanted != "auto" else CONTAINING:
        if wanted not in ("auto", backend):
            continue
        if (backend, *needs) in _works:
            return backend
        why = _why_not(backend, make_launch)
        if why is None:
            _works.add((backend, *needs))
            return backend
        failures.append(f"{backend}: {why}")
    raise ValueError(
        f"no sandbox works here ({'; '.join(failures)}); install bubblewrap 0.8 or newer, or run "
        'commands without walls, by Sandbox(backend="local") or sandbox=None'
    )


def _why_not(backend: Backend, make_launch: MakeLaunch) -> str | None:
    """Return why a command does not run in a back end, None when it does."""
    try:
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            Path(folder, "proof").touch(0o600)
            text = f"read nothing; exec < proof && exit {PROOF}"
            asked = Command(text=text, workspace=folder, folder=folder, seconds=10, max_output=4000)
            end = launch_and_wait(make_launch(backend, asked), asked)
    except (OSError, ValueError) as error:
        return str(error)
    return None if end.exit_code == PROOF else _told(end)


def _told(end: CommandEnd) -> str:
    if end.ending == "exited":
        return f"a command ended with {end.exit_code} in place of {PROOF} {end.output}".strip()
    return end.reason or end.ending
