"""Recorded traffic: see `tools/recorded_anthropic.py` for what is compared with what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.recorded_anthropic import CHECKS
from tools.recording import Recording, Tally, folder, load
from treadle.testing.strict import strict

pytestmark = pytest.mark.recordings


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """Return all Messages recordings; without their folder there is nothing to test."""
    found = load("anthropic")
    if not found:
        pytest.skip(f"no recordings in {folder()}; name their folder in TREADLE_RECORDINGS")
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_nothing_is_missed(
    check: Callable[[list[Recording]], Tally], recordings: list[Recording]
) -> None:
    """Replies, errors, every split of every stream, requests and replies there and back, usage."""
    tally = check(recordings)
    assert tally.seen
    assert tally.missed == []


def test_the_strict_checker_takes_what_anthropic_took(recordings: list[Recording]) -> None:
    """A rule that a real, accepted request breaks would be no rule of Anthropic's."""
    taken = [one for one in recordings if one.host == "api.anthropic.com" and one.status < 300]
    assert taken
    problems = {one.id: strict("anthropic")(one.request) for one in taken}
    assert problems == {one.id: [] for one in taken}
