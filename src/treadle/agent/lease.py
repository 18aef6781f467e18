"""Own a conversation while a run works in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from treadle.errors import LeaseLost, StoreUnavailable, TreadleError
from treadle.ports.store import Lease, Leases, Store, gives_leases

log = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
RETRY_SECONDS = 1.0


class Ownership:
    """The lease of one run, renewed until it is let go; nothing, where the store has no leases.

    `lost` is called with the error when a renewal fails: the run must not go on.
    """

    __slots__ = ("_alive_until", "_lease", "_leases", "_lost", "_renewal", "_timer")

    def __init__(self, store: Store, lost: Callable[[TreadleError], None]) -> None:
        self._leases: Leases | None = store if gives_leases(store) else None
        self._lost = lost
        self._lease: Lease | None = None
        self._alive_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def fence(self) -> int | None:
        """The fencing token that every write carries."""
        return None if self._lease is None else self._lease.fence

    async def claim(self, conversation_id: str, owner: str) -> bool:
        """Take the conversation; False where there are no leases.

        Raises:
            ConversationBusy: another run owns it.
        """
        if self._leases is None:
            return False
        self._lease = await self._leases.claim(conversation_id, owner, LEASE_SECONDS)
        self._alive_until = asyncio.get_running_loop().time() + LEASE_SECONDS
        self._renew_later()
        return True

    async def release(self) -> None:
        """Let the conversation go."""
        lease, self._lease = self._lease, None
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        if lease is None or self._leases is None:
            return
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                await self._leases.release(lease)
        except Exception:
            log.exception("lease of %s not released; it ends by itself", lease.conversation_id)

    def _renew_later(self, seconds: float = RENEW_SECONDS) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start_renewal)

    def _start_renewal(self) -> None:
        self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Renew; what may pass is tried again for as long as the lease is alive."""
        if self._lease is None or self._leases is None:
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                self._lease = await self._leases.renew(self._lease, LEASE_SECONDS)
        except LeaseLost as error:
            self._lost(error)
        except Exception as error:  # noqa: BLE001 a store's driver may raise anything
            if loop.time() + RETRY_SECONDS < self._alive_until:
                self._renew_later(RETRY_SECONDS)
                return
            lost = StoreUnavailable(f"The lease could not be renewed in time: {error}")
            lost.__cause__ = error
            self._lost(lost)
        else:
            self._alive_until = loop.time() + LEASE_SECONDS
            self._renew_later()
