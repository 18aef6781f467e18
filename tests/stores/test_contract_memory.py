"""The memory store keeps the contract."""

from __future__ import annotations

import pytest

from treadle import MemoryStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
class TestMemoryStore(StoreContract):
    """All handles are one object."""

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.store = MemoryStore()

    async def open_store(self) -> MemoryStore:
        return self.store
