"""Stores on this machine live through a full disk and through `fork`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("hardship", "url"),
    [
        ("full", "sqlite:///{}/chat.db"),
        ("full", "file:{}/chats"),
        ("forked", "sqlite:///{}/chat.db"),
        ("forked", "file:{}/chats"),
        ("held", "file:{}/chats"),
    ],
)
def test_hardship(hardship: str, url: str, tmp_path: Path) -> None:
    """J1: nothing is written by half, and a child never uses what its parent has open."""
    argv = [sys.executable, "-W", "error", "-W", "ignore:.*fork:DeprecationWarning"]
    argv += ["-m", "tests.contract.hardship", hardship, url.format(tmp_path)]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr, done.stdout[:6]) == (0, "", "passed")
