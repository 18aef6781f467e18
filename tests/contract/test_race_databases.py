"""Stores on servers that processes share: nothing is lost, doubled or out of turn."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract.race import ROOT, chosen, crash, race, start_together
from tests.databases import KINDS, Kind, url_of
from treadle.ids import new_stamp

pytestmark = [
    pytest.mark.contract,
    pytest.mark.e2e,
    pytest.mark.parametrize("kind", [pytest.param(each, id=f"at-{each}") for each in KINDS]),
]


@pytest.fixture
def url(kind: Kind) -> str:
    """The server of this kind."""
    return url_of(kind)


async def test_processes_append_at_once(url: str) -> None:
    """J2, J7, S51: a few processes and conversations, one start. TREADLE_RACE=4x1500 for more."""
    await race(url, *chosen(3, 150))


async def test_what_was_acknowledged_survives(url: str) -> None:
    """J1: a process that is killed in the middle of appends loses none that it was told of."""
    await crash(url)


async def test_a_fresh_place_is_opened_by_all_at_once(url: str) -> None:
    """BS-39, BS-42: tables are made once, and nobody meets them half made."""
    places = [f"{url}?prefix=t{new_stamp()[-12:]}_" for _ in range(3)]
    await start_together(places, processes=3, tasks=4, appends=5)


def test_a_child_has_connections_of_its_own(url: str) -> None:
    """J1: after a fork parent and child go on with the same store."""
    place = f"{url}?prefix=t{new_stamp()[-12:]}_"
    argv = [sys.executable, "-W", "error", "-W", "ignore:.*fork:DeprecationWarning"]
    argv += ["-m", "tests.contract.hardship", "forked", place]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr, done.stdout[:6]) == (0, "", "passed")
