"""The places where the conversations of scenarios are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.scenarios.stores import ALL, Kept, keeping, marked


@pytest.fixture(params=marked(*ALL))
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Kept]:
    """Give a place on each kind of store."""
    async with keeping(request.param, tmp_path) as place:
        yield place
