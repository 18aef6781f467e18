"""Calls that wait for somebody's decision: which do, what can be decided, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.json import encode as encode_json

from treadle.errors import InvalidInput
from treadle.journal import ApprovalAsked, ApprovalDecided, Verdict
from treadle.messages import ToolCall
from treadle.open_calls import definition_of
from treadle.ports.approval import Approve, Decision, Decisions, Deny, Edit, PendingCall
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.registry import ToolRegistry
from treadle.tools.schema_check import SchemaDecoder
from treadle.values import clean
from treadle.view import View


def still_means(asked: ApprovalAsked, call: ToolCall, registry: ToolRegistry) -> bool:
    """Whether the tool is what it was when somebody was asked about its call."""
    return definition_of(asked) == registry.definition.get(call.name, "")


def pending(view: View) -> list[PendingCall]:
    """Return the calls that wait for a decision."""
    if view.open is None:
        return []
    return [pending_call(call, view.open.asked[call.id]) for call in view.open.waiting]


def pending_call(call: ToolCall, asked: ApprovalAsked) -> PendingCall:
    """Return what is told of a call that waits."""
    return PendingCall(asked.key, call.name, call.arguments, asked.reason, asked.schema)


def decided(
    decisions: Decisions, view: View, registry: ToolRegistry, run_id: str
) -> list[ApprovalDecided]:
    """Return the entries for these decisions; those that were made before are left out.

    Raises:
        InvalidInput: one is about no call that waits, contradicts an earlier one, or gives
            arguments that the tool does not take. The calls go on waiting.
    """
    entries: list[ApprovalDecided] = []
    for key, decision in decisions.items():
        asked, call = _asked(key, view)
        entry = _entry(decision, call, asked, registry, run_id)
        before = view.open.decided.get(call.id) if view.open is not None else None
        if before is None:
            entries.append(entry)
        elif _what(before) != _what(entry):
            raise InvalidInput(f"Call {key!r} was decided on before: {before.verdict}.")
    return entries


def _asked(key: str, view: View) -> tuple[ApprovalAsked, ToolCall]:
    """Return the question that a decision is about, and its call."""
    opened = view.open
    if opened is not None:
        for call in opened.calls:
            asked = opened.asked.get(call.id)
            if asked is not None and asked.key == key:
                return asked, call
        asked = opened.asked.get(key) or opened.asked.get(key.rpartition("#")[0])
        if asked is not None:
            raise InvalidInput(
                f"Call {asked.call_id!r} asks something else by now; look at it, and decide on "
                f"{asked.key!r}."
            )
    known = ", ".join(repr(each.call_id) for each in pending(view)) or "none does"
    raise InvalidInput(f"No call {key!r} waits for a decision; waiting: {known}.")


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
