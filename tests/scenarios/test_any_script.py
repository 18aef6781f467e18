"""Whatever a model says and tools do, what is left is a history that every provider accepts."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenarios.any_model import Player, Step
from treadle import (
    Agent,
    Finish,
    Image,
    Interrupt,
    Limits,
    MemoryStore,
    Message,
    ModelRequest,
    Next,
    Retry,
    RunContext,
    ToolAbort,
    ToolError,
    TreadleError,
    tool,
)
from treadle.events import TERMINAL
from treadle.fold import fold
from treadle.messages import Thread
from treadle.testing import FakeClock

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@tool
async def fine(ctx: RunContext[Player], n: int = 0) -> str:
    """Succeed, and write."""
    ctx.state.session.set("n", n)
    return f"fine \ud800 {n}\0"


@tool
def sync() -> dict[str, Any]:
    """Succeed in a thread."""
    return {"a": [1, None]}


@tool
async def empty() -> str:
    """Say nothing."""
    return ""


@tool
async def picture() -> list[Any]:
    """Show."""
    return ["look", Image.from_bytes(PIXEL, "image/png")]


@tool
async def fails() -> str:
    """Fail."""
    raise ToolError("no \udfff")


@tool(retries=1)
async def breaks() -> object:
    """Break, or return what cannot be told."""
    return object()


@tool(timeout=0.001)
async def hangs() -> str:
    """Hang."""
    await FakeClock.forever()
    return "never"


@tool
async def chains() -> Next:
    """Go on."""
    return Next("fine", {"n": 7}, output="first")


@tool
async def loses() -> Next:
    """Go on to nowhere."""
    return Next("nowhere")


@tool
async def asks() -> Interrupt:
    """Ask a human."""
    return Interrupt("human")


@tool
async def ends() -> Finish:
    """End the run."""
    return Finish("finished")


@tool
async def aborts() -> str:
    """Abort the run."""
    await asyncio.sleep(0)
    raise ToolAbort("fire")


@tool
async def cancels(ctx: RunContext[Player]) -> str:
    """Have the run cancelled."""
    await ctx.deps.cancel_run()
    return "never"


@tool(timeout=0.001)
async def swallows() -> str:
    """Give a result instead of being cancelled."""
    try:
        await FakeClock.forever()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return "late"


HARMLESS = (fine, sync, empty, picture, fails, breaks, hangs, swallows, chains, loses)
TOOLS = (*HARMLESS, asks, ends, aborts, cancels)
NAMES = [made.name for made in TOOLS]
WHOLE = ["{}", '{"n": 1}', '{"n": "x"}', r'{"n": "\ud800"}', '{"result": 3}', '{"result": "\0"}']
ARGUMENTS = [*WHOLE, "", "null", '{"n":', "[1]", '"{}"', '{"n": 1}}', "\ud800"]
MADE_UP = ["nope", "functions.fine", "", "a b\0", "工具\ud800", "y" * 90]
IDS = ["", "x", "y", "call_1", "x_2", "i" * 70, "ü\ud800"]
TEXTS = ["", "   ", "ok", "Hello \ud83d world\0", "\n", '{"result": 3}', "3"]

calls = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from([*NAMES, *MADE_UP, "final_result"]),
        st.sampled_from(ARGUMENTS),
    ),
    max_size=4,
).map(tuple)
steps = st.builds(
    Step,
    text=st.sampled_from(TEXTS),
    calls=st.just(()) | calls,
    thought=st.sampled_from(["", "hm"]),
    end=st.sampled_from([None, None, None, "length", "content_filter", "refusal", "other"]),
    fails=st.sampled_from(["", "", "", "", "now", "later", "cancel", "broken"]),
)
runs = st.lists(st.lists(steps, max_size=5), min_size=1, max_size=3)
ways = st.fixed_dictionaries(
    {
        "output_type": st.sampled_from([str, int]),
        "max_turns": st.integers(1, 4),
        "max_tool_calls": st.none() | st.integers(0, 3),
        "on_limit": st.sampled_from(["answer", "error", "pause"]),
        "max_parallel_tools": st.integers(1, 3),
        "watched": st.booleans(),
        "stored": st.booleans(),
    }
)


@settings(max_examples=150)
@given(scripts=runs, way=ways)
async def test_every_request_and_every_history_is_valid(
    scripts: list[list[Step]], way: dict[str, Any]
) -> None:
    """BS-01 to BS-27, W30: in runs one after another, each from what the one before it left."""
    before = asyncio.all_tasks()
    store = MemoryStore() if way["stored"] else None
    history: list[Message] = []
    for script in [*scripts, []]:
        player = Player(script)
        history = await one_run(player, way, history, store)
        check_pairs(history)
        await player.check(ModelRequest(messages=Thread([*history, Message.user("and now?")])))
        if store is not None:
            batches = await store.read("c")
            view = fold((batch.revision, batch.entries) for batch in batches)
            assert view.messages == history

    assert asyncio.all_tasks() == before
    if way["on_limit"] == "answer":  # else a run may stop right after asking for a repair
        assert history[-1].role in ("assistant", "tool")


async def one_run(
    player: Player, way: dict[str, Any], history: list[Message], store: MemoryStore | None
) -> list[Message]:
    """Run once, and return the history that it leaves, however it ends."""
    agent = Agent(
        "a",
        player,
        instructions="Be kind.",
        tools=TOOLS,
        output_type=way["output_type"],
        limits=Limits(max_turns=way["max_turns"], max_tool_calls=way["max_tool_calls"]),
        on_limit=way["on_limit"],
        max_parallel_tools=way["max_parallel_tools"],
        retry=Retry(attempts=2, clock=FakeClock()),
    )
    if store is None:
        run = agent.start("x", history=history, deps=player)
    else:
        run = agent.start("x", conversation="c", store=store, deps=player)
    player.run = run
    if way["watched"]:
        events = [event async for event in run]
        assert [isinstance(event, TERMINAL) for event in events].index(True) == len(events) - 1
    try:
        result = await run
    except TreadleError as error:
        result = error.result
    return result.messages


def check_pairs(messages: list[Message]) -> None:
    """Each call has exactly one result, in order, right after its message; IDs never repeat."""
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(set(ids)) == len(ids)
    for place, message in enumerate(messages):
        asked = [call.id for call in message.tool_calls]
        after = messages[place + 1] if place + 1 < len(messages) else Message("user")
        assert [result.call_id for result in after.tool_results] == asked
