"""What a command in a container may try is contained, as its column in the docs says."""

from __future__ import annotations

import os
import sys

import pytest

from tests.sandboxes.attack import Attack, Place
from tests.sandboxes.attacks import ATTACKS
from tests.sandboxes.own_docker import IMAGE, OwnDocker
from tests.sandboxes.test_attacks import reached
from treadle.sandboxes import Sandbox

pytestmark = pytest.mark.e2e

SOMEBODY = 12345


@pytest.fixture
def box(attack: Attack, docker: OwnDocker) -> Sandbox:
    """The sandbox that is attacked; this Python can be run in it."""
    return Sandbox(backend="docker", image=IMAGE, readable=(sys.base_prefix,), limits=attack.limits)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.title)
@pytest.mark.parametrize("owner", [SOMEBODY, 0], ids=["ordinary", "root"])
async def test_an_attack(attack: Attack, owner: int, box: Sandbox, place: Place) -> None:
    """It is contained, or the docs do not say so: some are only by engines that are newer."""
    os.chown(place.workspace, owner, owner)

    got, told = await reached(attack, box, place)

    if attack.contained_by("docker" if owner else "docker_for_root"):
        assert not got, told
