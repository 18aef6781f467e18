"""Recorded traffic: see `tools/recorded_responses.py` for what is compared with what."""

from __future__ import annotations

import pytest

from tools.recorded import Check
from tools.recorded_responses import CHECKS
from tools.recording import Recording, folder, load
from treadle.testing.strict import strict

pytestmark = pytest.mark.recordings


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """Return all Responses recordings; without their folder there is nothing to test."""
    found = load("openai_responses")
    if not found:
        pytest.skip(f"no recordings in {folder()}; name their folder in TREADLE_RECORDINGS")
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_nothing_is_missed(check: Check, recordings: list[Recording]) -> None:
    """Replies, errors, every split of every stream, requests there and back, usage."""
    tally = check(recordings)
    assert tally.seen
    assert tally.missed == []


def test_the_strict_checker_takes_what_openai_took(recordings: list[Recording]) -> None:
    """A rule that a real, accepted request breaks would be no rule of OpenAI's."""
    taken = [one for one in recordings if one.host == "api.openai.com" and one.status < 300]
    assert taken
    checker = strict("openai_responses")
    assert {one.id: checker(one.request) for one in taken} == {one.id: [] for one in taken}
