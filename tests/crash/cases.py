"""What is killed: the agent of fifty turns, and each of the stories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.crash import checks
from tests.crash.agent import Hold, Tell, build
from tests.crash.stories import STORIES
from treadle import RunResult
from treadle.agent.startable import Startable


class Case(Protocol):
    """Something that is run and killed, and what must be true of it then.

    It pauses `pauses` times on its way, and the kinds of stores in `stores` are those it is run on
    when nobody says so. There it is killed `kills` times at least.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def pauses(self) -> int:
        """How often somebody has to approve something."""
        ...

    @property
    def stores(self) -> tuple[str, ...]:
        """On which kinds of stores it runs."""
        ...

    @property
    def kills(self) -> int:
        """How often."""
        ...

    @property
    def life(self) -> int:
        """How many appends a process makes at most that is killed at random."""
        ...

    def begins(self, tell: Tell, revision: int) -> None:
        """A process begins, which finds the journal at this revision."""
        ...

    def build(self, store: Any, tell: Tell, hold: Hold) -> Startable[Any, Any]:
        """Return what runs, telling what it does."""
        ...

    def answer_of(self, result: RunResult[Any]) -> str:
        """Return what a process tells of the result."""
        ...

    async def reference(self) -> Any:
        """Return what it comes to when nothing happens to it."""
        ...

    async def wrong(
        self, store: Any, run_id: str, folder: Path, expected: Any, kills: int
    ) -> list[str]:
        """Return what is wrong with a run that has ended, in words."""
        ...


class TheAgent:
    """The agent of fifty turns, whose every call has a rule of its own."""

    name = "agent"
    pauses = 1
    kills = 500
    life = 5
    stores = ("sqlite", "file", "postgresql", "mysql", "redis")

    def begins(self, tell: Tell, revision: int) -> None:
        """Nothing is told of that."""

    def build(self, store: Any, tell: Tell, hold: Hold) -> Startable[Any, Any]:
        """Return the agent."""
        return build(store, tell, hold)

    def answer_of(self, result: RunResult[Any]) -> str:
        """Return why it stopped, and its output."""
        return f"{result.stop_reason}: {result.output}"

    async def reference(self) -> checks.Reference:
        """Run it once in memory."""
        return await checks.reference()

    async def wrong(
        self, store: Any, run_id: str, folder: Path, expected: Any, kills: int
    ) -> list[str]:
        """Look at its one history."""
        return await checks.wrong(store, run_id, folder, expected, kills)


AGENT = TheAgent()
CASES: Mapping[str, Case] = {each.name: each for each in (AGENT, *STORIES)}
