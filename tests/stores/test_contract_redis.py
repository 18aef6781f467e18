"""The Redis store keeps the contract."""

from __future__ import annotations

import pytest

from tests.databases import url_of
from treadle.stores.redis import RedisStore
from treadle.testing.store_contract import StoreContract


@pytest.mark.contract
@pytest.mark.e2e
class TestRedisStore(StoreContract):
    """All handles are on one server."""

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.url = url_of("redis")

    async def open_store(self) -> RedisStore:
        return RedisStore.from_url(self.url)
