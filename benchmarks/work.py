"""The work every lane does, and what a lane must offer so that it can be measured.

Names, texts and counts stand here once, so that the lanes cannot drift apart. Arguments and results
of the tool differ from call to call, as real ones do (and as loop detection wants them to).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

MODEL = "m"
API_KEY = "x"
INSTRUCTIONS = "You are a weather assistant. Answer briefly and say which cities you looked up."
QUESTION = "What is the weather like in the ten largest cities of Europe today?"
TOOL_NAME = "get_weather"
CITIES = (
    "Istanbul",
    "Moscow",
    "London",
    "Saint Petersburg",
    "Berlin",
    "Madrid",
    "Kyiv",
    "Rome",
    "Baku",
    "Paris",
)
TOOL_TURNS = len(CITIES)
"""Tool turns of one run; the turn with the answer comes on top."""

CALLS = TOOL_TURNS + 1
"""Model calls of one run with tools."""

ANSWER = (
    "It is mild today: eighteen degrees and dry in most of the ten cities, with a light wind from "
    "the west. Only Moscow and Saint Petersburg are colder, with some rain in the evening."
)
STREAM_TEXT = " weather"
MAX_TURNS = CALLS + 1
"""A limit no run meets; every lane has one, as every real loop does."""


def question(number: int) -> str:
    """Return the user's text of the `number`-th turn of a conversation."""
    return f"Question {number:03d}: and what will the weather be like there on the day after that?"


def weather(city: str, unit: str) -> str:
    """Return what the tool says, the same in every lane."""
    return f"18 degrees {unit} and dry in {city}, wind from the west at 3 m/s"


class Gate:
    """Holds every run of a crowd inside its last tool call until all of them are there."""

    def __init__(self, runs: int) -> None:
        self._missing = runs
        self._all_there = asyncio.Event()
        self._opened = asyncio.Event()

    async def arrive(self, city: str) -> None:
        """Wait in the last tool call of a run; pass at once in every other."""
        if city != CITIES[-1]:
            return
        self._missing -= 1
        if self._missing == 0:
            self._all_there.set()
        await self._opened.wait()

    async def all_there(self) -> None:
        """Wait until every run is inside."""
        await self._all_there.wait()

    def open(self) -> None:
        """Let every run go on."""
        self._opened.set()


class WrongWork(Exception):
    """A lane did something else than it was asked to."""


def expect(what: str, got: object, wanted: object) -> None:
    """Refuse a lane's result that is not the one the work must have."""
    if got != wanted:
        raise WrongWork(f"{what}: expected {wanted!r}, got {got!r}; the lanes do not do equal work")


class Lane(Protocol):
    """One way of doing the work: by hand, over an SDK, or with Treadle."""

    async def ask(self, count: int) -> None:
        """Ask `count` single questions, one after another, each with an answer of its own."""
        ...

    async def tool_runs(self, count: int) -> None:
        """Do `count` runs with ten tool turns and an answer, one after another."""
        ...

    async def chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation; return the CPU clock of this process after each turn."""
        ...

    async def stored_chat(self, turns: int) -> Sequence[float]:
        """Hold the same conversation, kept in a store in memory where the lane has stores."""
        ...

    async def kept_chat(self, turns: int) -> Sequence[float]:
        """Hold the same conversation, each turn kept in an SQLite file by three durable writes."""
        ...

    async def stream(self, chunks: int, *, paced: bool) -> None:
        """Read one streamed answer, event by event."""
        ...

    async def crowd(self, runs: int, gate: Gate | None) -> None:
        """Do `runs` runs with ten tool turns at the same time, held at `gate` if there is one."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...
