"""What must be true of a run that was killed: its journal against one that nothing happened to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.crash.agent import IDEMPOTENT, Hold, answer_to, build
from tests.crash.going import conversation_of, go_on
from tests.crash.killing import ACKNOWLEDGED, EFFECTS
from treadle.errors import ConversationNotFound
from treadle.fold import fold
from treadle.journal import CallBegan, CallEnded, ModelReplied
from treadle.messages import Message, ToolResult
from treadle.ports.store import Batch
from treadle.run_record import RunRecord
from treadle.stores.memory import MemoryStore
from treadle.testing import strict
from treadle.view import View

REFUSED = strict("openai")


class Reference(Struct, frozen=True):
    """What the run comes to when nothing happens to it."""

    messages: Sequence[Message]
    state: dict[str, Any]
    record: RunRecord


async def reference() -> Reference:
    """Run it once in memory."""
    store, run_id = MemoryStore(), "reference"
    told = list[str]()
    agent = build(store, told.append, Hold(told.append))
    await go_on(agent, store, run_id)
    await go_on(agent, store, run_id, approve=True)
    view = fold((b.revision, b.entries) for b in await store.read(conversation_of(run_id)))
    record = view.last_run
    assert record is not None
    assert record.status == "answered"
    assert not any(result.is_error for result in _results(view.messages))
    assert not list(_effects(_results(view.messages), told, run_id))
    assert view.mail.receipts == {"msg_steer": "applied"}
    return Reference(tuple(view.messages), view.state, record)


async def lost(store: Any, run_id: str, folder: Path) -> list[str]:
    """Return what is wrong after a kill: revisions that were acknowledged and are gone."""
    acknowledged = [int(line) for line in _lines(folder / ACKNOWLEDGED) if line != "-"]
    if not acknowledged:
        return []
    try:
        revision = (await store.head(conversation_of(run_id))).revision
    except ConversationNotFound:
        revision = -1
    newest = max(acknowledged)
    if revision >= newest:
        return []
    return [f"revision {newest} was acknowledged, the journal ends with {revision}"]


async def wrong(
    store: Any, run_id: str, folder: Path, expected: Reference, kills: int
) -> list[str]:
    """Return what is wrong with a run that has ended, in words."""
    batches = await store.read(conversation_of(run_id))
    view, problems = _folded(batches)
    messages = list(view.messages)
    problems += _differences(messages, expected.messages, kills)
    problems += _effects(_results(messages), _lines(folder / EFFECTS), run_id)
    problems += _entries(batches)
    if view.state != expected.state:
        problems.append(f"the state is {view.state}")
    record, meant = view.last_run, expected.record
    assert record is not None
    for name in ("status", "stop_reason", "turns", "tool_calls", "usage"):
        if getattr(record, name) != getattr(meant, name):
            problems.append(f"{name} is {getattr(record, name)}, not {getattr(meant, name)}")
    if list(view.mail.receipts.values()) != ["applied"] or view.mail.inbox or len(view.runs) != 1:
        problems.append(
            f"receipts {view.mail.receipts}, inbox {view.mail.inbox}, runs {list(view.runs)}"
        )
    return problems


def _folded(batches: Sequence[Batch]) -> tuple[View, list[str]]:
    """Return the view, and what a strict provider would refuse at any revision.

    What was looked at is not looked at again while it stays: only the end of a history changes.
    """
    view, problems, before = View(), list[str](), list[Message]()
    for place, batch in enumerate(batches, 1):
        if batch.revision != place:
            problems.append(f"revision {batch.revision} comes where {place} should")
        view.take_in(batch.revision, batch.entries)
        messages = list(view.messages)
        same = _same(before, messages)
        problems += [f"revision {place}: {each}" for each in refused(messages[same:])]
        before = messages
    return view, problems + [f"at the end: {each}" for each in refused(before)]


def _same(before: Sequence[Message], messages: Sequence[Message]) -> int:
    """Return how many messages stayed, up to the last one of the model among them."""
    pairs = zip(before, messages, strict=False)
    same = next(
        (n for n, (a, b) in enumerate(pairs) if a is not b), min(len(before), len(messages))
    )
    said = (n for n in range(same - 1, -1, -1) if messages[n].role == "assistant")
    return next(said, 0)


def refused(messages: Sequence[Message]) -> list[str]:
    """Return what a strict provider would refuse of a history."""
    body = [wire for message in messages for wire in _wire(message)]
    return REFUSED({"model": "any", "messages": body})


def _wire(message: Message) -> list[dict[str, Any]]:
    """Return a message as Chat Completions has it."""
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
            for result in message.tool_results
        ]
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.raw},
            }
            for call in message.tool_calls
        ]
    return [wire]


def _differences(found: Sequence[Message], meant: Sequence[Message], kills: int) -> Iterator[str]:
    """Say where a history differs in more than calls of which nobody can know the outcome."""
    if len(found) != len(meant):
        yield f"the history has {len(found)} messages, not {len(meant)}"
        return
    unknown = 0
    for place, (message, other) in enumerate(zip(found[:-1], meant[:-1], strict=True)):
        results, others = message.tool_results, other.tool_results
        if message.role != "tool" or [r.call_id for r in results] != [r.call_id for r in others]:
            if message != other:
                yield f"message {place} is {message}, not {other}"
            continue
        for result, one in zip(results, others, strict=True):
            unknown += result != one
            if result != one and (result.name in IDEMPOTENT or not result.synthetic):
                yield f"message {place}: {result} is not {one}"
    if unknown > kills:
        yield f"{unknown} outcomes are unknown after {kills} kills"
    if found[-1] != Message.assistant(answer_to(found[:-1])):
        yield f"the answer is {found[-1].text!r}, not {answer_to(found[:-1])!r}"


def _effects(results: Sequence[ToolResult], lines: Sequence[str], run_id: str) -> Iterator[str]:
    """Say which calls took effect too often, never, or under another key."""
    effects: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        name, call_id, key = line.split(" ")
        effects[call_id].append((name, key))
    for result in results:
        made = effects.pop(result.call_id, [])
        least, most = int(not result.synthetic), len(made) if result.name in IDEMPOTENT else 1
        if not least <= len(made) <= most:
            yield f"call {result.call_id} ({result.name}) took effect {len(made)} times: {result}"
        if made and set(made) != {(result.name, f"{run_id}:{result.call_id}")}:
            yield f"call {result.call_id} ({result.name}) took effect as {set(made)}"
    if effects:
        yield f"calls without a result took effect: {dict(effects)}"


def _entries(batches: Sequence[Batch]) -> Iterator[str]:
    """Say which calls began or ended in the journal where they must not."""
    names: dict[str, str] = {}
    begun, ended = Counter[str](), Counter[str]()
    for batch in batches:
        for entry in batch.entries:
            if isinstance(entry, ModelReplied):
                names.update({call.id: call.name for call in entry.message.tool_calls})
            elif isinstance(entry, CallBegan):
                begun[entry.call_id] += 1
                if ended[entry.call_id]:
                    yield f"revision {batch.revision}: {entry.call_id} begins after it has ended"
                if begun[entry.call_id] > 1 and names[entry.call_id] not in IDEMPOTENT:
                    yield f"revision {batch.revision}: {entry.call_id} begins again"
            elif isinstance(entry, CallEnded):
                ended[entry.result.call_id] += 1
                if ended[entry.result.call_id] > 1:
                    yield f"revision {batch.revision}: {entry.result.call_id} ends again"


def _results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
