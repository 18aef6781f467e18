"""What a server says of its lists, told once and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from treadle.errors import MCPFailed
from treadle.values.logs import logger

log = logger(__name__)

CALM = 0.5
"""Seconds between two looks at lists that do not stop to change."""


class Changes:
    """Has lists read anew: one at a time, each once for all that was heard until then."""

    def __init__(self, changed: Callable[[str], Awaitable[None]]) -> None:
        self._changed = changed
        self._heard: set[str] = set()
        self._lock = asyncio.Lock()

    def hear(self, kind: str) -> bool:
        """Note that a list has changed; return whether nobody is on the way to look at it yet."""
        if kind in self._heard:
            return False
        self._heard.add(kind)
        return True

    async def look(self, kind: str) -> None:
        """Have a list read anew."""
        async with self._lock:
            self._heard.discard(kind)
            try:
                await self._changed(kind)
            except MCPFailed as error:
                log.warning("MCP server %r: its list could not be read: %s", error.server, error)
            await asyncio.sleep(CALM)
