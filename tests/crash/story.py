"""A story: a run of several agents, and what must be true of it wherever it was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode, encode

from tests.crash.agent import Hold, Tell
from tests.crash.checks import refused
from tests.crash.going import conversation_of, go_on
from tests.crash.killing import ANSWERS, EFFECTS
from tests.crash.outcome import differences, entries_of, outcome_of, said_in, unlike
from tests.crash.repeats import Known, left_out, repeated
from tests.crash.stories.parts import IDEMPOTENT
from treadle import RunResult
from treadle.agent.startable import Startable
from treadle.fold import paths_in
from treadle.journal import CallBegan, CallEnded, ChildBegan, ChildEnded, StepBegan, StepEnded
from treadle.messages import Message
from treadle.ports.store import Batch
from treadle.stores.memory import MemoryStore
from treadle.view import View

ONCE = (CallEnded, ChildBegan, ChildEnded, StepEnded)
PASSING = {"wait_for_delegate", "check_delegate"}
"""The tools whose results tell of times."""
Build = Callable[[Any, Tell], Startable[Any, Any]]


class Whole(Struct, frozen=True):
    """What a story comes to when nothing happens to it."""

    outcome: dict[str, Any]
    messages: Sequence[Message]
    said: dict[str, Any]
    told: list[str]


@dataclass(frozen=True, kw_only=True)
class Story:
    """A run that `build` makes, which pauses so often on its way.

    One that is `alone` comes to the same without a store.
    """

    name: str
    build_of: Build
    pauses: int = 0
    alone: bool = True
    kills: int = 150
    life: int = 12
    stores: tuple[str, ...] = ("sqlite", "postgresql")

    def begins(self, tell: Tell, revision: int) -> None:
        """Tell what the journal knows when a process begins."""
        tell(f"process {revision}")

    def build(self, store: Any, tell: Tell, hold: Hold) -> Startable[Any, Any]:
        """Return what runs."""
        return self.build_of(store, tell)

    def answer_of(self, result: RunResult[Any]) -> str:
        """Return what a process tells of the result."""
        return encode(outcome_of(result)).decode()

    async def reference(self) -> Whole:
        """Run it once in memory, and where it can be without a store."""
        store, run_id = MemoryStore(), "reference"
        told = ["process 0"]
        result = await go_on(self.build_of(store, told.append), store, run_id)
        for _ in range(self.pauses):
            assert result.stop_reason == "paused", result
            runnable = self.build_of(store, told.append)
            result = await go_on(runnable, store, run_id, approve=True)
        assert result.stop_reason == "answer", result
        batches = await store.read(conversation_of(run_id))
        whole = Whole(
            decode(encode(outcome_of(result))), tuple(result.messages), said_in(batches), told
        )
        asked = Counter(line for line in told if line.startswith("asked "))
        problems = (
            [f"a request that is not the only one: {asked}"] if asked.total() > len(asked) else []
        )
        known = Known.of(batches)
        problems += repeated(told, known, run_id, IDEMPOTENT)
        problems += _journal(batches)
        if self.alone:
            alone = await self.build_of(None, lambda _: None).run("Begin.")
            problems += differences(decode(encode(outcome_of(alone))), whole.outcome)
            problems += unlike(alone.messages, whole.messages, IDEMPOTENT, PASSING)
        assert not problems, problems
        return whole

    async def wrong(
        self, store: Any, run_id: str, folder: Path, expected: Whole, kills: int
    ) -> list[str]:
        """Return what is wrong with a run that has ended, in words."""
        batches = await store.read(conversation_of(run_id))
        lines = (folder / EFFECTS).read_text().splitlines()
        answers = (folder / ANSWERS).read_text().splitlines()
        result = await go_on(self.build_of(store, lambda _: None), store, run_id)
        known = Known.of(batches)
        problems = list(differences(outcome_of(result), expected.outcome))
        for answer in answers:
            problems += differences(decode(answer), expected.outcome, "told")
        problems += unlike(list(result.messages), expected.messages, IDEMPOTENT, PASSING)
        problems += differences(said_in(batches), expected.said)
        problems += repeated(lines, known, run_id, IDEMPOTENT)
        problems += left_out(lines, expected.told, known)
        if len(known.synthetic) > kills * _at_once(batches):
            problems.append(f"{sorted(known.synthetic)} are unknown after {kills} kills")
        problems += _journal(batches)
        after = await store.read(conversation_of(run_id))
        if len(after) != len(batches):
            problems.append(f"whoever asks again writes: {after[len(batches) :]}")
        return problems


def _journal(batches: Sequence[Batch]) -> Iterator[str]:
    """Say what stands in the journal too often, and at which revision a history is refused."""
    times: Counter[str] = Counter()
    attempts: dict[str, int] = {}
    for entry in entries_of(batches):
        if isinstance(entry, CallEnded):
            times[f"end of call {entry.result.call_id}"] += 1
        elif isinstance(entry, StepEnded):
            times[f"end of step {entry.path}/{entry.step}"] += 1
        elif isinstance(entry, ChildBegan | ChildEnded):
            times[f"{type(entry).__name__} {entry.path}"] += 1
        elif isinstance(entry, StepBegan):
            if entry.attempt != attempts.get(entry.path, 0) + 1:
                yield f"attempt {entry.attempt} of {entry.path} after {attempts.get(entry.path)}"
            attempts[entry.path] = entry.attempt
    yield from (
        f"{number} times in the journal: {what}" for what, number in times.items() if number > 1
    )
    yield from _calls(batches)
    yield from _views(batches)


def _calls(batches: Sequence[Batch]) -> Iterator[str]:
    """Say which calls begin after they have ended."""
    ended: set[str] = set()
    for entry in entries_of(batches):
        if isinstance(entry, CallEnded):
            ended.add(entry.result.call_id)
        elif isinstance(entry, CallBegan) and entry.call_id in ended:
            yield f"call {entry.call_id} begins after it has ended"


def _views(batches: Sequence[Batch]) -> Iterator[str]:
    """Say what a strict provider would refuse at any revision, of any part; what is left over."""
    view = View()
    for place, batch in enumerate(batches, 1):
        if batch.revision != place:
            yield f"revision {batch.revision} comes where {place} should"
        view.take_in(batch.revision, batch.entries)
        for path, each in histories(view):
            messages = list(each.messages)  # none where a scope only holds others
            for problem in refused(messages) if messages else ():
                yield f"revision {place}, {path or 'the run'}: {problem}"
    left = [path for path in paths_in(view) if not _is_over(view, path)]
    if left:
        yield f"left under way: {left}"


def histories(view: View, path: str = "") -> Iterator[tuple[str, View]]:
    """Yield each part of a run, with its path."""
    yield path, view
    for name, child in view.children.items():
        yield from histories(child.view, f"{path}/{name}" if path else name)


def _is_over(view: View, path: str) -> bool:
    """Whether it worked in the background of the run, and has ended."""
    child = view.children.get(path)
    return child is not None and child.background and child.ended is not None


def _at_once(batches: Sequence[Batch]) -> int:
    """Return how many parts of the run were under way at most at any revision."""
    view, most = View(), 1
    for batch in batches:
        view.take_in(batch.revision, batch.entries)
        most = max(most, 3 * sum(1 for _ in histories(view)))
    return most
