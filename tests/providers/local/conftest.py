"""What the tests of the local model share."""

from __future__ import annotations

import sys

import pytest

from tests.providers.local.made_up import Library


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """The made-up library, in the place of the real one."""
    made_up = Library()
    monkeypatch.setitem(sys.modules, "xllamacpp", made_up)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    return made_up
