"""What an attack on a sandbox is, and what is around it.

An attack is a Python program that prints REACHED when it got what it wanted. `place` has the paths
and numbers that it needs, and `harm` looks from outside for what it has done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.sandboxes import SandboxLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is around a sandbox: a folder beside the workspace, a process, sockets, a terminal."""

    workspace: Path
    outside: Path
    victim: int
    tcp: int
    udp: int
    abstract: str
    terminal: str
    own_file: str
    heard: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One row of the table. `local` is whether the back end that contains little contains it."""

    title: str
    program: str
    bubblewrap: bool = True
    landlock: bool = True
    docker: bool = True
    docker_for_root: bool = True
    """Whether docker contains it where root has the workspace."""
    local: bool = False
    depends: bool = False
    """Whether it is up to the user and the machine what comes of it without walls."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    seconds: float = 20
    harm: Callable[[Place], bool] = lambda _: False

    def contained_by(self, backend: str) -> bool:
        """Return what the docs say."""
        contained: bool = getattr(self, backend)
        return contained

    def told(self, backend: str) -> str:
        """Return what the docs say, in words."""
        if not self.contained_by(backend):
            depends = self.depends and backend == "local"
            return f"**not contained**{' (as far as the user may)' if depends else ''}"
        return "not for root" if backend == "docker" and not self.docker_for_root else "contained"

    def written_for(self, place: Place) -> str:
        """Return the program, with what is around it."""
        names: dict[str, Any] = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in ((name, getattr(place, name)) for name in place.__slots__)
            if not callable(value)
        }
        return f"import os, sys, socket, time, ctypes\nplace = {names!r}\n{self.program}"
