"""Token estimates beside what providers counted: see `benchmarks/tokens.py`."""

from __future__ import annotations

import pytest

from benchmarks.tokens import TARGET, judge, middle
from tools.recording import folder, load

pytestmark = pytest.mark.recordings


@pytest.mark.parametrize(
    ("protocol", "at_first"),
    [("openai_chat", 0.2), ("openai_responses", 0.2), ("anthropic", 0.2), ("gemini", 0.2)],
)
def test_estimates_are_near_what_was_counted(protocol: str, at_first: float) -> None:
    """At first, and nearer after one reply of the same model, in the middle."""
    if not load(protocol):
        pytest.skip(f"no recordings in {folder()}; name their folder in TREADLE_RECORDINGS")
    judged = judge(protocol, own=False)
    assert len(judged.raw) > 10
    assert middle(judged.raw) <= at_first
    assert middle(judged.corrected) <= TARGET
