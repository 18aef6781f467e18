"""What tests of tools share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from treadle.tools.processes import PROCESSES


@pytest.fixture(scope="module")
def all_gone() -> Iterator[None]:
    """End the worker processes with the last test of a module."""
    yield
    PROCESSES.close()
    assert PROCESSES.pids == []
