"""A server as its tools see it: connected when it is needed, opened again when it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from treadle.errors import MCPFailed
from treadle.mcp._sdk import IS_TWO, Session
from treadle.mcp.child import Launch
from treadle.mcp.connection import Connection, Opening, Work
from treadle.mcp.exchange import CURRENT, Asking, Exchange
from treadle.mcp.failures import failure_of
from treadle.mcp.http import Address
from treadle.mcp.listing import MOST_PAGES, Listed, listed_tools
from treadle.values.logs import logger

log = logger(__name__)

T = TypeVar("T")
PICKED_UP = 5.0
"""Seconds that a loop in another thread has to begin what it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How a connection is looked after."""

    max_crashes: int
    elicit: Asking | None = None


class Remote:
    """Keeps at most one connection. `tools` is what the server lists, newest first to know.

    Calls from other loops than the one it was opened in are handed over to that one.
    """

    def __init__(self, opening: Opening, care: Care, borrowed: Session | None = None) -> None:
        self.opening = opening
        self.tools: tuple[Listed, ...] = ()
        self.server_name = borrowed.server_name if borrowed is not None else None
        self.instructions: str | None = None
        self._care = care
        self._borrowed = borrowed
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._crashes = 0
        self._last: MCPFailed | None = None
        self._is_open = False

    async def open(self) -> None:
        """Connect, and read the list of tools.

        Raises:
            MCPFailed: the server cannot be reached, or is open in another loop.
        """
        if self._loop is None:
            self._loop, self._lock = asyncio.get_running_loop(), asyncio.Lock()
        self._is_open, self._crashes = True, 0
        try:
            await self.refresh()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, from any task and any loop."""
        self._is_open = False
        connection, loop = self._connection, self._loop
        if connection is None or loop is None:
            self._loop = None
            return
        if loop.is_closed() or not loop.is_running():
            connection.abandon()
        else:
            await self._over_there(connection.close)
        if self._connection is connection:
            self._connection = self._loop = None

    def abandon(self) -> None:
        """Nobody uses it any more: let it end, from any thread."""
        self._is_open = False
        if self._connection is not None:
            self._connection.abandon()

    async def refresh(self) -> None:
        """Read the list of tools anew."""
        self.tools = tuple(listed_tools(await self.list("tools")))

    async def list(self, kind: str) -> list[dict[str, Any]]:
        """Return a whole list, all pages of it.

        Raises:
            MCPFailed: the server refused, does not answer, or its pages have no end.
        """

        async def read(session: Session) -> list[dict[str, Any]]:
            seconds, server = self.opening.connect_timeout, self.opening.server
            try:
                async with asyncio.timeout(seconds):
                    return await _pages(session, kind, server)
            except TimeoutError:
                text = f"MCP server {server!r} did not list its {kind} within {seconds:g} s."
                raise MCPFailed(text, server=server) from None

        return await self.request(read)

    async def request(
        self, work: Work[T], exchange: Exchange | None = None, *, again: bool = False
    ) -> T:
        """Do a piece of work with the session; `again` when it may be done twice.

        Raises:
            MCPFailed: it was refused, or the server has gone.
        """
        asked = exchange or Exchange()
        if self._borrowed is not None:
            session = self._borrowed
            return await self._over_there(lambda: self._borrow(session, work, asked))
        return await self._over_there(lambda: self._request(work, asked, again=again))

    async def _borrow(self, session: Session, work: Work[T], exchange: Exchange) -> T:
        token = CURRENT.set(exchange)
        try:
            return await work(session)
        except Exception as error:
            raise failure_of(error, self.opening.server, self.opening.secrets) from error
        finally:
            CURRENT.reset(token)

    async def _request(self, work: Work[T], exchange: Exchange, *, again: bool) -> T:
        connection = await self._live()
        try:
            result = await connection.run(work, exchange)
        except MCPFailed as error:
            if not error.gone:
                raise
            self._count(connection, error)
            if not again:
                raise
            exchange.request_ids.clear()
            connection = await self._live()
            result = await connection.run(work, exchange)
        self._crashes = 0
        return result

    async def _live(self) -> Connection:
        """Return the connection, a new one if there is none."""
        async with self._lock:
            if not self._is_open:
                name = self.opening.server
                raise MCPFailed(f"MCP server {name!r} is not open; use it in `async with`.")
            if self._connection is not None and self._connection.alive:
                return self._connection
            self._refuse_when_disabled()
            try:
                return await self._connected()
            except MCPFailed as error:
                if self._connection is not None:
                    self._count(self._connection, error)
                raise

    async def _connected(self) -> Connection:
        """Return a new connection.

        Some programs end when they are asked which protocols they know before the handshake that
        they expect: they are started again, and not asked any more.
        """
        try:
            return await self._start(self.opening)
        except MCPFailed as error:
            is_process = isinstance(self.opening.target, Launch)
            if not (IS_TWO and is_process and error.gone and self.opening.protocol == "auto"):
                raise
        older = replace(self.opening, protocol="handshake")
        connection = await self._start(older)
        self.opening = older
        return connection

    async def _start(self, opening: Opening) -> Connection:
        if self._connection is not None:
            await self._connection.close()
        connection = Connection(opening, changed=self._list_changed, elicit=self._care.elicit)
        self._connection = connection
        session = await connection.start()
        self.server_name = session.server_name
        self.instructions = session.facts.get("instructions")
        return connection

    def _refuse_when_disabled(self) -> None:
        if isinstance(self.opening.target, Address) or self._crashes < self._care.max_crashes:
            return
        name = self.opening.server
        raise MCPFailed(
            f"MCP server {name!r} is not started any more: it failed {self._crashes} times in a "
            f"row. The last time: {self._last}",
            server=name,
        )

    def _count(self, connection: Connection, error: MCPFailed) -> None:
        if not connection.counted:
            connection.counted = True
            self._crashes += 1
            self._last = error

    async def _list_changed(self, kind: str) -> None:
        if kind == "tools" and self._is_open:
            await self.refresh()

    async def _over_there(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work in the loop that owns the connection."""
        here, there = asyncio.get_running_loop(), self._loop
        if there is None or there is here:
            return await work()
        name = self.opening.server
        if there.is_closed():
            raise MCPFailed(f"The event loop that MCP server {name!r} was opened in is closed.")
        begun: asyncio.Future[None] = here.create_future()

        async def begin() -> T:
            here.call_soon_threadsafe(lambda: begun.done() or begun.set_result(None))
            return await work()

        future = asyncio.run_coroutine_threadsafe(begin(), there)
        try:
            async with asyncio.timeout(PICKED_UP):
                await begun
        except TimeoutError:
            future.cancel()
            raise MCPFailed(
                f"The event loop that MCP server {name!r} was opened in is blocked: "
                "await agent.run(...) there, not run_sync().",
                server=name,
            ) from None
        return await asyncio.wrap_future(future)


async def _pages(session: Session, kind: str, server: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        entries, cursor = await session.page(kind, cursor)
        found.extend(entries)
        if cursor is None:
            return found
        if cursor in seen:
            log.warning("MCP server %r: its list of %s begins again; it ends here.", server, kind)
            return found
        seen.add(cursor)
    raise MCPFailed(f"MCP server {server!r}: its list of {kind} has no end.", server=server)
