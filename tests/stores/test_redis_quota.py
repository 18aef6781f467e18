"""The quota that processes share, on a real Redis."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack
from uuid import uuid4

import pytest

from tests.databases import started, url_of
from tests.models.quota_contract import QuotaContract, most_in_a_window
from treadle import ConfigError, Overloaded, RateLimited
from treadle.models import RateLimit
from treadle.ports.quota import Bounds, Permit
from treadle.stores.redis_quota import RedisQuota
from treadle.testing import ScriptedModel

pytestmark = pytest.mark.e2e


@pytest.mark.contract
class TestRedisQuota(QuotaContract):
    """By the server's clock, in windows that are short."""

    window = 0.6

    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.url = url_of("redis")

    def make(self, bounds: Bounds) -> RedisQuota:
        return RedisQuota(self.url, bounds, name=uuid4().hex)


IN_ANOTHER_PROCESS = """
import asyncio, json, sys
from treadle.ports.quota import Bounds
from treadle.stores.redis_quota import RedisQuota

async def main():
    quota = RedisQuota(sys.argv[1], Bounds(rpm=4, concurrency=2, window=0.5), name=sys.argv[2])
    async def use():
        permit = await quota.begin(1)
        await quota.end(permit, 1)
        return permit.at
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(use()) for _ in range(5)]
    print(json.dumps([task.result() for task in made]))

asyncio.run(main())
"""


def test_processes_share_it() -> None:
    """Three of them together keep to what one would keep to."""
    url, name = url_of("redis"), uuid4().hex
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, url, name]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    times = [at for each in running for at in json.loads(each.communicate(timeout=60)[0])]

    permits = [Permit("", 1, at) for at in sorted(times)]
    assert len(permits) == 15
    assert most_in_a_window(permits, 0.5)[0] <= 4


async def test_two_that_share_it_stand_in_one_line() -> None:
    """The later one is served later, though the place would be free for it."""
    url, name, bounds = url_of("redis"), uuid4().hex, Bounds(tpm=100, window=0.5)
    one, other = (RedisQuota(url, bounds, name=name) for _ in range(2))
    await one.end(await one.begin(60), None)

    async with asyncio.TaskGroup() as tasks:
        large = tasks.create_task(one.begin(90))
        await somebody_waits(other)
        small = tasks.create_task(other.begin(10))

    assert large.result().at <= small.result().at


async def test_nothing_is_left_of_a_cancelled_wait() -> None:
    """Those behind do not wait for it."""
    url, name, bounds = url_of("redis"), uuid4().hex, Bounds(tpm=100, window=60.0)
    one, other = (RedisQuota(url, bounds, name=name) for _ in range(2))
    await one.end(await one.begin(60), None)

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(one.begin(90))
        await somebody_waits(other)
        waiting.cancel()

    await other.end(await other.begin(10, longest=0.0), None)


async def somebody_waits(quota: RedisQuota) -> None:
    """Return when a request that would fit is not let through, because one stands before it."""
    for _ in range(10_000):
        try:
            permit = await quota.begin(1, longest=0.0)
        except RateLimited:
            return
        await quota.end(permit, 0)
    raise AssertionError("nobody waits")


async def test_a_server_that_is_gone() -> None:
    """It cannot be asked, which may pass; what cannot be said of an end is logged."""
    with ExitStack() as stack:
        server = started("redis", stack)
        quota = RedisQuota(server.url, Bounds(rpm=5))
        permit = await quota.begin(1)
        await asyncio.to_thread(server.kill)
        with pytest.raises(Overloaded, match=r"Redis at 127\.0\.0\.1:\d+ cannot be asked"):
            await quota.begin(1)
        await quota.end(permit, 1)
        await asyncio.to_thread(server.start)
        await quota.end(await quota.begin(1), 1)
        await quota.close()


async def test_a_rate_limit_by_url() -> None:
    """The bounds are given beside it."""
    url = f"{url_of('redis')}?name={uuid4().hex}"
    model = RateLimit(ScriptedModel([]), rpm=5, quota=url)
    assert isinstance(model.quota, RedisQuota)
    assert model.quota.bounds == Bounds(rpm=5)
    safe = RateLimit(ScriptedModel([]), rpm=5, quota="rediss://host/0").quota
    assert repr(safe) == "RedisQuota('host:6379', 'treadle:quota:scripted:scripted')"


def test_a_url_that_cannot_be() -> None:
    """Refused at once."""
    with pytest.raises(ConfigError, match="cannot be used"):
        RedisQuota("redis://host:port/0", Bounds(rpm=1))


async def test_a_cancellation_is_heard() -> None:
    """The driver swallows some: whoever is cancelled at any step has no place afterwards."""
    quota = RedisQuota(url_of("redis"), Bounds(concurrency=1), name=uuid4().hex)
    for number in range(200):
        task = asyncio.ensure_future(quota.begin(1))
        for _ in range(number % 20):
            await asyncio.sleep(0)
        was_under_way = task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or not was_under_way
        if not task.cancelled():
            await quota.end(task.result(), 1)
    await quota.end(await quota.begin(1, longest=0), 1)  # nobody holds the only place
    await quota.close()
