"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

import pytest

from tests.databases import url_of
from treadle.stores.postgres import PostgresStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
@pytest.mark.e2e
class TestPostgresStore(StoreContract):
    """All handles are on one server."""

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.url = url_of("postgresql")

    async def open_store(self) -> PostgresStore:
        return PostgresStore.from_url(self.url)
