"""A process that dies at an append, and tools that note what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from treadle import (
    MemoryStore,
    ModelReply,
    ModelRequest,
    RunContext,
    Usage,
    tool,
)
from treadle.agent.startable import Startable
from treadle.journal import AnyEntry
from treadle.ports.store import Head, Lease
from treadle.testing import FunctionModel, calls, reply


class Dying(MemoryStore):
    """A store whose process dies: no append after the last one allowed comes back, ever."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10_000
        self.dead, self.gone = asyncio.Event(), asyncio.Event()

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append, or never return."""
        await self._live()
        return await super().append(conversation_id, expected_revision, entries, fence=fence)

    async def claim_and_append(self, *args: Any, **options: Any) -> tuple[Head, Lease]:
        """Claim and append, or never return."""
        await self._live()
        return await super().claim_and_append(*args, **options)

    async def _live(self) -> None:
        if self.left <= 0:
            self.dead.set()
            await self.gone.wait()
            raise OSError("this process is no more")
        self.left -= 1

    def revive(self) -> None:
        """A new process takes over: the old one's lease has ended."""
        self.left = 10_000
        self.gone.set()
        for journal in self._journals.values():
            journal.head = replace(journal.head, lease=None, fence=journal.head.fence + 1)


async def die_after(appends: int, agent: Startable[Any, Any], store: Dying, **options: Any) -> None:
    """Run in a process that dies at this append."""
    store.left, store.dead, store.gone = appends, asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(agent.run("go", store=store, run_id="r", **options))
    dead = asyncio.ensure_future(store.dead.wait())
    await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
    for each in (task, dead):
        each.cancel()
    store.revive()  # whatever the old one still does, its fence is stale
    await asyncio.wait([task], timeout=5)


class Tools:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.did: list[tuple[str, int, str]] = []

    def all(self) -> list[Any]:
        """Return them."""

        @tool(idempotent=True)
        async def put(ctx: RunContext, n: int) -> str:
            """Put."""
            self.did.append(("put", n, ctx.idempotency_key))
            return f"put {n}"

        @tool
        async def add(ctx: RunContext, n: int) -> str:
            """Add."""
            self.did.append(("add", n, ctx.idempotency_key))
            ctx.state.set("sum", ctx.state.get("sum", 0) + n)
            ctx.add_usage(Usage(input_tokens=5))
            return f"added {n}"

        return [put, add]


USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


def script() -> FunctionModel:
    """Four rounds and an answer, by what was said before."""

    def answer(request: ModelRequest) -> ModelReply:
        n = sum(message.role == "assistant" for message in request.messages)
        if n < 4:
            return calls((f"p{n}", "put", {"n": n}), (f"a{n}", "add", {"n": n}), usage=USAGE)
        return reply("done", usage=USAGE)

    return FunctionModel(answer)
