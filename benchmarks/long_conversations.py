"""Conversations of thousands of turns, with known facts planted in them.

`python -m benchmarks.long_conversations` lets each strategy keep each kind of conversation inside
its window. Every request must fit, and be what four providers take; then it counts how many of the
facts are still in the view, and what a turn costs. Exit code: 0 all as it must be, 1 not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.compaction.histories import PNG, problems_of
from treadle import Agent, Compaction, Image, MemoryStore, Message, Reasoning, ToolCall, Usage, tool
from treadle.events import ContextCompacted
from treadle.messages import Part
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, reply

WINDOW = 32_000
KINDS = ("tools", "documents", "images", "cjk")
STRATEGIES = ("checkpoint", "summary", "aggressive", "drop_oldest")
PLANT_EVERY = 5
LOOKED = "Many things were looked at."
WORDS = (
    *("the", "of", "and", "to", "in", "that", "for", "it", "as", "was", "with", "be", "by", "on"),
    *("not", "but", "at", "are", "this", "have", "from", "they", "which", "one", "you", "were"),
    *("loom", "warp", "weft", "shuttle", "thread", "pattern", "cloth", "dye", "spindle", "wool"),
)
HAN = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发动同工也能下过"


@dataclass
class Story:
    """A conversation of one kind, made by chance: what is said in each turn, and its facts."""

    kind: str
    chance: random.Random
    facts: dict[str, int] = field(default_factory=dict[str, int])

    def filler(self, words: int) -> str:
        """Return text without any fact."""
        if self.kind == "cjk":
            return "".join(self.chance.choice(HAN) for _ in range(words)) + "。"
        return " ".join(self.chance.choice(WORDS) for _ in range(words)) + "."

    def fact(self, turn: int) -> str:
        """Return an exact reference that comes nowhere else."""
        number = f"{turn:04}{self.chance.randint(100, 999)}"
        value = (
            f"https://example.com/orders/{number}?view=full",
            f"/srv/data/{number}/report.csv",
            f"ORD-{number}",
            f"{2030 + turn}-{turn % 12 + 1:02}-{turn % 28 + 1:02}T{turn % 24:02}:30:00Z",
            f"user_{number}@example.org",
            f"{number}.5 kg",
            f"C:\\Data\\{number}\\notes.txt",
        )[turn // PLANT_EVERY % 7]
        self.facts[value] = turn
        return value

    def said(self, turn: int) -> list[Any]:
        """Return what the user says in a turn."""
        planted = self.fact(turn) if turn % PLANT_EVERY == 0 and turn % 2 else ""
        size = {"documents": 500, "cjk": 120}.get(self.kind, 20)
        said: list[Any] = [f"{self.filler(size)} {planted}".strip()]
        if self.kind == "images" and turn % 2 == 0:
            said.append(Image.from_bytes(PNG, "image/png"))
        return said

    def found(self, turn: int) -> str:
        """Return what the tool finds in a turn."""
        planted = self.fact(turn) if turn % PLANT_EVERY == 0 and turn % 2 == 0 else ""
        size = {"tools": 400, "cjk": 200}.get(self.kind, 80)
        return f"{self.filler(size // 2)} {planted} {self.filler(size // 2)}"


@dataclass
class Course:
    """What came of one conversation."""

    requests: int = 0
    largest: int = 0
    problems: list[str] = field(default_factory=list[str])
    compactions: int = 0
    yielded: set[str] = field(default_factory=set[str])
    lost: int = 0


def note_of(request: ModelRequest) -> str:
    """Write a note as a careless model would: it forgets what was in the earlier one."""
    text = request.messages[-1].text
    if "JSON" in request.system:
        record = re.search(r"M\d{4,}", text)
        fact = f"Something was looked at. [{record.group()}]" if record else "Something was said."
        return json.dumps({"rolling_summary": LOOKED, "confirmed_facts": [fact]})
    return LOOKED


async def follow(kind: str, strategy: Any, turns: int, *, check_every: int, seed: int) -> Course:
    """Let a conversation of this kind take its turns, and look at every request."""
    course, story = Course(), Story(kind, random.Random(seed))  # noqa: S311 (no secret)
    store = MemoryStore()
    turn = 0
    last: list[Message] = []

    @tool
    def look(place: str) -> str:  # noqa: ARG001 (what is found depends on the turn)
        """Look at a place."""
        return story.found(turn)

    def answer(request: ModelRequest) -> ModelReply:
        if not request.tools:
            return ModelReply(message=Message.assistant(note_of(request)), usage=Usage(requests=1))
        course.requests += 1
        if request.messages[-1].role == "tool":
            parts: tuple[Part, ...] = Message.assistant(story.filler(10)).parts
        else:
            parts = (
                Reasoning("Look.", "c2lnbmF0dXJl", provider={"anthropic": {}}),
                ToolCall(f"c{turn}", "look", '{"place": "here"}'),
            )
        return ModelReply(message=Message("assistant", parts), usage=Usage(requests=1))

    compaction = Compaction(window=WINDOW, strategy=strategy)
    agent = Agent("a", FunctionModel(answer), tools=[look], compaction=compaction, store=store)
    for turn in range(1, turns + 1):
        run = agent.start(story.said(turn), conversation="c")
        done = [each async for each in run if isinstance(each, ContextCompacted)]
        result = await run
        for event in done:
            course.compactions += 1
            course.yielded.update(event.yielded)
            if event.error:
                course.problems.append(f"turn {turn}: {event.error}")
        last[:] = result.messages
        course.largest = max(course.largest, result.context.total)
        if done or turn % check_every == 0:
            course.problems += await problems_of(ModelRequest(messages=result.messages))
    view = "\n".join(_texts(last))
    course.lost = sum(1 for fact in story.facts if fact not in view)
    return course


def _texts(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        yield message.text
        for result in message.tool_results:
            yield result.text


async def added(turns: int) -> tuple[float, float, float]:
    """Return microseconds of a turn early and late without fitting, and what it adds late.

    The window is so large that nothing leaves: what is measured is looking at each request.
    """
    spent: dict[bool, list[float]] = {False: [], True: []}
    talks = {
        fits: Agent(
            "a",
            FunctionModel(lambda _: reply("Yes. " * 40, usage=Usage(1_000, requests=1))),
            compaction=Compaction(window=1_000_000_000) if fits else None,
            store=MemoryStore(),
        )
        for fits in spent
    }
    for _ in range(turns):
        for fits, agent in talks.items():
            began = time.perf_counter()
            await agent.run("And then? " * 40, conversation="c")
            spent[fits].append((time.perf_counter() - began) * 1e6)
    tenth = max(1, turns // 10)
    plain, fitted = (median(spent[fits][-tenth:]) for fits in (False, True))
    early = median(spent[True][tenth : 2 * tenth]) - median(spent[False][tenth : 2 * tenth])
    return plain, early, fitted - plain


def main(argv: list[str] | None = None) -> int:
    """Follow all conversations, and print a table."""
    parser = argparse.ArgumentParser(description="Keep long conversations in their window.")
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--check-every", type=int, default=1, help="ask the checkers so often")
    options = parser.parse_args(argv)
    plain, early, late = asyncio.run(added(options.turns))
    print(f"a turn of {options.turns} without fitting {plain:.0f} us; looking at its request adds")
    print(f"{early:.0f} us early and {late:.0f} us at the end, of at most 1,000")
    failed = max(early, late) > 1_000
    print(f"{options.turns} turns, window {WINDOW:,}")
    print(
        "kind       strategy     largest  compactions  facts lost    protected kinds that yielded"
    )
    for kind in options.kinds.split(","):
        for strategy in options.strategies.split(","):
            course = asyncio.run(
                follow(kind, strategy, options.turns, check_every=options.check_every, seed=7)
            )
            facts = options.turns // PLANT_EVERY
            print(
                f"{kind:10} {strategy:12} {course.largest:7,}  {course.compactions:11}  "
                f"{course.lost:4} of {facts:4}  {', '.join(sorted(course.yielded)) or '-'} "
                f"{course.problems[:2] or ''}",
                flush=True,
            )
            failed = failed or bool(course.problems) or course.largest > WINDOW
            failed = failed or (strategy == "checkpoint" and course.lost > 0)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
