"""One connection to a server, entered and left by one task of its own.

The SDK's contexts must be left by the task that entered them. So that anybody may close, call or
give up from anywhere, that task is ours; it runs what callers ask in a group of tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from treadle.errors import MCPFailed
from treadle.mcp._sdk import (
    Session,
    Tap,
    child_streams,
    is_closed,
    open_session,
)
from treadle.mcp.changes import Changes
from treadle.mcp.child import Child, Launch
from treadle.mcp.exchange import CURRENT, Action, Asking, Exchange, Listeners, Protocol, Question
from treadle.mcp.failures import failure_of, how_it_ended, last_words, leaf, too_slow
from treadle.mcp.http import Address, http_streams
from treadle.values import is_object
from treadle.values.logs import logger
from treadle.values.secret import know, masked

log = logger(__name__)

T = TypeVar("T")
Work = Callable[[Session], Awaitable[T]]
EXPLAINED = 0.6
"""Seconds that a process has to end and to say why, once it has closed its output."""
LEAVING = 10.0
NOTICE = 1.0
"""Seconds that the notice of a cancelled call has to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to reach a server: a process to start, or an address."""

    server: str
    target: Launch | Address
    connect_timeout: float
    protocol: Protocol = "auto"

    @property
    def secrets(self) -> set[str]:
        """What must not be shown."""
        return self.target.secrets


class Connection:
    """Open from `start()` until `closed` is set."""

    def __init__(
        self,
        opening: Opening,
        *,
        changed: Callable[[str], Awaitable[None]],
        elicit: Asking | None,
    ) -> None:
        self._opening = opening
        know(*opening.secrets)
        self._changes, self._elicit = Changes(changed), elicit
        self._tap = Tap()
        self._child: Child | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._at_work: dict[asyncio.Task[None], Exchange] = {}
        self._lost: list[asyncio.Future[Any]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Session] = self._loop.create_future()
        self._end = asyncio.Event()
        self._reason: MCPFailed | None = None
        self._task: asyncio.Task[None] | None = None
        self.counted = False

    @property
    def alive(self) -> bool:
        """Whether calls can be made."""
        return self._tasks is not None and not self._end.is_set()

    async def start(self) -> Session:
        """Connect and shake hands.

        Raises:
            MCPFailed: the server cannot be reached, or does not answer in time.
        """
        self._task = self._loop.create_task(self._own(), name=f"mcp {self._opening.server}")
        seconds = self._opening.connect_timeout
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            words = self._child.last_words() if self._child is not None else ""
            await self.close()
            raise too_slow(self._opening.server, seconds, words) from None
        except asyncio.CancelledError:
            self.end()
            raise

    async def run(self, work: Work[T], exchange: Exchange) -> T:
        """Do one piece of work with the session; when cancelled, tell the server so.

        Raises:
            MCPFailed: the server refused, or the connection ended.
        """
        if self._tasks is None or self._end.is_set():
            raise self._ended()
        future: asyncio.Future[T] = self._loop.create_future()
        task = self._tasks.create_task(self._work(work, exchange, future, self._ready.result()))
        self._at_work[task] = exchange
        task.add_done_callback(lambda done: self._at_work.pop(done, None))
        try:
            return await future
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=NOTICE)
            raise

    def end(self) -> None:
        """Let the connection end, without waiting for it; from its own loop."""
        self._end.set()
        if self._task is not None and self._tasks is None:
            self._task.cancel()

    async def close(self) -> None:
        """End the connection and wait until nothing of it is left. Twice does nothing more."""
        self.end()
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        await asyncio.wait([task], timeout=LEAVING)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=LEAVING)

    def abandon(self) -> None:
        """Let the connection end, from any thread, whatever became of its loop."""
        if self._loop.is_running():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.end)
                return
        if self._child is not None:
            self._child.kill()

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                session = await self._enter(stack)
                await self._serve(session)
        except Exception as error:  # noqa: BLE001 a transport may raise anything
            if self._end.is_set() and self._ready.done():
                log.debug("MCP server %r: while leaving: %r", self._opening.server, error)
            else:
                self._reason = self._reason or self._failure(error)
        finally:
            self._end.set()
            self._tasks = None
            self._tell_lost()
            if not self._ready.done():
                self._ready.set_exception(self._ended())
                self._ready.exception()  # whoever waited may have gone

    async def _enter(self, stack: AsyncExitStack) -> Session:
        target = self._opening.target
        if isinstance(target, Address):
            streams = http_streams(target, self._tap)
        else:
            self._child = await Child.start(target, self._opening.server)
            stack.push_async_callback(self._child.stop)
            streams = child_streams(self._child, self._tap)
        listeners = Listeners(elicit=self._answer, changed=self._hear, logged=self._log)
        try:
            session = open_session(streams, self._tap, listeners, self._opening.protocol)
            return await stack.enter_async_context(session)
        except Exception as error:
            self._reason = await self._explained(error)
            raise

    async def _serve(self, session: Session) -> None:
        """Keep the session open until somebody ends it, or it ends by itself."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._ready.set_result(session)
            self._spawn(lambda: session.watch(self._hear))
            if self._child is not None:
                self._spawn(partial(self._until_gone, self._child))
            try:
                await self._end.wait()
            finally:
                self._tasks = None
                for task in (*self._at_work, *self._background):
                    task.cancel()

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is not None:
            task = self._tasks.create_task(work())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _until_gone(self, child: Child) -> None:
        await child.gone.wait()
        self._reason = self._reason or self._died(child)
        self._end.set()

    async def _work(
        self, work: Work[T], exchange: Exchange, future: asyncio.Future[T], session: Session
    ) -> None:
        CURRENT.set(exchange)
        try:
            result = await work(session)
        except asyncio.CancelledError:
            self._lost.append(future)
            if self._end.is_set():  # the reason is known already
                self._tell_lost()
            raise
        except Exception as error:  # noqa: BLE001 the SDK raises what it likes
            failure = await self._explained(error)
            if not future.done():
                future.set_exception(failure)
            if failure.gone:
                self._reason = self._reason or failure
                self._end.set()
        else:
            if not future.done():
                future.set_result(result)
        finally:
            self._tap.forget(exchange.request_ids)

    def _tell_lost(self) -> None:
        for future in self._lost:
            if not future.done():
                future.set_exception(self._ended())
        self._lost.clear()

    async def _explained(self, error: BaseException) -> MCPFailed:
        """Return a failure with the reason why a process ended, where it did."""
        child = self._child
        if child is not None and is_closed(leaf(error)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXPLAINED):
                    await child.gone.wait()
            return self._died(child)
        return self._failure(error)

    def _died(self, child: Child) -> MCPFailed:
        how = child.trouble or how_it_ended(child.exit_code)
        words = child.last_words()
        was_ready = self._ready.done() and self._ready.exception() is None
        lost = "; whether what was asked of it took effect is unknown" if was_ready else ""
        return MCPFailed(
            f"MCP server {self._opening.server!r} {how}{lost or ' before it was ready'}."
            f"{last_words(words)}",
            server=self._opening.server,
            exit_code=child.exit_code,
            stderr=words,
            gone=True,
        )

    def _failure(self, error: BaseException) -> MCPFailed:
        opening = self._opening
        secrets = opening.secrets | self._tap.secrets
        return failure_of(error, opening.server, secrets, self._tap.status)

    def _ended(self) -> MCPFailed:
        if self._reason is not None:
            return self._reason
        name = self._opening.server
        return MCPFailed(f"The connection to MCP server {name!r} was closed.", server=name)

    def _hear(self, kind: str) -> None:
        if self._changes.hear(kind):
            self._spawn(lambda: self._changes.look(kind))

    def _log(self, text: str) -> None:
        if log.isEnabledFor(logging.DEBUG):
            shown = masked(text[:500], self._opening.secrets)
            log.debug("MCP server %r: %s", self._opening.server, shown)

    async def _answer(self, params: dict[str, Any]) -> tuple[Action, dict[str, Any] | None]:
        question = _question(self._opening.server, params)
        if self._elicit is not None:
            return await self._elicit(question)
        asking = [each for each in self._at_work.values() if each.ask is not None]
        current = CURRENT.get() or (asking[0] if len(asking) == 1 else None)
        if current is None or current.ask is None:
            log.warning(
                "MCP server %r asks %r and nobody can say for which call; it is told no. "
                "Give MCP an elicit= function.",
                self._opening.server,
                question.message[:80],
            )
            return "decline", None
        return await current.ask(question)


def _question(server: str, params: dict[str, Any]) -> Question:
    schema: Any = params.get("requestedSchema")
    return Question(
        server=server,
        message=str(params.get("message", "")),
        schema=schema if is_object(schema) and not params.get("url") else None,
        url=params.get("url"),
    )
