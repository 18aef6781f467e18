"""What every quota keeps to, whoever shares it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from treadle.errors import RateLimited
from treadle.ports.quota import Bounds, Permit, Quota


class QuotaContract:
    """Subclass it and give it quotas; `window` is short where time is real."""

    window = 60.0

    def make(self, bounds: Bounds) -> Quota:
        """Return a new quota."""
        raise AssertionError

    def quota(
        self, *, rpm: int | None = None, tpm: int | None = None, concurrency: int | None = None
    ) -> Quota:
        """Return a new quota with these bounds."""
        bounds = Bounds(rpm=rpm, tpm=tpm, concurrency=concurrency, window=self.window)
        return self.make(bounds)

    async def test_no_window_has_more_requests(self) -> None:
        """Nor at its seams: the next one begins when the oldest is a whole window ago."""
        quota = self.quota(rpm=3)

        permits = [await self.used(quota, 1) for _ in range(8)]

        assert most_in_a_window(permits, self.window) == (3, 3)

    async def test_no_window_has_more_tokens(self) -> None:
        """Whatever the sizes are; one that is larger than the bound has a window for itself."""
        quota = self.quota(tpm=100)

        permits = [await self.used(quota, tokens) for tokens in (60, 40, 30, 70, 500, 1, 99)]

        assert most_in_a_window(permits, self.window)[1] <= 100
        assert [permit.tokens for permit in permits] == [60, 40, 30, 70, 100, 1, 99]
        times = [permit.at for permit in permits]
        assert times == sorted(times)
        assert times[2] - times[0] >= self.window
        assert times[4] - times[3] >= self.window
        assert times[5] - times[4] >= self.window

    async def test_what_was_not_used_is_free_again(self) -> None:
        """And what was used beyond the estimate counts; unknown use is as estimated."""
        quota = self.quota(tpm=100)
        await quota.end(await quota.begin(90), 10)
        await quota.end(await quota.begin(60), None)

        with pytest.raises(RateLimited):
            await quota.begin(40, longest=0.0)
        permit = await quota.begin(30, longest=0.0)
        await quota.end(permit, 500)
        with pytest.raises(RateLimited):
            await quota.begin(1, longest=0.0)

    async def test_a_wait_that_is_too_long_is_not_begun(self) -> None:
        """It says how long it would be, and takes nothing."""
        quota = self.quota(rpm=1)
        first = await quota.begin(1)

        with pytest.raises(RateLimited, match=r"limit set here \(rpm=1\)") as caught:
            await quota.begin(1, longest=0.0)

        assert caught.value.retryable
        assert 0 < (caught.value.retry_after or 0) <= self.window
        second = await quota.begin(1, longest=self.window * 2)
        assert second.at - first.at >= self.window

    async def test_only_so_many_run_at_once(self) -> None:
        """The next one begins when one has ended."""
        quota = self.quota(concurrency=2)
        held = [await quota.begin(1), await quota.begin(1)]
        with pytest.raises(RateLimited):
            await quota.begin(1, longest=0.0)
        for permit in held:
            await quota.end(permit, 1)
        running, most = 0, 0

        async def run() -> None:
            nonlocal running, most
            permit = await quota.begin(1)
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            await quota.end(permit, 1)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(9):
                tasks.create_task(run())
        assert 1 <= most <= 2

    async def test_first_come_first_served(self) -> None:
        """A small request does not overtake a large one."""
        quota = self.quota(concurrency=1, tpm=1_000_000)
        held, order = await quota.begin(1), list[int]()

        async def run(number: int, tokens: int) -> None:
            permit = await quota.begin(tokens)
            order.append(number)
            await quota.end(permit, 0)

        async with asyncio.TaskGroup() as tasks:
            for number, tokens in enumerate((5, 900_000, 1, 700_000, 2)):
                tasks.create_task(run(number, tokens))
                await asyncio.sleep(0)
            await quota.end(held, 0)
        assert order == [0, 1, 2, 3, 4]

    async def test_whoever_is_cancelled_gives_the_place_back(self) -> None:
        """Also the first in the line; those behind are served in order."""
        quota = self.quota(concurrency=1)
        held, order = await quota.begin(1), list[str]()

        async def run(name: str) -> None:
            permit = await quota.begin(1)
            order.append(name)
            await quota.end(permit, 1)

        async with asyncio.TaskGroup() as tasks:
            gone = [tasks.create_task(run("first")), tasks.create_task(run("second"))]
            tasks.create_task(run("third"))
            await settled()
            for task in gone:
                task.cancel()
            await asyncio.wait(gone)
            await quota.end(held, 1)
        assert order == ["third"]
        await quota.end(await quota.begin(1, longest=self.window), 1)

    async def used(self, quota: Quota, tokens: int) -> Permit:
        """Begin and end one request."""
        permit = await quota.begin(tokens)
        await quota.end(permit, None)
        return permit


async def settled() -> None:
    """Let all tasks go as far as they come by themselves."""
    for _ in range(20):
        await asyncio.sleep(0)


def most_in_a_window(permits: Sequence[Permit], seconds: float) -> tuple[int, int]:
    """Return the most requests and the most tokens that began in any window."""
    spans = [
        [each for each in permits if first.at <= each.at < first.at + seconds] for first in permits
    ]
    return max(map(len, spans)), max(sum(each.tokens for each in span) for span in spans)
