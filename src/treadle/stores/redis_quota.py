"""A quota that many processes share, kept in Redis, 6.2 or newer, or in Valkey.

Under `PREFIXquota:NAME` stand `:begun` (when each request of the window began, by the server's
clock), `:tokens` (what it counts for), `:sum` (of these), `:running` (until when each holds its
place), `:line` (who waits, in order), `:number` (the last one's) and `:asked` (when each last did).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import uuid4

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import NoScriptError, RedisError

from treadle.errors import ConfigError, Overloaded
from treadle.models.line import Line
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.quota import Bounds, Permit
from treadle.stores.heeded import heeded
from treadle.stores.pools import Pools
from treadle.values.logs import logger
from treadle.values.secret import know, secrets_of

log = logger(__name__)

PREFIX = "treadle:"
CONNECTIONS = 10
ANSWER_SECONDS = 10
LOOK_AGAIN = 0.25
"""Seconds after which the first one of a process asks again: another may have ended early."""
PATIENCE = 5.0
"""Seconds after which one in the line that has not asked again is taken for dead."""
HOLD = 900.0
"""Seconds for which a request counts as running at most: its process may have died."""

_SHARED = """
local P, id = ARGV[1], ARGV[2]
local begun, tokens_of, sum = P .. ':begun', P .. ':tokens', P .. ':sum'
local running, line, asked = P .. ':running', P .. ':line', P .. ':asked'

local function digits(number)
  return string.format('%.0f', number)
end

local function remove(old)
  local tokens = redis.call('HGET', tokens_of, old)
  if tokens then
    redis.call('DECRBY', sum, tokens)
  end
  redis.call('HDEL', tokens_of, old)
  redis.call('ZREM', begun, old)
end

local function leave_line(old)
  redis.call('ZREM', line, old)
  redis.call('ZREM', asked, old)
end
"""

# ARGV: 3 tokens, 4 rpm, 5 tpm, 6 concurrency (0 is no bound), 7 window, 8 hold, 9 patience in µs.
_BEGIN = """
local tokens, rpm = tonumber(ARGV[3]), tonumber(ARGV[4])
local tpm, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local window, hold, patience = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local again = redis.call('ZSCORE', begun, id)
if again and redis.call('ZSCORE', running, id) then
  return {'begun', again}
end

for _, old in ipairs(redis.call('ZRANGEBYSCORE', begun, '-inf', digits(now - window))) do
  remove(old)
end
redis.call('ZREMRANGEBYSCORE', running, '-inf', digits(now))
for _, old in ipairs(redis.call('ZRANGEBYSCORE', asked, '-inf', digits(now - patience))) do
  leave_line(old)
end

if not redis.call('ZSCORE', line, id) then
  redis.call('ZADD', line, redis.call('INCR', P .. ':number'), id)
end
redis.call('ZADD', asked, digits(now), id)
local keys = {begun, tokens_of, sum, running, line, asked, P .. ':number'}
for _, key in ipairs(keys) do
  redis.call('PEXPIRE', key, digits((window + hold + patience) / 1000))
end

if redis.call('ZRANGE', line, 0, 0)[1] ~= id then
  return {'line'}
end
if most > 0 and redis.call('ZCARD', running) >= most then
  return {'line'}
end
local free_at = now
if rpm > 0 and redis.call('ZCARD', begun) >= rpm then
  free_at = redis.call('ZRANGE', begun, 0, 0, 'WITHSCORES')[2] + window
end
if tpm > 0 then
  local excess = (tonumber(redis.call('GET', sum)) or 0) + tokens - tpm
  if excess > 0 then
    local all = redis.call('ZRANGE', begun, 0, -1, 'WITHSCORES')
    for at = 1, #all, 2 do
      if excess <= 0 then
        break
      end
      excess = excess - (tonumber(redis.call('HGET', tokens_of, all[at])) or 0)
      free_at = math.max(free_at, all[at + 1] + window)
    end
  end
end
if free_at > now then
  return {'wait', digits(free_at - now)}
end
leave_line(id)
redis.call('ZADD', begun, digits(now), id)
redis.call('HSET', tokens_of, id, ARGV[3])
redis.call('INCRBY', sum, ARGV[3])
redis.call('ZADD', running, digits(now + hold), id)
for _, key in ipairs(keys) do
  redis.call('PEXPIRE', key, digits((window + hold + patience) / 1000))
end
return {'begun', digits(now)}
"""

# ARGV: 3 the tokens that were used, or '' when nobody knows.
_END = """
redis.call('ZREM', running, id)
local reserved = redis.call('HGET', tokens_of, id)
if reserved and ARGV[3] ~= '' then
  redis.call('HSET', tokens_of, id, ARGV[3])
  redis.call('INCRBY', sum, ARGV[3] - reserved)
end
"""

_LEAVE = """
leave_line(id)
redis.call('ZREM', running, id)
remove(id)
"""

_SCRIPTS = {"begin": _SHARED + _BEGIN, "end": _SHARED + _END, "leave": _SHARED + _LEAVE}
_HASHES = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in _SCRIPTS.items()}  # noqa: S324 the name Redis gives a script


class _Pool:
    """The connections of one event loop."""

    def __init__(self, url: str) -> None:
        opened: Callable[..., BlockingConnectionPool] = BlockingConnectionPool.from_url  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] its options have no types
        self.connections = opened(
            url,
            max_connections=CONNECTIONS,
            timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            driver_info=None,  # it would be read from disk for every connection
        )
        client = Redis(connection_pool=self.connections)
        self.ask: Callable[..., Awaitable[Any]] = client.execute_command  # pyright: ignore[reportUnknownMemberType] nor have answers


class RedisQuota:
    """A quota for all processes that name the same server and `name`; all give equal bounds.

    `redis://:password@host:6379/0?name=openai`. Time is the server's. Requests of one process are
    served in order; the first ones of several processes stand in one line in Redis, where one that
    does not ask again for some seconds loses its place. A process that dies holds its running
    requests for 15 minutes at most. Redis Cluster is not supported.
    """

    __slots__ = ("_clock", "_key", "_line", "_place", "_pools", "_url", "bounds")

    def __init__(
        self, url: str, bounds: Bounds, *, name: str = "all", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        know(*secrets_of({}, url))
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        self._key = f"{options.pop('prefix', PREFIX)}quota:{options.pop('name', name)}"
        self._url = urlunsplit(parts._replace(query=urlencode(options)))
        self.bounds = bounds
        self._clock = clock
        self._line = Line(bounds, clock, look_again=LOOK_AGAIN)
        try:
            self._place = f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
            _Pool(self._url)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"The URL of the Redis quota cannot be used: {error}.") from error
        self._pools = Pools(lambda: _Pool(self._url), _closed)

    @classmethod
    def from_url(cls, url: str, bounds: Bounds, *, name: str) -> Self:
        """Return the quota of this name, or of the one in the URL; nothing is connected yet.

        Raises:
            ConfigError: the URL cannot be used.
        """
        return cls(url, bounds, name=name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place!r}, {self._key!r})"

    async def close(self) -> None:
        """Let go of connections; what is used again opens again."""
        await self._pools.close()

    async def begin(self, tokens: int, *, longest: float | None = None) -> Permit:
        """Wait for a place, first come first served, and take it; see the port."""
        tokens, ticket = self.bounds.reserved(tokens), uuid4().hex
        look = partial(self._look, ticket, tokens)
        try:
            return await self._line.through(look, tokens=tokens, longest=longest)
        except BaseException:
            await self._tell("leave", ticket)  # it may have begun without our hearing of it
            raise

    async def end(self, permit: Permit, tokens: int | None) -> None:
        """Say that a request is over; see the port."""
        await self._tell("end", permit.id, "" if tokens is None else tokens)
        self._line.wake()

    async def _look(self, ticket: str, tokens: int) -> Permit | float:
        bounds = self.bounds
        most = (bounds.rpm or 0, bounds.tpm or 0, bounds.concurrency or 0)
        seconds = (bounds.window, HOLD, PATIENCE)
        try:
            outcome, *said = await self._run(
                "begin", ticket, tokens, *most, *(round(each * 1e6) for each in seconds)
            )
        except (RedisError, OSError) as error:
            raise Overloaded(
                f"The quota in Redis at {self._place} cannot be asked: {error}. "
                "Check that the server is running and reachable from here."
            ) from error
        match outcome:
            case b"begun":
                return Permit(ticket, tokens, int(said[0]) / 1e6)
            case b"wait":
                return int(said[0]) / 1e6
            case _:
                return inf

    async def _tell(self, script: str, ticket: str, *values: Any) -> None:
        try:
            await self._run(script, ticket, *values)
        except (RedisError, OSError) as error:
            log.warning("quota in Redis at %s was not told of an end: %s", self._place, error)

    async def _run(self, script: str, ticket: str, *values: Any) -> Any:
        said = (0, self._key, ticket, *values)
        async with self._pools.here() as pool:
            for attempt in range(3):
                try:
                    try:
                        return await heeded(pool.ask("EVALSHA", _HASHES[script], *said))
                    except NoScriptError:
                        return await heeded(pool.ask("EVAL", _SCRIPTS[script], *said))
                except LostConnection:  # a server that was started again leaves dead connections
                    if attempt == 2:
                        raise
        raise AssertionError("unreachable")


async def _closed(pool: _Pool) -> None:
    await pool.connections.disconnect()
