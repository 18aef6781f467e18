"""Own a conversation while a run works in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal

from treadle.agent.owner import is_dead, owner_here
from treadle.agent.unbroken import unbroken
from treadle.errors import ConversationBusy, LeaseLost, StoreUnavailable, TreadleError
from treadle.ports.store import Head, Lease, Store, never_waits
from treadle.values.logs import logger

log = logger(__name__)

IfBusy = Literal["raise", "wait", "interrupt"]
LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
RETRY_SECONDS = 1.0
WRITER = "/write"
"""Owns a conversation in place of a run, for one write; no run can have this ID."""
LOOK_SECONDS = 1.0
"""How often whoever waits for a busy conversation looks whether its owner has died."""


class Ownership:
    """The lease of one run, until it is let go.

    `lost` is called with the error when a renewal fails: the run must not go on. `due` is when the
    next renewal is, in the loop's time.
    """

    __slots__ = ("_alive_until", "_store", "due", "lease", "lost")

    def __init__(self, store: Store, lost: Callable[[TreadleError], None]) -> None:
        self._store = store
        self.lost = lost
        self._alive_until = 0.0
        self.due = 0.0
        self.lease: Lease | None = None

    @property
    def fence(self) -> int | None:
        """The fencing token that every write carries."""
        return None if self.lease is None else self.lease.fence

    async def claim(self, conversation_id: str, run_id: str, *, wait: bool = False) -> Head:
        """Take the conversation and return its head; `wait` for as long as another owns it.

        An owner that is known to be dead is not waited for; one that only writes something always
        is.

        Raises:
            ConversationBusy: another run owns it.
        """
        owner, dead = owner_here(run_id), None
        while True:
            try:
                taking = self._take(conversation_id, owner, dead)
                head = await (taking if never_waits(self._store) else unbroken(taking))
            except ConversationBusy as error:
                lease = error.lease
                if lease.fence != dead and await asyncio.to_thread(is_dead, lease.owner):
                    dead = lease.fence
                    continue
                if lease.owner.startswith(f"{WRITER}@"):
                    await asyncio.sleep(random.uniform(0.001, 0.02))  # noqa: S311 not a secret
                    continue
                if not wait:
                    raise
                await asyncio.sleep(min(LOOK_SECONDS, max(0.01, error.seconds_left)))
            else:
                return head

    async def _take(self, conversation_id: str, owner: str, dead: int | None) -> Head:
        head, lease = await self._store.claim(
            conversation_id, owner, LEASE_SECONDS, instead_of=dead
        )
        self.took(lease)
        return head

    def took(self, lease: Lease) -> None:
        """The conversation was taken."""
        self.lease = lease
        self._renewed()

    def ended(self) -> None:
        """The last write let the conversation go."""
        self.lease = None

    async def release(self) -> None:
        """Let the conversation go."""
        lease, self.lease = self.lease, None
        if lease is None:
            return
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                await self._store.release(lease)
        except Exception:
            log.exception("lease of %s not released; it ends by itself", lease.conversation_id)

    async def renew(self) -> None:
        """Renew; what may pass is tried again for as long as the lease is alive."""
        lease, loop = self.lease, asyncio.get_running_loop()
        if lease is None:
            return
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                self.lease = await self._store.renew(lease, LEASE_SECONDS)
        except LeaseLost as error:
            if self.lease is lease:  # else it was let go meanwhile
                self.lease = None
                self.lost(error)
        except Exception as error:  # noqa: BLE001 a store's driver may raise anything
            self.due = loop.time() + RETRY_SECONDS
            if self.due < self._alive_until:
                return
            lost = StoreUnavailable(f"The lease could not be renewed in time: {error}")
            lost.__cause__ = error
            self.lost(lost)
        else:
            self._renewed()

    def check(self) -> None:
        """Refuse to go on when the lease has ended without being renewed.

        Raises:
            LeaseLost: this process was held up for too long; another may own the conversation.
        """
        if self.lease is not None and asyncio.get_running_loop().time() > self._alive_until:
            raise LeaseLost(
                f"The lease on conversation {self.lease.conversation_id!r} ended before it was "
                "renewed: this process was held up. Resume the run."
            )

    def _renewed(self) -> None:
        now = asyncio.get_running_loop().time()
        self._alive_until = now + LEASE_SECONDS
        self.due = now + RENEW_SECONDS
