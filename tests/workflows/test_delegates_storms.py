"""Runs with six agents in the background that are cancelled again and again, and go on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.crews import USAGE, boss, starts
from tests.workflows.test_delegates_limits import untyped
from treadle import (
    Agent,
    Limits,
    ModelReply,
    ModelRequest,
    RunContext,
    RunNotFound,
    RunResult,
    open_store,
    tool,
)
from treadle.journal import ChildBegan, ChildEnded, ModelReplied
from treadle.ports.store import Store
from treadle.testing import FunctionModel, calls, reply

NUMBER = 6
MOST_CANCELS = 12


class Storm:
    """Agents that take a moment for everything, each time another one."""

    def __init__(self, seed: int, store: Store) -> None:
        self.random = random.Random(seed)  # noqa: S311 no secret
        self.store = store
        self.cancels = 0
        limits = Limits(max_turns=100)
        workers = [
            Agent(f"w{n}", FunctionModel(self._work), tools=[self._tool()]) for n in range(6)
        ]
        agent = boss("", agents=workers, max_running=NUMBER, limits=limits)
        self.boss = agent.replace(model=FunctionModel(self._lead), max_parallel_tools=NUMBER)

    async def moment(self, longest: float = 0.004) -> None:
        """Wait."""
        await asyncio.sleep(self.random.random() * longest)

    def _tool(self) -> Any:
        @tool(idempotent=True)
        async def look(ctx: RunContext) -> str:
            """Look."""
            await self.moment()
            return f"saw {ctx.call_id}"

        return look

    async def _work(self, request: ModelRequest) -> Any:
        await self.moment()
        turn = sum(message.role == "assistant" for message in request.messages)
        return (
            calls((f"l{turn}", "look", {}), usage=USAGE) if turn < 3 else reply("ok", usage=USAGE)
        )

    async def _lead(self, request: ModelRequest) -> Any:
        await self.moment()
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 0:
            return self._starts(turn, range(NUMBER))
        if turn == 1:
            said = [{"id": f"w{n}#1", "text": "hey"} for n in range(3)]
            return calls(*((f"m{n}", "message_delegate", s) for n, s in enumerate(said)))
        results = request.messages[-1].tool_results
        value: object = results[0].value if len(results) == 1 else None
        none = any("No delegate" in result.text for result in results)
        if not none and not isinstance(value, list):
            return calls((f"w{turn}", "wait_for_delegate", {}), usage=USAGE)
        found = untyped([] if none else value)
        told: dict[str, str] = {each["id"]: each["state"] for each in found}
        missing = [n for n in range(NUMBER) if f"w{n}#1" not in told]
        if missing:  # a cancellation came before they could begin
            return self._starts(turn, missing)
        if set(told.values()) == {"done"}:
            return reply("ok", usage=USAGE)
        return calls((f"w{turn}", "wait_for_delegate", {}), usage=USAGE)

    @staticmethod
    def _starts(turn: int, numbers: Iterable[int]) -> ModelReply:
        return starts(*((f"d{turn}_{n}", f"w{n}", "go") for n in numbers), usage=USAGE)

    async def weather(self) -> RunResult[Any]:
        """Run until there is an answer, through all cancellations; nothing is left by any."""
        run = self._start()
        while True:
            await self.moment(0.03)
            try:
                result = await (run.cancel() if self.cancels < MOST_CANCELS else run.result())
            except RunNotFound:
                result = None
            assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("r w")]
            if result is not None and result.stop_reason != "cancelled":
                return result
            self.cancels += 1
            begun = any(head.revision for head in await self.store.list())
            run = self.boss.resume("r", store=self.store) if begun else self._start()

    def _start(self) -> Any:
        return self.boss.start("go", store=self.store, run_id="r", conversation="c")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_that_is_cancelled_again_and_again(
    kind: str, seed: int, tmp_path: Path
) -> None:
    """Each agent begins once and ends once, however often it had to stop."""
    store = open_store("memory:" if kind == "memory" else f"sqlite:///{tmp_path}/chat.db")
    storm = Storm(seed, store)
    result = await storm.weather()

    assert (result.stop_reason, result.output) == ("answer", "ok"), result.tool_results[-1].text
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    began = Counter(entry.path for entry in entries if isinstance(entry, ChildBegan))
    assert began == {f"w{n}#1": 1 for n in range(NUMBER)}
    assert began == Counter(entry.path for entry in entries if isinstance(entry, ChildEnded))
    written = sum(entry.usage.requests for entry in entries if isinstance(entry, ModelReplied))
    lost = result.usage.requests - written
    assert 0 <= lost <= (NUMBER + 1) * storm.cancels, "replies that a cancellation came before"
    assert (await store.head("c")).pending == 0
    await store.close()
