"""`treadle show`: what one run said, used and had in its window."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.agent.test_compaction import Talker
from tests.cli.conftest import Treadle
from tests.compaction.histories import PNG
from treadle import Agent, Compaction, Image, Limits, Usage, open_store, tool
from treadle.testing import FunctionModel, ScriptedModel, reply

CLERK = "tests.cli.agents:clerk"


@tool
def look(number: int) -> str:
    """Look at a thing."""
    return f"thing {number}: " + "word " * 200


def keep(url: str, agent: Agent[Any, Any], *said: Any) -> Any:
    """Let an agent run in a conversation of a store, and return the result."""

    async def run() -> Any:
        store = open_store(url)
        try:
            return await agent.run(list(said), store=store, conversation="ann")
        finally:
            await store.close()

    return asyncio.run(run())


def test_a_run_is_shown_by_its_id(treadle: Treadle, url: str) -> None:
    words = ["--store", url, "--conversation", "ann", "--json"]
    first = json.loads(treadle("run", CLERK, "hello", *words).out)
    treadle("run", CLERK, "hello again", *words)
    ended = treadle("show", first["run_id"], "--store", url)
    assert ended.code == 0
    assert "hello" in ended.out
    assert "again" not in ended.out
    assert first["run_id"] in ended.out
    assert "answered" in ended.out
    record = json.loads(treadle("show", first["run_id"], "--store", url, "--json").out)
    assert record["run_id"] == first["run_id"]
    assert [message["role"] for message in record["messages"]] == ["user", "assistant"]


def test_what_fills_the_window_is_shown(treadle: Treadle, url: str) -> None:
    """By what it is for, brought to what the provider counted."""
    model = ScriptedModel([reply("It is a square.", usage=Usage(input_tokens=2_000, requests=1))])
    agent = Agent("a", model=model, tools=[look], instructions="Be brief. " * 100)
    result = keep(url, agent, "What is this?", Image.from_bytes(PNG, "image/png"))
    shown = treadle("show", result.run_id, "--store", url, "--context")
    assert shown.code == 0
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines()[2:]}
    assert set(rows) == {"instructions", "tools", "history", "media", "in"}
    record = json.loads(treadle("show", result.run_id, "--store", url, "--context", "--json").out)
    assert record["counted"] == 2_000
    assert 1_990 <= record["total"] <= 2_000
    assert record["instructions"] > record["tools"] > record["history"] > 0
    assert record["skills"] == 0 < record["media"]
    used = result.context
    assert used.instructions > used.tools > used.history > 0 < used.media


def test_what_was_compacted_is_shown(treadle: Treadle, url: str) -> None:
    talker = Talker(30)
    compaction = Compaction(window=4_000, strategy="summary")
    limits = Limits(max_turns=100)
    agent = Agent("a", FunctionModel(talker), tools=[look], compaction=compaction, limits=limits)
    result = keep(url, agent, "go")
    shown = treadle("show", result.run_id, "--store", url, "--context")
    assert "old turns that have left the history" in shown.out
    assert shown.out.count("  summary: ") == result.context.compactions > 1
    record = json.loads(treadle("show", result.run_id, "--store", url, "--context", "--json").out)
    assert record["counted"] is None
    assert len(record["compactions"]) == result.context.compactions


def test_what_is_not_there_is_told(treadle: Treadle, url: str) -> None:
    treadle("run", CLERK, "hello", "--store", url, "--conversation", "ann")
    gone = treadle("show", "run_none", "--store", url)
    assert gone.code == 1
    assert "run_none" in gone.err
    assert treadle("show").code == 2
    assert "--context" in treadle("show", "--help").out
