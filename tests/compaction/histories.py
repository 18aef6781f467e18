"""Histories of every kind, and whether each provider takes them."""

from __future__ import annotations

import random
from typing import Any

from tests.providers.test_matrix import SIDES, Recorded
from treadle import Image, Message, Text, ToolCall, ToolResult
from treadle.messages import Reasoning, Thread
from treadle.ports.model import ModelRequest, ToolSpec
from treadle.testing.strict import strict

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4) + b"\0" * 30
SPECS = tuple(
    ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": {}})
    for name in ("look", "fetch", "load_skill", "read_skill_file")
)


def tool_turn(number: int, names: tuple[str, ...] = ("look",), size: int = 40) -> list[Message]:
    """Return calls with their results."""
    calls = tuple(ToolCall(f"c{number}_{n}", name, "{}") for n, name in enumerate(names))
    results = tuple(ToolResult(c.id, c.name, (Text(f"{c.id} " + "w " * size),)) for c in calls)
    return [Message("assistant", calls), Message("tool", results)]


def random_history(chance: random.Random, turns: int) -> list[Message]:
    """Return a valid history: parallel calls, pictures, thoughts, skills, several runs."""
    said: list[Message] = [Message.user("question 0 " + "q " * chance.randint(1, 60))]
    for number in range(turns):
        match chance.randrange(6):
            case 0:
                content: list[Any] = [f"question {number} " + "q " * chance.randint(1, 60)]
                if chance.random() < 0.4:
                    content.append(Image.from_bytes(PNG, "image/png"))
                said.append(Message.user(*content))
            case 1:
                said.append(Message.assistant(f"answer {number} " + "a " * chance.randint(1, 60)))
                said.append(Message.user(f"and {number}?"))
            case 2:
                said += tool_turn(number, ("load_skill",))
            case _:
                names = tuple(chance.choice(("look", "fetch")) for _ in range(chance.randint(1, 4)))
                turn = tool_turn(number, names, chance.randint(1, 120))
                if chance.random() < 0.3:
                    thought = Reasoning("Hm.", "c2lnbmF0dXJl", provider={"anthropic": {}})
                    turn[0] = Message("assistant", (thought, *turn[0].parts))
                said += turn
    return said


async def problems_of(request: ModelRequest) -> list[str]:
    """Return what each of four providers would say against a request."""
    found: list[str] = []
    for side, (made, model, kinds) in SIDES.items():
        sent = Recorded(made("ok", calls=False))
        whole = ModelRequest(messages=Thread(request.messages), tools=request.tools or SPECS)
        await model(sent).complete(whole)
        found += [f"{side}: {each}" for kind in kinds for each in strict(kind)(sent.sent[0])]
    return found
