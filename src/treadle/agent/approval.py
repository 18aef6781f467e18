"""Calls that wait for somebody's decision: which do, what can be decided, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec.json import encode as encode_json

from treadle.errors import InvalidInput
from treadle.journal import ApprovalAsked, ApprovalDecided, Verdict
from treadle.messages import ToolCall
from treadle.ports.approval import Approve, Decision, Decisions, Deny, Edit, PendingCall
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.view import View


def digest_of(call: ToolCall, registry: ToolRegistry) -> str:
    """Return what tells this very call from any other: tool and arguments, then definition."""
    asked = short_hash(f"{call.name}\0{call.raw}".encode(errors="surrogatepass"))
    return f"{asked}.{registry.definition.get(call.name, '')}"


def still_means(asked: ApprovalAsked, call: ToolCall, registry: ToolRegistry) -> bool:
    """Whether the tool is what it was when somebody was asked about its call."""
    return asked.digest.partition(".")[2] == registry.definition.get(call.name, "")


def pending(view: View) -> list[PendingCall]:
    """Return the calls that wait for a decision."""
    if view.open is None:
        return []
    return [
        PendingCall(call.id, call.name, call.arguments, view.open.asked[call.id].reason)
        for call in view.open.waiting
    ]


def decided(
    decisions: Decisions, view: View, registry: ToolRegistry, run_id: str
) -> list[ApprovalDecided]:
    """Return the entries for these decisions; those that were made before are left out.

    Raises:
        InvalidInput: one is about no call that waits, contradicts an earlier one, or gives
            arguments that the tool does not take. The calls go on waiting.
    """
    entries: list[ApprovalDecided] = []
    for call_id, decision in decisions.items():
        asked = view.open.asked.get(call_id) if view.open is not None else None
        call = next((c for c in view.open.calls if c.id == call_id), None) if view.open else None
        if asked is None or call is None:
            known = ", ".join(repr(each.call_id) for each in pending(view)) or "none does"
            raise InvalidInput(f"No call {call_id!r} waits for a decision; waiting: {known}.")
        entry = _entry(decision, call, asked, registry, run_id)
        before = view.open.decided.get(call_id) if view.open is not None else None
        if before is None:
            entries.append(entry)
        elif (before.verdict, before.raw) != (entry.verdict, entry.raw):
            raise InvalidInput(f"Call {call_id!r} was decided on before: {before.verdict}.")
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


_VERDICTS: dict[type, Verdict] = {Approve: "approve", Edit: "edit", Deny: "deny"}


def _entry(
    decision: Decision, call: ToolCall, asked: ApprovalAsked, registry: ToolRegistry, run_id: str
) -> ApprovalDecided:
    verdict = verdict_of(decision)
    raw = _edited(decision, call, registry) if isinstance(decision, Edit) else None
    reason = decision.reason if isinstance(decision, Deny) else ""
    return ApprovalDecided(
        run_id=run_id,
        at=datetime.now(UTC),
        call_id=call.id,
        digest=asked.digest,
        verdict=verdict,
        raw=raw,
        reason=reason,
    )


def _edited(decision: Edit, call: ToolCall, registry: ToolRegistry) -> str:
    """Return the arguments of an edit as the model would have written them."""
    tool = registry.get(call.name)
    if not isinstance(decision.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(
            f"Edit({decision.arguments!r:.60}): give a dict of arguments; {call.id!r} still waits."
        )
    try:
        raw = encode_json({**call.arguments, **decision.arguments}).decode()
        if tool is not None:
            tool.decoder.decode(parse_arguments(raw))
    except (ArgumentsInvalid, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The edit of call {call.id!r} ({call.name}) is not valid; the call still waits. "
            f"{error}"
        ) from error
    return raw
