"""Stored messages as text: what a terminal cannot show, and what waits."""

from __future__ import annotations

import asyncio
import io

import pytest

from tests.cli.conftest import Screen, Treadle
from treadle import Conversation, Image, Message, Reasoning, Text, ToolCall, ToolResult, open_store
from treadle.cli.terminal import Terminal
from treadle.cli.transcript import Transcript, last_exchanges, table


def shown(*messages: Message, screen: io.StringIO) -> str:
    """Return what a transcript prints on this stream."""
    terminal = Terminal(screen, screen, screen, {})
    Transcript(terminal).show(messages)
    return screen.getvalue()


def test_media_are_named() -> None:
    """A picture is shown by its kind and size, wherever it stands."""
    picture = Image.from_bytes(b"12345", "image/png")
    address = Image.from_url("https://x.test/a.png")
    text = shown(
        Message.user("Look:", picture),
        Message.assistant("So?", address, ToolCall.of("draw", {}, id="c1")),
        Message("tool", (ToolResult("c1", "draw", (Text("Drawn."), picture)),)),
        screen=io.StringIO(),
    )

    assert text == (
        "> Look:\n. [image image/png, 5 bytes]\n"
        "So?\n[image https://x.test/a.png]\n-> draw()\n"
        "<- Drawn.\n   [image image/png, 5 bytes]\n"
    )


def test_reasoning_is_for_terminals() -> None:
    """As in a chat: it stands back where there are colours, and is left out elsewhere."""
    message = Message.assistant(Reasoning("Hm.\x1b[2J"), "Yes.\x1b[2J")

    assert shown(message, screen=io.StringIO()) == "Yes.\x1b[2J\n"
    assert shown(message, screen=Screen()) == "\x1b[2mHm.\\x1b[2J\x1b[0m\nYes.\\x1b[2J\n"


@pytest.mark.parametrize(
    ("exchanges", "most", "texts"),
    [(1, 9, ["c", "C"]), (2, 9, ["b", "B", "c", "C"]), (9, 9, "aAbBcC"), (3, 3, ["B", "c", "C"])],
)
def test_the_end_of_a_history(exchanges: int, most: int, texts: list[str]) -> None:
    """It begins with something that somebody said, unless that is too much."""
    messages = [m for t in "abc" for m in (Message.user(t), Message.assistant(t.upper()))]

    found = last_exchanges(messages, exchanges=exchanges, most=most)
    assert [message.text for message in found] == list(texts)


def test_a_table_is_as_wide_as_its_cells() -> None:
    """Nothing in it can drive the terminal, and no line ends in blanks."""
    assert table(["A", "B"], [["long", ""], ["\x1b", "x"]]) == ["A     B", "long", "\\x1b  x"]


def test_messages_that_wait_are_shown(treadle: Treadle, url: str) -> None:
    """What was said to a conversation and not taken in stands apart."""

    async def leave() -> None:
        store = open_store(url)
        conversation = await Conversation.create("ann", store=store, history=[Message.user("hi")])
        await conversation.steer("And hurry!")
        await store.close()

    asyncio.run(leave())
    show = ["conversations", "show", "ann", "--store", url]
    out = treadle(*show).out
    listed = treadle("conversations", "list", "--store", url).out

    assert out.startswith("ann: new, revision 2\n")
    assert out.endswith("> hi\n\nmessages that wait for a run\n> And hurry!\n")
    assert listed.splitlines()[1].split()[:5] == ["ann", "new", "2", "-", "1"]
    assert '"queued":[{"role":"user"' in treadle(*show, "--json").out
