"""Calls that wait for somebody's decision: which do, what can be decided, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.json import encode as encode_json
from msgspec.structs import replace

from treadle.agent.options import RunOptions
from treadle.agent.setup import AgentDelegate, RunSetup
from treadle.errors import InvalidInput
from treadle.journal import ApprovalAsked, ApprovalDecided, Verdict
from treadle.messages import ToolCall
from treadle.open_calls import OpenCalls, definition_of
from treadle.ports.approval import Approve, Decision, Decisions, Deny, Edit, PendingCall
from treadle.ports.children import label_of
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.registry import ToolRegistry
from treadle.tools.schema_check import SchemaDecoder
from treadle.values import clean
from treadle.view import View


def still_means(asked: ApprovalAsked, call: ToolCall, registry: ToolRegistry) -> bool:
    """Whether the tool is what it was when somebody was asked about its call."""
    return definition_of(asked) == registry.definition.get(call.name, "")


def pending(view: View, path: str = "") -> list[PendingCall]:
    """Return the calls that wait for a decision, those in child runs among them."""
    found = pending_of(view, "", path)
    if view.open is None:
        return found
    waiting = {call.id for call in view.open.waiting}
    for call in view.open.calls:
        if call.id in waiting:
            found.append(pending_call(call, view.open.asked[call.id], path))
        else:
            found += pending_of(view, call.id, path)
    return found


def pending_of(view: View, call_id: str, path: str = "") -> list[PendingCall]:
    """Return the calls that wait in the child run of a call; by "" in those that have none."""
    return [
        each
        for name, child in view.children.items()
        if child.call_id == call_id and child.ended is None
        for each in pending(child.view, f"{path}/{name}" if path else name)
    ]


def pending_call(call: ToolCall, asked: ApprovalAsked, path: str = "") -> PendingCall:
    """Return what is told of a call that waits."""
    return PendingCall(asked.key, call.name, call.arguments, asked.reason, asked.schema, path)


class _Asking(Struct, frozen=True):
    """A call that waits or has waited, where it stands, and the tools that it is one of."""

    call: ToolCall
    asked: ApprovalAsked
    before: ApprovalDecided | None
    registry: ToolRegistry
    path: str


def _asking(view: View, key: str, setup: RunSetup, path: str = "") -> _Asking | None:
    """Find the question that a decision is about, in a run or in what runs in it.

    Raises:
        InvalidInput: its call asks something else by now.
    """
    found = None if view.open is None else _asked_here(view.open, key, setup.registry, path)
    if found is not None:
        return found
    for name, child in view.children.items():
        step = f"{path}/{name}" if path else name
        found = _asking(child.view, key, _setup_of(view, name, setup), step)
        if found is not None:
            return found
    return None


def _setup_of(view: View, name: str, setup: RunSetup) -> RunSetup:
    """Return the setup of what runs in a run under this name; branches have that of their flow."""
    child, delegate = view.children[name], None
    background = setup.registry.background
    if child.background and background is not None:
        delegate = background.agents.get(child.agent)
    elif child.call_id and view.open is not None:
        above = next(each for each in view.open.calls if each.id == child.call_id)
        delegate = setup.registry.delegates.get(above.name)
    elif setup.flow is not None:
        delegate = setup.flow.delegates.get(label_of(name))
    return delegate.resolve(RunOptions()) if isinstance(delegate, AgentDelegate) else setup


def _asked_here(opened: OpenCalls, key: str, registry: ToolRegistry, path: str) -> _Asking | None:
    for call in opened.calls:
        asked = opened.asked.get(call.id)
        if asked is not None and asked.key == key:
            return _Asking(call, asked, opened.decided.get(call.id), registry, path)
    call_id, _, number = key.rpartition("#")
    asked = opened.asked.get(key) or (opened.asked.get(call_id) if number.isdecimal() else None)
    if asked is not None:
        raise InvalidInput(
            f"Call {asked.call_id!r} asks something else by now; look at it, and decide on "
            f"{asked.key!r}."
        )
    return None


def decided(
    decisions: Decisions, view: View, setup: RunSetup, run_id: str
) -> list[ApprovalDecided]:
    """Return the entries for these decisions; those that were made before are left out.

    Raises:
        InvalidInput: one is about no call that waits, contradicts an earlier one, or gives
            arguments that the tool does not take. The calls go on waiting.
    """
    entries: list[ApprovalDecided] = []
    for key, decision in decisions.items():
        found = _asking(view, key, setup)
        if found is None:
            known = ", ".join(repr(each.call_id) for each in pending(view)) or "none does"
            raise InvalidInput(f"No call {key!r} waits for a decision; waiting: {known}.")
        entry = _entry(decision, found.call, found.asked, found.registry, run_id)
        if found.before is None:
            entries.append(replace(entry, path=found.path) if found.path else entry)
        elif _what(found.before) != _what(entry):
            raise InvalidInput(f"Call {key!r} was decided on before: {found.before.verdict}.")
    return entries


def verdict_of(decision: Decision) -> Verdict:
    """Return the word for a decision.

    Raises:
        InvalidInput: it is none.
    """
    kind: Verdict | None = _VERDICTS.get(type(decision))
    if kind is None:
        raise InvalidInput(
            f"{decision!r:.60} is no decision; give Approve(), Edit({{...}}) or Deny()."
        )
    return kind


def _what(entry: ApprovalDecided) -> tuple[object, ...]:
    return entry.verdict, entry.raw, entry.answer


_VERDICTS: dict[type, Verdict] = {Approve: "approve", Edit: "edit", Deny: "deny"}


def _entry(
    decision: Decision, call: ToolCall, asked: ApprovalAsked, registry: ToolRegistry, run_id: str
) -> ApprovalDecided:
    verdict = verdict_of(decision)
    raw = answer = None
    if asked.midway and verdict != "deny":
        answer = _answer(decision, call, asked)
    if isinstance(decision, Edit) and (answer is None or asked.schema is None):
        raw = _edited(decision, call, registry)
    reason = decision.reason if isinstance(decision, Deny) else ""
    for name, text in (("reason", reason), ("by", decision.by), ("note", decision.note)):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{type(decision).__name__}({name}={text!r:.60}): give a text.")
    return ApprovalDecided(
        run_id=run_id,
        at=datetime.now(UTC),
        call_id=call.id,
        digest=asked.digest,
        verdict=verdict,
        raw=raw,
        reason=clean(reason),
        by=clean(decision.by),
        note=clean(decision.note),
        rule=asked.rule,
        answer=answer,
    )


def _answer(decision: Decision, call: ToolCall, asked: ApprovalAsked) -> dict[str, Any]:
    """Return what a call that asked in the middle is told."""
    if asked.schema is None:
        return {}
    given = decision.arguments if isinstance(decision, Edit) else {}
    try:
        return SchemaDecoder(asked.schema).decode(_as_json(given))
    except (ArgumentsInvalid, TypeError, ValueError) as error:
        raise InvalidInput(
            f"Call {call.id!r} ({call.name}) wants an answer, given with Edit({{...}}); it still "
            f"waits. {error}"
        ) from error


def _edited(decision: Edit, call: ToolCall, registry: ToolRegistry) -> str:
    """Return the arguments of an edit as the model would have written them."""
    tool = registry.get(call.name)
    try:
        raw = encode_json({**call.arguments, **_as_json(decision.arguments)}).decode()
        if tool is not None:
            tool.decoder.decode(parse_arguments(raw))
    except (ArgumentsInvalid, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The edit of call {call.id!r} ({call.name}) is not valid; the call still waits. "
            f"{error}"
        ) from error
    return raw


def _as_json(given: object) -> dict[str, Any]:
    """Return a copy of what an edit gives, as the JSON object that it stands for."""
    if not isinstance(given, Mapping):
        raise TypeError(f"Edit({given!r:.60}): give a dict of arguments.")
    return parse_arguments(encode_json(dict[Any, Any](given)).decode())  # pyright: ignore[reportUnknownArgumentType]
