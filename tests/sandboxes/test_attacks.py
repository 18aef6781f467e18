"""What a command may try is contained, on each back end as its column in the docs says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sandboxes.attack import Attack, Place
from tests.sandboxes.attacks import ATTACKS
from tests.sandboxes.conftest import PYTHON, available
from tests.tools.builtin.left import running
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox
from treadle.sandboxes.found import Backend

BACKENDS: tuple[Backend, ...] = ("bubblewrap", "landlock", "local")
COLUMNS: tuple[Backend, ...] = ("bubblewrap", "landlock", "docker", "local")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sandbox-commands.md"


@pytest.fixture
def sandbox(attack: Attack, backend: Backend) -> Sandbox:
    """The sandbox that is attacked; this Python can be run in it."""
    return Sandbox(backend=available(backend), readable=(sys.base_prefix,), limits=attack.limits)


async def reached(attack: Attack, sandbox: Sandbox, place: Place) -> tuple[bool, str]:
    """Return whether an attack got what it wanted, and what it says."""
    program = place.workspace / "attack.py"
    program.write_text(attack.written_for(place))
    folder = str(place.workspace)
    command = Command(
        text=f"exec {PYTHON} -I -S {program}",
        workspace=folder,
        folder=folder,
        seconds=attack.seconds,
        max_output=10_000,
    )
    end = await sandbox.run(command)
    assert end.ending != "not_started", end.reason
    assert running(folder) == []
    return "REACHED" in end.output.splitlines() or attack.harm(place), f"{end.reason}\n{end.output}"


@pytest.mark.e2e
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.title)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_attack(attack: Attack, backend: Backend, sandbox: Sandbox, place: Place) -> None:
    """It is contained, or it is not and the docs say so."""
    got, told = await reached(attack, sandbox, place)

    if backend == "local" and attack.depends:
        return
    assert got is not attack.contained_by(backend), told


def test_the_docs_have_the_table() -> None:
    """A row for each attack, with what each back end does about it."""
    rows = [f"| {' | '.join([attack.title, *map(attack.told, COLUMNS)])} |" for attack in ATTACKS]

    assert "\n".join(rows) in PAGE.read_text()
