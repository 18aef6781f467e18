"""What a chat talks in: a history of its own, or a conversation of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.agent.conversation import Conversation
from treadle.agent.options import OnChange
from treadle.agent.result import RunResult
from treadle.agent.run import Run
from treadle.cli.keeping import EXAMPLE, Keeping
from treadle.cli.loading import AnyAgent
from treadle.errors import ConfigError, ConversationNotFound
from treadle.messages import Message
from treadle.ports.approval import Decisions
from treadle.usage import NOTHING, Usage
from treadle.view import View


class PassingTalk:
    """A talk that ends with the program: its history is passed on from run to run."""

    def __init__(self) -> None:
        self._history: Sequence[Message] = ()
        self._used = NOTHING

    def start(self, agent: AnyAgent, question: str) -> Run[Any]:
        """Start a run that answers a question."""
        return agent.start(question, history=self._history)

    def keep(self, result: object) -> None:
        """Go on from where a run ended, however it ended."""
        if isinstance(result, RunResult):
            self._history = result.messages
            self._used += result.usage

    def begin_anew(self) -> None:
        """Forget what was said."""
        self._history = ()
        self._used = NOTHING

    async def used(self) -> Usage:
        """Return what the talk has used."""
        return self._used

    async def place(self) -> str:
        """Say where the talk is kept."""
        return f"nothing is stored; begin with {EXAMPLE}"

    async def close(self) -> None:
        """There is nothing to let go of."""


class StoredTalk:
    """A talk that is a conversation of a store. `id` is None until the first run names it."""

    def __init__(self, keeping: Keeping, conversation_id: str | None) -> None:
        self.keeping = keeping
        self.id = conversation_id

    def start(self, agent: AnyAgent, question: str) -> Run[Any]:
        """Start a run that answers a question."""
        return agent.start(question, conversation=self.id, store=self.keeping.store)

    def resume(
        self, agent: AnyAgent, run_id: str, decisions: Decisions, on_change: OnChange
    ) -> Run[Any]:
        """Go on with a run of it; one that is at work elsewhere is not waited for."""
        return agent.resume(
            run_id,
            store=self.keeping.store,
            decisions=decisions,
            on_change=on_change,
            if_busy="raise",
        )

    def keep(self, result: object) -> None:
        """Go on from where a run ended, however it ended."""
        if isinstance(result, RunResult) and result.conversation_id:
            self.id = result.conversation_id

    def begin_anew(self) -> None:
        """Leave the conversation; the next run begins another."""
        self.id = None

    async def view(self) -> View | None:
        """Return how the conversation stands, None when it has not begun."""
        conversation = await self._open()
        return None if conversation is None else await conversation.view()

    async def fork(self) -> str:
        """Copy the conversation, go on in the copy, and return what it is a copy of.

        Raises:
            ConfigError: nothing was said yet.
        """
        conversation = await self._open()
        if conversation is None:
            raise ConfigError("There is nothing to fork yet: nothing was said.")
        branch = await conversation.fork()
        self.id = branch.id
        return conversation.id

    async def used(self) -> Usage:
        """Return what the runs of the conversation have used."""
        view, total = await self.view(), NOTHING
        for run in view.runs.values() if view is not None else ():
            total += run.usage
        return total

    async def place(self) -> str:
        """Say where the talk is kept."""
        conversation = await self._open()
        if conversation is None:
            name = "a new one" if self.id is None else f"{self.id} (not begun)"
            return f"{name} in {self.keeping}"
        return f"{conversation.id} in {self.keeping}, revision {conversation.head.revision}"

    async def close(self) -> None:
        """Let go of the store."""
        await self.keeping.close()

    async def _open(self) -> Conversation | None:
        if self.id is None:
            return None
        try:
            return await Conversation.open(self.id, store=self.keeping.store)
        except ConversationNotFound:
            return None


Talk = PassingTalk | StoredTalk
