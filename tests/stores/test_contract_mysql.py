"""The MySQL store keeps the contract."""

from __future__ import annotations

import pytest

from tests.databases import url_of
from treadle.stores.mysql import MySQLStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
@pytest.mark.e2e
class TestMySQLStore(StoreContract):
    """All handles are on one server."""

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.url = url_of("mysql")

    async def open_store(self) -> MySQLStore:
        return MySQLStore.from_url(self.url)
