"""The file store keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.stores.file import FileStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
class TestFileStore(StoreContract):
    """Each handle opens the same folder."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "chats"

    async def open_store(self) -> FileStore:
        return FileStore(self.path)
