"""Outputs that are too long for the model, of tools of every kind: kept whole, read in pages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.parts import check_answered
from treadle import (
    Agent,
    Artefact,
    Conversation,
    Finish,
    Image,
    MemoryStore,
    Middleware,
    Next,
    RunContext,
    StoreUnavailable,
    Text,
    Tool,
    ToolError,
    ToolResult,
    tool,
)
from treadle.ports.model import ModelProfile
from treadle.testing import ScriptedModel, calls
from treadle.tools import Rule, Rules

LONG = "\n".join(f"line {n}" for n in range(1, 20_001))
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@tool
async def dump(ctx: RunContext, how: str = "text") -> Any:
    """Return something long."""
    match how:
        case "value":
            return {"rows": list(range(20_000))}
        case "parts":
            image = Image.from_bytes(PIXEL, "image/png")
            return ["first\n", image, LONG, Text("\nlast"), image]
        case "many":
            return [Text("x" * 1_000) for _ in range(100)]
        case "error":
            raise ToolError(f"no: {LONG}")
        case "raise":
            raise ValueError(LONG)
        case "finish":
            return Finish(LONG)
        case "next":
            return Next("dump", {"how": "text"}, output=f"link\n{LONG}")
        case _:
            return LONG


def agent_with(
    *script: Any, tools: Any = (dump,), window: int | None = None, **options: Any
) -> tuple[Agent[Any, Any], ScriptedModel]:
    """An agent and its model."""
    model = ScriptedModel(list(script), profile=ModelProfile(name="m", window=window))
    return Agent("a", model, tools=tools, **options), model


def kept(told: ToolResult) -> Artefact:
    """What was kept of a result."""
    assert told.artefact is not None
    return told.artefact


@pytest.mark.parametrize("how", ["text", "value", "parts", "many", "error", "raise"])
async def test_every_kind_of_output_is_kept_whole(how: str) -> None:
    """Without a store too: the model gets both ends, the application all of it."""
    agent, model = agent_with(calls(("1", "dump", {"how": how})), "ok")
    result = await agent.run("go")
    check_answered(result.messages)
    told = model.requests[-1].messages[-1].tool_results[0]
    assert told == result.tool_results[-1]
    assert len(told.text.encode()) <= 40_000
    assert told.is_error is (how in ("error", "raise"))
    assert told.artefact is not None
    whole = result.artefacts[told.artefact.id]
    assert told.artefact.size == len(whole.encode())
    assert whole.endswith(told.text[-100:])
    expected = {
        "text": LONG,
        "parts": f"first\n{LONG}\nlast",
        "many": "x" * 100_000,
        "error": f"no: {LONG}",
        "raise": f"Tool 'dump' failed: ValueError: {LONG}",
    }
    if how == "value":
        assert json.loads(whole) == {"rows": list(range(20_000))}
        assert told.value == told.text
    else:
        assert whole == expected[how]
    images = [part for part in told.parts if isinstance(part, Image)]
    assert len(images) == (2 if how == "parts" else 0)


async def test_links_of_a_chain_are_kept_too() -> None:
    """Each in its own artefact; the model sees the last."""
    store = MemoryStore()
    agent, _ = agent_with(calls(("1", "dump", {"how": "next"})), "ok", store=store)
    result = await agent.run("go", conversation="c")
    link, last = result.tool_results
    conversation = await Conversation.open("c", store=store)
    assert [a.id for a in await conversation.artefacts()] == [kept(link).id, kept(last).id]
    assert await conversation.artefact(kept(link)) == f"link\n{LONG}"
    assert await conversation.artefact(kept(last).id) == LONG


async def test_an_output_that_ends_the_run_is_whole() -> None:
    """What the run answers is not cut; only what the model would see is."""
    agent, _ = agent_with(calls(("1", "dump", {"how": "finish"})))
    result = await agent.run("go")
    assert result.output == LONG
    assert result.tool_results[0].artefact is not None


async def test_the_model_reads_on() -> None:
    """By lines, by bytes and by what it looks for; a page is never an artefact itself."""
    store = MemoryStore()
    first, model = agent_with(calls(("1", "dump", {})), "ok", store=store)
    artefact = kept((await first.run("go", conversation="c")).tool_results[0])
    seen = model.requests[1].messages[-1].tool_results[0].text
    start = int(seen.partition("lines; lines ")[2].split()[0])
    asked = [
        {"start": float(start), "count": 2.0},  # integers, as JSON has them
        {"start": 3, "count": 12, "by": "bytes"},
        {"search": "line 1999", "start": 19_990},
        {},
        {"start": 30_000},
        {"start": 0},
        {"search": ""},
        {"search": "x", "by": "bytes"},
        {"regex": "x"},
    ]
    batch = calls(*((str(n), "read_output", {"id": artefact.id, **a}) for n, a in enumerate(asked)))
    agent, _ = agent_with(batch, "ok", store=store)
    result = await agent.run("more", conversation="c")
    told = [r.text for r in result.tool_results]
    assert told[0] == (
        f"[lines {start} to {start + 1} of 20000]\nline {start}\nline {start + 1}\n"
        f"[line {start + 2} is next]"
    )
    assert told[1] == f"[bytes 3 to 14 of {len(LONG)}]\nne 1\nline 2\n\n[byte 15 is next]"
    assert told[2].splitlines()[:2] == [
        "[10 lines have it from line 19990 on]",
        "19990: line 19990",
    ]
    assert told[3].startswith("[lines 1 to ")
    assert 39_000 < len(told[3]) <= 40_000
    assert "There is no line 30000: the last is 20000" in told[4]
    assert all(r.artefact is None for r in result.tool_results)
    assert [r.is_error for r in result.tool_results] == [False] * 4 + [True] * 5
    conversation = await Conversation.open("c", store=store)
    assert await conversation.artefacts() == [artefact]


@pytest.mark.parametrize(("window", "most"), [(100_000, 37_500), (8_000, 3_000), (1_000, 1_000)])
async def test_a_share_of_the_window(window: int, most: int) -> None:
    """Results, errors and pages stay within it."""
    batch = calls(("1", "dump", {}), ("2", "dump", {"how": "error"}))
    agent, _ = agent_with(batch, "ok", window=window, store=MemoryStore())
    result = await agent.run("go", conversation="c")
    for told in result.tool_results:
        assert most * 0.7 < len(told.text.encode()) <= most
    page = calls(("3", "read_output", {"id": kept(result.tool_results[0]).id}))
    agent, _ = agent_with(page, "ok", window=window, store=agent.store)
    (told,) = (await agent.run("more", conversation="c")).tool_results
    assert most * 0.5 < len(told.text.encode()) <= most


async def test_the_tool_comes_with_the_first_long_output() -> None:
    """Before, requests are as they were; after, the tools do not change any more."""
    batch = calls(("1", "dump", {}))
    agent, model = agent_with(batch, batch, "ok", "again", store=MemoryStore())
    await agent.run("go", conversation="c")
    await agent.run("more", conversation="c")
    tools = [request.tools for request in model.requests]
    assert [len(each) for each in tools] == [1, 2, 2, 2]
    assert tools[1] is tools[2] is tools[3]
    assert tools[1][0].name == "dump"


async def test_a_tool_of_that_name() -> None:
    """The user's keeps its name; ours takes another, and says so."""

    @tool
    async def read_output(n: int) -> str:
        """Read."""
        return str(n)

    agent, model = agent_with(calls(("1", "dump", {})), "ok", tools=[dump, read_output])
    result = await agent.run("go")
    assert [spec.name for spec in model.requests[1].tools] == [
        "dump",
        "read_output",
        "read_output_2",
    ]
    assert 'read_output_2(id="out_' in result.tool_results[0].text


async def test_rules_for_all_tools_leave_reading_alone() -> None:
    """It shows the model nothing but what it was given."""
    rules = Rules(Rule("allow", "dump"), Rule("deny"))
    agent, _ = agent_with(calls(("1", "dump", {})), "ok", store=MemoryStore(), approval=rules)
    artefact = kept((await agent.run("go", conversation="c")).tool_results[0])
    page = calls(("2", "read_output", {"id": artefact.id, "count": 1}))
    agent, _ = agent_with(page, "ok", store=agent.store, approval=rules)
    (told,) = (await agent.run("more", conversation="c")).tool_results
    assert told.text.startswith("[lines 1 to 1 of 20000]\nline 1\n")


async def test_typed_output_by_a_tool() -> None:
    """The tool that carries the output stays the last one."""
    script = [calls(("1", "dump", {})), calls(("2", "final_result", {"result": 7}))]
    agent, model = agent_with(*script, output_type=int)
    assert (await agent.run("go")).output == 7
    assert [spec.name for spec in model.requests[1].tools] == [
        "dump",
        "read_output",
        "final_result",
    ]


async def test_what_middleware_takes_out_is_not_kept() -> None:
    """It sees the whole output, and what it returns is what is kept."""

    class Redact(Middleware):
        async def after_tool(self, ctx: RunContext, call: Any, result: ToolResult) -> ToolResult:
            assert len(result.text) == len(LONG)
            text = "\ud83d" + result.text.replace("line 10000", "line *")
            return replace(result, parts=(Text(text),))

    agent, _ = agent_with(calls(("1", "dump", {})), "ok", middleware=[Redact()])
    result = await agent.run("go")
    (whole,) = result.artefacts.values()
    assert whole.startswith("\ufffdline 1\n"), "what it returns is cleaned"
    assert "line *\n" in whole
    assert "line 10000" not in whole


async def test_tools_read_what_was_kept() -> None:
    """By code, without the model reading it."""

    @tool
    async def count(ctx: RunContext, id: str) -> int:
        """Count the lines of an output."""
        return (await ctx.artefacts.read(id)).count(b"\n") + 1

    agent, _ = agent_with(calls(("1", "dump", {})), "ok", store=MemoryStore())
    artefact = kept((await agent.run("go", conversation="c")).tool_results[0])
    asked = calls(("2", "count", {"id": artefact.id}), ("3", "count", {"id": "out_0"}))
    agent, _ = agent_with(asked, "ok", store=agent.store, tools=[dump, count])
    found, missing = (await agent.run("more", conversation="c")).tool_results
    assert found.value == 20_000
    assert artefact.id in missing.text


async def test_a_tool_known_at_run_time_and_one_in_a_process() -> None:
    """Whoever makes the text, it is kept."""

    def make(arguments: dict[str, Any]) -> str:
        return LONG

    made = Tool.from_schema("made", "Make.", {"properties": {}}, make)
    apart = tool(isolation="process", name="apart")(long_text)
    agent, _ = agent_with(calls(("1", "made", {}), ("2", "apart", {})), "ok", tools=[made, apart])
    result = await agent.run("go")
    assert list(result.artefacts.values()) == [LONG], "the same text twice is kept once"
    assert [r.artefact is not None for r in result.tool_results] == [True, True]


def long_text() -> str:
    """Return a long text."""
    return LONG


class Odd(MemoryStore):
    """A store whose blobs cannot be had, or take long; it notes what is written when."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.wrote: list[str] = []
        self.putting = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Put, when it may."""
        self.putting.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        self.wrote.append("blob")
        return await super().put(conversation_id, content)

    async def append(
        self, conversation_id: str, expected_revision: int, entries: Any, **o: Any
    ) -> int:
        """Append, and note the kinds."""
        self.wrote += [type(entry).__name__ for entry in entries]
        return await super().append(conversation_id, expected_revision, entries, **o)


async def test_it_is_kept_before_the_journal_names_it() -> None:
    """A process that dies in between leaves nothing that names what is not there."""
    store = Odd()
    agent, _ = agent_with(calls(("1", "dump", {})), "ok", store=store)
    await agent.run("go", conversation="c")
    assert store.wrote.index("blob") < store.wrote.index("CallEnded")


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OSError("disk full")])
async def test_a_store_that_does_not_take_it(error: Exception) -> None:
    """The call has run: the model gets its ends and its size, and nothing to read on with."""
    agent, model = agent_with(calls(("1", "dump", {})), "ok", store=Odd(error))
    result = await agent.run("go", conversation="c")
    told = result.tool_results[0]
    assert (result.output, told.artefact) == ("ok", None)
    assert f"{len(LONG)} bytes in all, the middle is left out" in told.text
    assert len(model.requests[1].tools) == 1


async def test_a_run_that_is_cancelled_while_it_is_kept() -> None:
    """The call has run: what it came to is in the journal."""
    store = Odd()
    store.go_on.clear()
    agent, _ = agent_with(calls(("1", "dump", {})), "ok", store=store)
    run = agent.start("go", conversation="c")
    await store.putting.wait()
    result = await run.cancel("enough")
    assert result is not None
    assert result.stop_reason == "cancelled"
    check_answered(result.messages)
    conversation = await Conversation.open("c", store=store)
    (told,) = (await conversation.messages())[-1].tool_results
    assert told.text.startswith("line 1\n")
    assert not told.is_error
    assert told.artefact is None


@pytest.mark.parametrize("most", [200, 300, 799, 800, 1_000])
async def test_small_limits(most: int) -> None:
    """Whatever the limit, the text stays within it and says how to read on."""
    small = dump.replace(max_output=most)
    agent, _ = agent_with(calls(("1", "dump", {})), "ok", tools=[small])
    told = (await agent.run("go")).tool_results[0]
    assert len(told.text.encode()) <= most
    assert 'read_output(id="out_' in told.text
    assert told.text.startswith("line 1\n")
    assert told.text.endswith("20000")
