"""Each page is a program of its own: no model of an earlier page answers in it."""

from __future__ import annotations

import pytest

from treadle.models import resolve


@pytest.fixture(autouse=True)
def _fresh_models() -> None:
    """Forget the models that strings named: `OPENAI_BASE_URL` is another server on each page."""
    vars(resolve)["_make"].cache_clear()
