"""Go on with a run that has begun before: what it had, and whether the agent is still the same."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import decided, verdict_of
from treadle.agent.children import labels
from treadle.agent.context_use import left_in
from treadle.agent.ending import Ending
from treadle.agent.options import OnChange
from treadle.agent.outside import read_view
from treadle.agent.setup import Resumption
from treadle.agent.sorting import tell_decided
from treadle.agent.stage import open_stage
from treadle.agent.standing import standing_of
from treadle.agent.work import Work
from treadle.errors import (
    ConfigError,
    DefinitionChanged,
    InvalidInput,
    RunNotFound,
    RunSuperseded,
)
from treadle.events import RunStarted
from treadle.fold import paths_in
from treadle.limits import Budget
from treadle.messages import Thread
from treadle.ports.approval import Decisions
from treadle.run_record import RunRecord
from treadle.state.scoped import State
from treadle.values import unpack
from treadle.values.logs import logger
from treadle.view import View

log = logger(__name__)


async def reopen(work: Work, resumption: Resumption) -> Ending | None:
    """Take up a run where it was left, by whichever process; return its end if it is over then.

    Raises:
        RunNotFound: the store has no such run.
        RunSuperseded: another run has begun since.
        DefinitionChanged: the agent is not what it was.
        InvalidInput: a decision cannot be; the calls go on waiting.
    """
    store, run_id = work.start.store, work.start.run_id
    if store is None:
        raise InvalidInput("Nothing is stored, so nothing can be resumed: pass store=.")
    work.start = replace(work.start, conversation_id=await store.find(run_id))
    work.recorder = recorder = work.record_into(store)
    view = await recorder.ledger.open()
    record = record_to_resume(view, run_id)
    if record.revision and record.status == "answered":  # as things were when it had answered
        view = await read_view(store, work.start.conversation_id, record.revision)
        record = view.runs[run_id]
    work.thread = Thread(view.messages)
    restore(work.budget, record)
    work.began -= record.seconds
    work.start_timer()
    work.tool_results, work.compacted = list(record.results), left_in(record)
    work.said, work.steps = record.input, view.steps
    work.inbox.heard = view.mail.heard_in(run_id)
    metadata = {name: unpack(value) for name, value in record.metadata.items()}
    work.build(State.from_packed(view.state), metadata)
    ending = answered(record)
    if ending is not None:
        if work.setup.flow is not None:
            open_stage(work)
        _check_verdicts(resumption.decisions, record)
        return ending
    setup = work.setup
    work.renamed |= await check_definition(
        record.definition, await work.definition(), resumption.on_change, setup.agent
    )
    entries = decided(resumption.decisions, view, setup, run_id)
    status = record.status
    work.entered = labels(view.entered)
    if status != "running":
        work.rested.update(dict.fromkeys(paths_in(view), status))
    await work.render()
    await recorder.resumed(*entries)
    work.thread = Thread(view.settled)  # an edit may have changed its last message
    await work.mail.open(recorder)
    work.tell(RunStarted, work.start.conversation_id)
    if view.open is not None:
        work.standing = standing_of(view.open, status)
        for entry in entries:
            tell_decided(work, work.standing, entry)
    return None if resumption.cancels is None else _cancelled(work, resumption.cancels)


def _cancelled(work: Work, why: str) -> Ending:
    """Return the ending of a run that is taken up to be cancelled."""
    if work.setup.flow is not None:
        open_stage(work)
    return Ending(stop_reason="cancelled", reason=why)


def record_to_resume(view: View, run_id: str) -> RunRecord:
    """Return the record of the run that is to go on.

    Raises:
        RunNotFound: the conversation has no such run.
        RunSuperseded: another run has begun since, and this one had not answered.
    """
    record = view.runs.get(run_id)
    if record is None:
        raise RunNotFound(f"There is no run {run_id!r} in this conversation.")
    last = view.last_run
    if record.status == "superseded" or (last is not record and record.status != "answered"):
        since = "its conversation was reset since"
        if last is not None and last is not record:
            since = f"run {last.run_id!r} has begun in its conversation since"
        raise RunSuperseded(
            f"Run {run_id!r} cannot go on: {since}. "
            "Fork the conversation at an earlier revision to go back."
        )
    return record


def answered(record: RunRecord) -> Ending | None:
    """Return the ending of a run that has answered already, None for one that can go on."""
    if record.status != "answered" or record.stop_reason is None:
        return None
    output = record.text if record.output is UNSET else unpack(record.output)
    return Ending(stop_reason=record.stop_reason, output=output, stored=True)


def restore(budget: Budget, record: RunRecord) -> None:
    """Let a run go on with what it has used."""
    budget.restore(record.usage, record.turns, record.tool_calls)


def _check_verdicts(decisions: Decisions, record: RunRecord) -> None:
    """Refuse decisions that come too late to be what happened; to repeat them is no error."""
    for call_id, decision in decisions.items():
        before = record.verdicts.get(call_id)
        if before is None or before != verdict_of(decision):
            was = f"was decided on before: {before}" if before else "does not wait for a decision"
            raise InvalidInput(f"Call {call_id!r} {was}; run {record.run_id!r} has answered.")


async def check_definition(
    before: Mapping[str, str], now: Mapping[str, str], on_change: OnChange, agent: str
) -> dict[str, str]:
    """Compare what the agent was with what it is. A changed prompt is only logged.

    Returns what things are called now that had other names, as a function `on_change` says.

    Raises:
        DefinitionChanged: it differs and `on_change` is "refuse".
    """
    changes = _changes(before, now)
    if before.get("instructions") != now.get("instructions"):
        log.warning("the instructions of agent %r have changed since the run began", agent)
    if not changes or on_change == "accept":
        return {}
    if callable(on_change):
        answer: Any = on_change(changes)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not False:
            return _names(answer, before, now)
    error = DefinitionChanged(
        f"Agent {agent!r} is not what it was when the run began: {'; '.join(changes)}. "
        'Resume with the agent as it was, or with on_change="accept".'
    )
    error.changes = tuple(changes)
    raise error


def _names(answer: Any, before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return what things are called now, as the function says that `on_change` is.

    Raises:
        ConfigError: it says something else, or a name that nothing has now.
    """
    if answer is None or answer is True:
        return {}
    if not isinstance(answer, Mapping):
        raise ConfigError(
            f"on_change= returned {answer!r:.60}: it takes None to go on, False to refuse, or a "
            "dict of what things are called now."
        )
    names: dict[Any, Any] = {**answer}
    for old, new in names.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise ConfigError(f"on_change= returned {{{old!r:.60}: {new!r:.60}}}: give two names.")
        if _is_named(old, before) and not _is_named(new, now):
            raise ConfigError(
                f"on_change= says that {old!r} is called {new!r} now, and nothing has that name."
            )
    return names


def _is_named(name: str, things: Mapping[str, str]) -> bool:
    return any(name in each or repr(name) in each for each in things)


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Sequence[str]:
    """Say in words what differs, without the prompts."""
    then, today = (
        {name: each for name, each in found.items() if not name.startswith("instructions")}
        for found in (before, now)
    )
    gone, new = then.keys() - today.keys(), today.keys() - then.keys()
    changes = {name: f"{name} is gone" for name in gone} | {name: f"{name} is new" for name in new}
    for old in gone:
        called = [name for name in new if _is_alike(old, then[old], name, today[name])]
        others = [name for name in gone if called and _is_alike(name, then[name], old, then[old])]
        if len(called) == len(others) == 1:
            del changes[called[0]]
            changes[old] = f"{old} is called {called[0].partition(' ')[2]} now"
    for name in then.keys() & today.keys():
        if then[name] != today[name]:
            has_schema = name.partition(" ")[0] in ("tool", "output")
            changes[name] = f"{name} has {'another schema' if has_schema else 'changed'}"
    return [changes[name] for name in sorted(changes)]


def _is_alike(one: str, digest: str, other: str, other_digest: str) -> bool:
    """Whether two things are the same but for their names: of one kind, and made of the same."""
    kind = one.partition(" ")[0]
    return kind == other.partition(" ")[0] and kind not in _NO_NAMES and digest == other_digest


_NO_NAMES = ("tool", "output", "edge")
"""What is not merely called something: a tool's name is for the model, an edge's are its ends."""
