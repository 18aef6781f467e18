"""Connections to a Redis server: pooled for each event loop, tried again where that helps."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as LostConnection

from treadle.errors import ConfigError, NewerJournal, StoreUnavailable
from treadle.stores.heeded import heeded
from treadle.stores.pools import Pools
from treadle.stores.redis_scripts import SCRIPTS
from treadle.values.logs import logger
from treadle.values.secret import know, secrets_of

log = logger(__name__)

SCHEMA = 1
"""The version of the keys that this code reads and writes."""
PREFIX = "treadle:"
POOL_SIZE = 10
"""Connections that each event loop may have."""
TRIES = 10
LONGEST_PAUSE = 0.5
CONNECT_SECONDS = 10
ANSWER_SECONDS = 30
_HASHES = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}  # noqa: S324 the name Redis gives a script
_LOGINS = ("WRONGPASS", "NOAUTH", "invalid username-password", "without any password")


class _Pool:
    """The connections of one event loop."""

    def __init__(self, url: str, size: int) -> None:
        # What is tried again is decided here: the client would repeat what may have been done.
        opened: Callable[..., BlockingConnectionPool] = BlockingConnectionPool.from_url  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] its options have no types
        self.connections = opened(
            url,
            max_connections=size,
            timeout=ANSWER_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            driver_info=None,  # it would be read from disk for every connection
        )
        client = Redis(connection_pool=self.connections)
        self.do: Callable[..., Awaitable[Any]] = client.execute_command  # pyright: ignore[reportUnknownMemberType] nor have answers
        self.lock = asyncio.Lock()
        self.checked = False


class Connections:
    """Runs scripts on the server; it was looked at before the first."""

    def __init__(self, url: str) -> None:
        know(*secrets_of({}, url))
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        self.prefix = options.pop("prefix", PREFIX)
        size = options.pop("pool_size", str(POOL_SIZE))
        if not size.isdecimal() or int(size) < 1:
            raise ConfigError(f"pool_size is a number of connections, not {size!r}.")
        self._url = urlunsplit(parts._replace(query=urlencode(options)))
        self._size = int(size)
        try:
            self.place = f"{parts.hostname or 'localhost'}:{parts.port or 6379}{parts.path or '/0'}"
            _Pool(self._url, self._size)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"The URL of the Redis store cannot be used: {error}.") from error
        self._pools = Pools(lambda: _Pool(self._url, self._size), _closed)
        self._warned = False

    async def call(
        self, script: str, name: str, *values: Any, again: Sequence[Any] | None = None
    ) -> Any:
        """Run a script for a conversation. `again` are its values when the first try is in doubt.

        Raises:
            StoreUnavailable: it cannot be done.
        """
        broken = 0
        for attempt in range(1, TRIES + 1):
            try:
                async with self._pools.here() as pool:
                    if not pool.checked:
                        await self._check(pool)
                    said = again if broken and again is not None else values
                    return await heeded(self._run(pool, script, name, *said))
            except TypeError as error:
                if "unexpected keyword argument" not in str(error):
                    raise
                raise ConfigError(
                    f"An option in the URL is not known to the driver: {error}."
                ) from error
            except BusyLoadingError as error:
                if attempt == TRIES:
                    raise self._unavailable(error) from error
            except (RedisError, OSError) as error:
                # A server that was started again leaves dead connections in the pool.
                broken += 1
                lost = isinstance(error, LostConnection) and not _is_login(error)
                if broken > 2 or not lost:
                    raise self._unavailable(error) from error
            pause = min(0.01 * 2**attempt, LONGEST_PAUSE)
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 spreads, no secret
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Drop the connections."""
        await self._pools.close()

    async def _run(self, pool: _Pool, script: str, name: str, *values: Any) -> Any:
        said = (0, self.prefix, name, *values)
        try:
            return await pool.do("EVALSHA", _HASHES[script], *said)
        except NoScriptError:
            return await pool.do("EVAL", SCRIPTS[script], *said)

    async def _check(self, pool: _Pool) -> None:
        async with pool.lock:
            if pool.checked:
                return
            schema = int(await self._run(pool, "schema", "", SCHEMA))
            if schema > SCHEMA:
                raise NewerJournal(
                    f"The keys under {self.prefix!r} in Redis were made by a newer version of this "
                    f"package: they need schema {schema}, this version knows {SCHEMA}. "
                    "Upgrade the package."
                )
            if not self._warned:
                await self._look_at_durability(pool)
            self._warned = pool.checked = True

    async def _look_at_durability(self, pool: _Pool) -> None:
        """Warn when the server may lose what it confirmed; many hosted ones do not say."""
        said: dict[str, str] = {}
        for option in ("appendonly", "maxmemory-policy"):
            try:
                name, value = await pool.do("CONFIG", "GET", option)
            except (NoPermissionError, ResponseError, ValueError):
                return
            said[name.decode()] = value.decode()
        if said.get("appendonly") == "no":
            log.warning(
                "Redis at %s has appendonly off: a restart forgets conversations. "
                "Switch it on, with appendfsync always against power loss.",
                self.place,
            )
        if said.get("maxmemory-policy", "").startswith("allkeys"):
            log.warning(
                "Redis at %s may evict conversations when its memory is full "
                "(maxmemory-policy %s). Use noeviction.",
                self.place,
                said["maxmemory-policy"],
            )

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        where, said = f"Redis at {self.place}", str(error).rstrip(".") or type(error).__name__
        if _is_login(error):
            return StoreUnavailable(
                f"{where} refused the login: {said}. Check the user and the password in the URL."
            )
        if isinstance(error, ResponseError):
            return StoreUnavailable(f"{where} refused a command: {said}.")
        return StoreUnavailable(
            f"{where} cannot be used: {said}. "
            "Check that the server is running and reachable from here, and try again."
        )


def _is_login(error: BaseException) -> bool:
    return isinstance(error, AuthenticationError) or any(text in str(error) for text in _LOGINS)


async def _closed(pool: _Pool) -> None:
    await pool.connections.disconnect()
