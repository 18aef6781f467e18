"""What stores on disk take: what is new, once; and how many agents can begin at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.stores import ALL, keeping, marked
from treadle import (
    Agent,
    Conversation,
    Image,
    Limits,
    ModelReply,
    ModelRequest,
    open_store,
    tool,
)
from treadle.testing import FunctionModel, calls

TURNS, PAYLOAD, MEGABYTE = 400, 2_000, 1_000_000
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * MEGABYTE, "image/png")


@pytest.mark.parametrize("kind", ["file", "sqlite"])
async def test_growth(kind: str, tmp_path: Path) -> None:
    """BS-40, J6, W1: linear; a turn takes as much at the end as at the beginning; media once."""
    async with keeping(kind, tmp_path) as kept:
        store = kept.open()
        if (
            kind == "sqlite"
        ):  # every write is seen in the file at once, and safe is tested elsewhere
            store = open_store(f"sqlite:///{tmp_path}/kept.db?sync=normal")
            kept.handles.append(store)
        sizes: list[int] = []

        @tool
        def look(n: int) -> Any:
            """Look."""
            sizes.append(kept.size)
            text = f"{n:08}" * (PAYLOAD // 8)
            return [text, PICTURE] if n in (3, 200) else text

        def answer(request: ModelRequest) -> str | ModelReply:
            n = (len(request.messages) - 1) // 2
            return calls((f"c{n}", "look", {"n": n})) if n < TURNS else "end"

        agent = Agent("a", FunctionModel(answer), tools=[look])
        limits = Limits(max_turns=TURNS * 2, max_tool_calls=TURNS)
        result = await agent.run("go", conversation=kept.id(), store=store, limits=limits)
        assert (result.output, len(sizes)) == ("end", TURNS)
        await kept.close()
        whole = kept.size
        conversation = await kept.conversation()
        await conversation.fork(new_id=kept.id("b"))
        await kept.close()
        forked = kept.size

    paid = TURNS * PAYLOAD + MEGABYTE
    assert whole < 3 * paid
    assert whole > paid, "the payload cannot be compressed away unnoticed"
    first, last = sizes[150] - sizes[10], sizes[390] - sizes[250]
    assert last <= 1.2 * first
    assert forked - whole < 1.2 * TURNS * (PAYLOAD + 1_000), "a copy of the text, not of media"


@pytest.mark.parametrize("kind", marked(*ALL))
async def test_many_begin_at_once(kind: str, tmp_path: Path) -> None:
    """BS-39: sixteen agents with handles of their own, on a place that is not there yet."""
    async with keeping(kind, tmp_path) as kept:

        async def begin(number: int) -> str:
            agent = Agent("a", FunctionModel(lambda request: f"{len(request.messages)}"))
            store = kept.open() if number < 4 else kept.handles[number % 4]
            for _ in range(3):
                await agent.run("x", conversation=kept.id(f"c{number}"), store=store)
            return (await agent.run("x", conversation=kept.id(f"c{number}"), store=store)).output

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(begin(number)) for number in range(16)]
        assert [task.result() for task in tasks] == ["7"] * 16
        for number in range(16):
            conversation = await Conversation.open(kept.id(f"c{number}"), store=kept.handles[0])
            assert conversation.head.revision == 8
