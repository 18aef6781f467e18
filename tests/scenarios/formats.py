"""Stores as versions of this package have left them: made once, committed, and read for ever.

`python -m tests.scenarios.formats 1` makes those of the current format, which must not exist yet.
"""

from __future__ import annotations

import asyncio
import sys
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from tests.scenarios.stores import Dying
from treadle import Agent, Conversation, Image, Message, RunContext, open_store, register, tool
from treadle.ports.store import Store
from treadle.testing import ScriptedModel, calls

FORMATS = Path(__file__).parents[1] / "stores" / "formats"
TALK, DEAD, WAITING = "talk", "d\u00e4d %", "waiting"
CONVERSATIONS = (TALK, DEAD, WAITING)
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "image/png", detail="low")


@register(name="tests:Color")
class Color(Enum):
    RED = "r"


@tool
async def look(ctx: RunContext, at: str) -> list[Any]:
    """Look."""
    ctx.state.set("seen", {"price": Decimal("1.10"), "n": 2**70, "t": (1, Color.RED), at: b"\x00"})
    return ["a\x00b \\u0000", PICTURE]


@tool(approval=True)
async def pay(amount: Decimal) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(idempotent=True)
async def note(text: str) -> str:
    """Note."""
    return f"noted {text}"


TOOLS = [look, pay, note]


def agent(*script: Any) -> Agent[None, str]:
    """Return the agent whose runs are kept, with a model that says this."""
    return Agent("keeper", ScriptedModel(script), tools=TOOLS, instructions="Keep.")


async def fill(store: Store) -> None:
    """Leave a run that answered, one that waits, one that died, and a message that waits."""
    script = [calls(("1", "look", {"at": "k\x00"}), text="so"), "done \U0001f6fc"]
    await agent(*script).run(
        ["see", PICTURE], conversation=TALK, run_id="answered", store=store, metadata={"m": [1]}
    )
    script = [calls(("2", "pay", {"amount": "5"}), ("3", "note", {"text": "x"}))]
    await agent(*script).run("and pay", conversation=TALK, run_id="paused", store=store)
    await Dying(store, 2).run(
        agent(calls(("4", "note", {"text": "y"}))), "note", conversation=DEAD, run_id="dead"
    )
    made = await Conversation.create(WAITING, store=store, history=[Message.user("old")])
    await made.reset([Message.user("new", PICTURE)])
    await made.steer("later", PICTURE)


async def told(store: Store) -> dict[str, Any]:
    """Return all that a store tells of its conversations, as JSON values."""
    found: dict[str, Any] = {}
    for name in CONVERSATIONS:
        conversation = await Conversation.open(name, store=store)
        view = await conversation.view()
        found[name] = {
            "head": conversation.head,
            "entries": await conversation.entries(),
            "messages": view.messages,
            "state": view.state,
            "runs": list(view.runs.values()),
            "inbox": view.mail.inbox,
        }
    return msgspec.json.decode(msgspec.json.encode(found))


async def make(version: str) -> None:
    """Make the stores of this version, and note what they tell."""
    place = FORMATS / version
    place.mkdir(parents=True)
    for url, name in ((f"sqlite:///{place}/kept.db", "sqlite"), (f"file:{place}/kept", "file")):
        store = open_store(url)
        await fill(store)
        (place / f"{name}.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(await told(store)), indent=1) + b"\n"
        )
        await store.close()


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1]))
