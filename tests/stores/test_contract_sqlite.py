"""The SQLite store keeps the contract, in a file and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.stores.sqlite import SQLiteStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
class TestSQLiteStore(StoreContract):
    """Each handle opens the same file."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "chats" / "chat.db"

    async def open_store(self) -> SQLiteStore:
        return SQLiteStore(self.path)


@pytest.mark.contract
class TestSQLiteStoreInMemory(StoreContract):
    """All handles are one object."""

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.store = SQLiteStore(":memory:")

    async def open_store(self) -> SQLiteStore:
        return self.store
