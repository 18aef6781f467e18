"""What is kept comes back as it was: the same messages, the same values, the same next request."""

from __future__ import annotations

import socket
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from tests.agent.parts import check_answered
from tests.scenarios.provider import provider, saying
from tests.scenarios.stores import Kept
from treadle import (
    Agent,
    Audio,
    Conversation,
    File,
    Image,
    Message,
    NotStorable,
    RunContext,
    State,
    Text,
    ToolCall,
    UnknownType,
    register,
    tool,
)
from treadle.messages import Reasoning, ToolResult
from treadle.testing import ScriptedModel, calls, calls_raw, reply

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@register
class Color(Enum):
    RED = "r"


@register
@dataclass
class Order:
    number: int
    price: Decimal
    lines: tuple[str, ...] = ()


VALUES: dict[str, Any] = {
    "small": 7,
    "n": 2**63,
    "more": -(2**70),
    "beyond floats": 2**53 + 1,
    "f": 0.1 + 0.2,
    "whole float": 3.0,
    "inf": float("inf"),
    "truth": True,
    "nothing": None,
    "d": Decimal("1.10"),
    "t": (1, 2),
    "nested": {"t": ((1,), [2, (3.0,)]), "l": [1, 2.5, {"x": [None]}]},
    "set": {1, 2},
    "frozen": frozenset(("a",)),
    "keys": {1: "int", (1, 2): "pair", None: "none"},
    "z": datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=ZoneInfo("Europe/Berlin")),
    "offset": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "naive": datetime(2026, 1, 1, 1, 1, fold=1),  # noqa: DTZ001 naive on purpose
    "day": date(2026, 2, 28),
    "clock": time(1, 2, 3, 4, tzinfo=UTC),
    "span": timedelta(days=-1, microseconds=1),
    "b": b"\x00\xff",
    "e": Color.RED,
    "u": UUID(int=7),
    "order": Order(2**64, Decimal("9.90"), ("a", "b")),
    "orders": [Order(1, Decimal(0))],
    "nul": "a\x00b",
    "six": "a\\u0000b",
    "nul key": {"k\x00": 1, "k\\u0000": 2},
    "half": "\ud83d",
    "emoji": "\U0001f6fc e\u0301",
    "empty": "",
}


@tool
async def remember(ctx: RunContext) -> dict[str, Any]:
    """Remember everything."""
    for name, value in VALUES.items():
        ctx.state.session.set(name, value)
    return VALUES


def same(one: Any, two: Any) -> bool:
    """Whether both are equal and of the same types all the way down."""
    return one == two and repr(one) == repr(two)


async def test_values_of_every_type(kept: Kept) -> None:
    """S32, BS-37, W2, B207: types and values in state and results are the same in a new process."""
    seen: list[Any] = []

    @tool
    async def recall(ctx: RunContext) -> str:
        """Recall."""
        seen.append({name: ctx.state.get(name) for name in VALUES})
        return "ok"

    script = [calls(("1", "remember", {})), "ok", calls(("1", "recall", {})), "ok"]
    agent = Agent("a", ScriptedModel(script), tools=[remember, recall])
    first = await agent.run("x", conversation=kept.id(), store=kept.open(), metadata={"m": 2**60})
    await agent.run("y", conversation=kept.id(), store=await kept.reopen())
    conversation = await kept.conversation()
    result = (await conversation.messages())[2].tool_results[0]

    assert list(map(type, seen[0].values())) == list(map(type, VALUES.values()))
    for name, value in VALUES.items():
        assert same(seen[0][name], value), name
    assert same(result.value, VALUES)
    assert (await conversation.state()).packed() == first.state.packed()
    assert (await conversation.runs())[0].metadata == {"m": 2**60}


class Nobody:
    """A class that nobody has declared."""


async def test_values_that_cannot_be_stored(kept: Kept) -> None:
    """S32, BS-37, W2: refused at the write, with key and type; the history stays valid."""
    lists: defaultdict[str, list[int]] = defaultdict(list)
    with socket.socket() as open_socket:
        for made, named in (
            (open_socket, "socket"),
            (lists, "defaultdict"),
            (Nobody(), "Nobody"),
            ([{"deep": (object(),)}], "object"),
        ):
            await refused(kept, made, named)


async def refused(kept: Kept, made: object, named: str) -> None:
    """Try to store it everywhere that values are stored."""

    @tool
    async def bad(ctx: RunContext) -> str:
        """Store it."""
        ctx.state.session.set("fine", 1)
        ctx.state.session.set("handle", made)
        return "never"

    batch = calls(("1", "bad", {}))
    agent = Agent("a", ScriptedModel([batch, "sorry", "go on"]), tools=[bad], store=kept.open())
    name = kept.id(named)
    await agent.run("x", conversation=name)
    with pytest.raises(NotStorable, match=f"(?s)handle.*{named}"):
        await agent.run("x", conversation=name, state={"session::handle": made})
    with pytest.raises(NotStorable, match=f"(?s)metadata.*{named}"):
        await agent.run("x", conversation=name, metadata={"m": made})
    result = await agent.run("y", conversation=name)

    check_answered(list(result.messages))
    first = result.messages[2].tool_results[0]
    assert first.is_error
    assert "handle" in first.text
    assert named in first.text
    assert (await (await kept.conversation(named)).state()).snapshot() == {"session::fine": 1}


def stored(name: str, **fields: Any) -> Any:
    """Return what a process stored that had a class of this name."""
    return {"$": "type", "of": name, "v": fields}


async def test_a_class_that_is_not_there_any_more(kept: Kept) -> None:
    """BS-37: reading it raises, with path, stored type and raw value; the rest reads."""
    before = State.from_packed(
        {
            "session::gone": {"list": [stored("shop:Gone", number=7)]},
            "session::changed": [stored(f"{__name__}:Order", number=1, colour="red")],
            "session::other": 1,
        }
    )
    seen: list[Any] = []

    @tool
    async def load(ctx: RunContext) -> str:
        """Load."""
        seen.append(ctx.state.get("other"))
        return str(ctx.state.get("gone"))

    agent = Agent("a", ScriptedModel(["ok", calls(("2", "load", {})), "sorry"]), tools=[load])
    await agent.run("x", conversation=kept.id(), store=kept.open(), state=before)
    result = await agent.run("y", conversation=kept.id(), store=await kept.reopen())
    state = await (await kept.conversation()).state()

    for key, name, path in (
        ("gone", "shop:Gone", "['list'][0]"),
        ("changed", f"{__name__}:Order", "[0]"),
    ):
        with pytest.raises(UnknownType, match=key) as caught:
            state.get(f"session::{key}")
        error = caught.value
        assert (error.type_name, error.path) == (name, f"session::{key}{path}")
        assert "number" in str(error.raw)
    assert (seen, result.output) == ([1], "sorry")
    told = result.messages[-2].tool_results[0]
    assert told.is_error
    assert "shop:Gone" in told.text


SAID = [
    "a\x00b \\u0000",
    Text("\U0001f6fc and \udcc1 half"),
    Image.from_bytes(PNG, "image/png", detail="low"),
    Image.from_bytes(b"\x00tiny", "image/png"),
    Image.from_url("https://example.test/cat.png"),
    File.from_bytes(b"%PDF-" + PNG, "application/pdf", name="\u00e4 \\u0000.pdf"),
    Audio.from_bytes(b"ID3" + PNG, "audio/mpeg", transcript="la"),
]


@tool
async def look() -> list[Any]:
    """Return a text and a picture."""
    return ["nul \x00 and \\u0000", Text("half \ud83d"), Image.from_bytes(PNG[::-1], "image/png")]


@tool
async def nested(note: str) -> dict[str, Any]:
    """Return awkward keys."""
    return {"a\x00b": ["\x00", "\\u0000", "\ud83d"], "line\u2028": "\r\n\x1b[0m"}


async def test_the_next_request_is_the_same_byte_for_byte(kept: Kept) -> None:
    """BS-38, BS-14, J3: pictures, bytes, NUL, half characters: a new process sends the same."""
    calling = (("1", "look", "{}"), ("2", "nested", '{"note": "\\u0000 or \\\\u0000"}'))
    answers = [saying("so\x00", *calling, streamed=False), saying("done \\u0000", streamed=False)]
    async with provider(*answers, saying("again", streamed=False)) as there:
        agent = Agent("a", there.model, tools=[look, nested])
        first = await agent.run(SAID, conversation=kept.id(), store=kept.open())
        second = await Agent("b", there.model, tools=[look, nested]).run(
            "more", history=first.messages
        )
        third = await agent.run("more", conversation=kept.id(), store=await kept.reopen())
        bodies = [request.body for request in there.server.requests]

    assert bodies[-1] == bodies[-2]
    assert list(third.messages) == list(second.messages)
    assert list(await kept.messages()) == list(third.messages)
    content = first.messages[0].parts
    assert isinstance(content[0], Text)
    assert content[0].text == "a\ufffdb \\u0000"
    assert content[1] == Text("\U0001f6fc and \ufffd half")
    value = first.messages[2].tool_results[1].value
    assert value == {"a\x00b": ["\x00", "\\u0000", "\ud83d"], "line\u2028": "\r\n\x1b[0m"}
    assert (await kept.messages())[2].tool_results[1].value == value


async def test_text_that_was_stored_raw(kept: Kept) -> None:
    """BS-14, BS-38: NUL that came into a journal unnoticed is read, sent and gone on with."""
    raw = [
        Message("user", (Text("a\x00b"),)),
        Message("assistant", (ToolCall("1", "look", '{"a": "\\u0000"}'),)),
        Message("tool", (ToolResult("1", "look", (Text("\x00 and \\u0000"),)),)),
        Message("assistant", (Text("seen \x00"),)),
    ]
    store = kept.open()
    conversation = await Conversation.create(kept.id(), store=store)
    await conversation.append(raw)
    async with provider(saying("ok", streamed=False)) as there:
        result = await Agent("a", there.model, tools=[look]).run(
            "more", conversation=kept.id(), store=await kept.reopen()
        )

    assert result.output == "ok"
    kept_texts = [m.text or m.tool_results[0].text for m in result.messages if not m.tool_calls]
    assert kept_texts[1].endswith("and \\u0000")


async def test_what_a_model_escapes(kept: Kept) -> None:
    r"""BS-14: half a pair in the arguments of a call, as the model wrote it: `\ud800`."""
    got: list[str] = []

    @tool
    async def echo(text: str) -> str:
        """Echo."""
        got.append(text)
        return f"{text} \ud83d end"

    model = ScriptedModel([calls_raw(("1", "echo", '{"text": "a\\ud800b"}')), "done"])
    await Agent("a", model, tools=[echo]).run("x", conversation=kept.id(), store=kept.open())
    async with provider(saying("ok", streamed=False)) as there:
        await Agent("a", there.model, tools=[echo]).run(
            "more", conversation=kept.id(), store=await kept.reopen()
        )

    messages = await kept.messages()
    for text in (messages[2].tool_results[0].text, messages[1].tool_calls[0].raw):
        text.encode()


async def test_reasoning_with_its_proofs(kept: Kept) -> None:
    """BS-23: it comes back byte for byte where it stood, also in a fork; no other provider's."""
    parts = (
        Reasoning("think", signature="sig-1==", provider={"other": {"deep": [1, 2**60]}}),
        Reasoning(redacted="blob\u2028"),
        Text("so", provider={"other": {"x": None}}),
        ToolCall("1", "look", '{ "a" :1e400 }', provider_id="p1", provider={"other": {"s": "="}}),
    )
    agent = Agent("a", ScriptedModel([reply(*parts), "done"]), tools=[look])
    result = await agent.run("x", conversation=kept.id(), store=kept.open())
    await kept.reopen()
    conversation = await kept.conversation()
    branch = await conversation.fork(result.run_id, new_id=kept.id("branch"))

    assert (await conversation.messages())[1].parts == parts
    assert (await branch.messages())[1].parts == parts
    async with provider(saying("ok", streamed=False)) as there:
        await Agent("a", there.model, tools=[look]).run(
            "more", conversation=kept.id(), store=kept.open()
        )
        body = there.server.requests[-1].body
    assert b"sig-1" not in body
    assert b"blob" not in body


async def test_state_that_the_caller_brings(kept: Kept) -> None:
    """B208, C5: given state is kept from the start on, deleted keys stay deleted."""

    @tool
    async def drop(ctx: RunContext) -> str:
        """Drop."""
        ctx.state.session.delete("gone")
        ctx.state.session.set("order", Order(1, Decimal("1.10")))
        return "ok"

    state = {"session::gone": (1,), "session::stays": Color.RED}
    agent = Agent("a", ScriptedModel([calls(("1", "drop", {})), "ok"]), tools=[drop])
    await agent.run("x", conversation=kept.id(), store=kept.open(), state=state)
    await kept.reopen()
    found = await (await kept.conversation()).state()

    assert isinstance(found, State)
    assert found.snapshot() == {
        "session::stays": Color.RED,
        "session::order": Order(1, Decimal("1.10")),
    }


class Bill(BaseModel):
    total: Decimal
    by_name: dict[str, int]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Order, '{"number": 1, "price": "1.10", "lines": ["a"]}'),
        (Bill, '{"total": "1.10", "by_name": {"a": 1}}'),
        (list[Order], '{"result": [{"number": 1, "price": "1.10"}]}'),
        (int | None, '{"result": null}'),
    ],
    ids=["dataclass", "model", "list", "union"],
)
async def test_typed_outputs(kept: Kept, kind: Any, text: str) -> None:
    """B208, BS-37: a run that has answered gives its output again in its type, in any process."""
    agent = Agent("a", ScriptedModel([text]), output_type=kind)
    first = await agent.run("x", conversation=kept.id(), store=kept.open())
    again = await agent.resume(first.run_id, store=await kept.reopen())

    assert same(again.output, first.output)
    assert type(again.output) is type(first.output)
