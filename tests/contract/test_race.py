"""Stores that processes share: nothing is lost, doubled or out of turn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.race import chosen, crash, race, start_together

URLS = ["sqlite:///{}/chat.db", "sqlite:///{}/chat.db?sync=normal", "file:{}/chats"]


@pytest.mark.e2e
@pytest.mark.parametrize("url", URLS)
async def test_processes_append_at_once(url: str, tmp_path: Path) -> None:
    """J2, J7, S51: four processes, a few conversations, one start. TREADLE_RACE=4x1500 for more."""
    processes, appends = chosen(4, 1500)

    await race(url.format(tmp_path), processes, appends)


@pytest.mark.e2e
@pytest.mark.parametrize("url", URLS)
async def test_what_was_acknowledged_survives(url: str, tmp_path: Path) -> None:
    """J1: a process that is killed in the middle of appends loses none that it was told of."""
    for _ in range(3):
        await crash(url.format(tmp_path))


@pytest.mark.e2e
@pytest.mark.parametrize("url", [URLS[0], URLS[2]])
async def test_a_fresh_place_is_opened_by_all_at_once(url: str, tmp_path: Path) -> None:
    """BS-39: tables and folders are made once, and nobody meets them half made.

    TREADLE_ROUNDS=20 for more.
    """
    rounds = int(os.environ.get("TREADLE_ROUNDS", "5"))

    await start_together([url.format(tmp_path / f"{n}") for n in range(rounds)])
