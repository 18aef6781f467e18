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
from treadle.compaction.turns import NOTE
from treadle.events import ContextCompacted
from treadle.messages import Part
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel

WINDOW = 32_000
KINDS = ("tools", "documents", "images", "cjk")
STRATEGIES = ("checkpoint", "summary", "aggressive", "drop_oldest")
PLANT_EVERY = 5
WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or "
    "had an they which one you were all her she there would their we him been has when who will no"
).split()
HAN = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"


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
            f"20{turn % 60 + 30}-{turn % 12 + 1:02}-{turn % 28 + 1:02}T{turn % 24:02}:{turn % 60:02}:00Z",
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
    seconds: list[float] = field(default_factory=list[float])


def note_of(request: ModelRequest) -> str:
    """Write a note as a careless model would: it forgets what was in the earlier one."""
    text = request.messages[-1].text
    if "JSON" in request.system:
        record = re.search(r"M\d{4,}", text)
        fact = f"Something was looked at. [{record.group()}]" if record else "Something was said."
        return json.dumps({"rolling_summary": "Many things were looked at.", "confirmed_facts": [fact]})
    return "Many things were looked at."


async def follow(kind: str, strategy: Any, turns: int, *, check_every: int, seed: int) -> Course:
    """Let a conversation of this kind take its turns, and look at every request."""
    course, story = Course(), Story(kind, random.Random(seed))
    store = MemoryStore()
    turn = 0
    last: list[Message] = []

    @tool
    def look(place: str) -> str:  # noqa: ARG001 (what is found depends on the turn)
        """Look at a place."""
        return story.found(turn)


    def reply(request: ModelRequest) -> ModelReply:
        if not request.tools:
            return ModelReply(message=Message.assistant(note_of(request)), usage=Usage(requests=1))
        course.requests += 1
        last[:] = request.messages
        if request.messages[-1].role == "tool":
            parts: tuple[Part, ...] = Message.assistant(story.filler(10)).parts
        else:
            parts = (
                Reasoning("Look.", "c2lnbmF0dXJl", provider={"anthropic": {}}),
                ToolCall(f"c{turn}", "look", '{"place": "here"}'),
            )
        return ModelReply(message=Message("assistant", parts), usage=Usage(requests=1))

    compaction = Compaction(window=WINDOW, strategy=strategy)
    agent = Agent("a", FunctionModel(reply), tools=[look], compaction=compaction, store=store)
    for turn in range(1, turns + 1):
        began = time.perf_counter()
        run = agent.start(story.said(turn), conversation="c")
        done = [each async for each in run if isinstance(each, ContextCompacted)]
        result = await run
        if not done:
            course.seconds.append(time.perf_counter() - began)
        for event in done:
            course.compactions += 1
            course.yielded.update(event.yielded)
            if event.error:
                course.problems.append(f"turn {turn}: {event.error}")
        course.largest = max(course.largest, result.context.total)
        if done or turn % check_every == 0:
            course.problems += await problems_of(ModelRequest(messages=result.messages))
    view = "\n".join(_texts(result.messages))
    course.lost = sum(1 for fact in story.facts if fact not in _unfolded(view))
    return course


def _texts(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        yield message.text
        for result in message.tool_results:
            yield result.text


def _unfolded(view: str) -> str:
    """Return a view whose notes have every reference written out."""
    return view


def main(argv: list[str] | None = None) -> int:
    """Follow all conversations, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--check-every", type=int, default=1, help="ask the checkers so often")
    options = parser.parse_args(argv)
    failed = False
    print(f"{options.turns} turns, window {WINDOW:,}")
    print("kind       strategy     largest  compactions  facts lost  turn, us (first and last tenth)")
    for kind in options.kinds.split(","):
        for strategy in options.strategies.split(","):
            course = asyncio.run(
                follow(kind, strategy, options.turns, check_every=options.check_every, seed=7)
            )
            tenth = max(1, len(course.seconds) // 10)
            early = median(course.seconds[:tenth]) * 1e6
            late = median(course.seconds[-tenth:]) * 1e6
            facts = options.turns // PLANT_EVERY
            print(
                f"{kind:10} {strategy:12} {course.largest:7,}  {course.compactions:11}  "
                f"{course.lost:4} of {facts:4}  {early:6.0f} {late:6.0f}  "
                f"{', '.join(sorted(course.yielded))} {course.problems[:2] or ''}",
                flush=True,
            )
            failed = failed or bool(course.problems) or course.largest > WINDOW
            failed = failed or (strategy == "checkpoint" and course.lost > 0)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
