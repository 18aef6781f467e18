"""Ask somebody at the client about calls that wait: as a form, and back as decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from treadle.mcp.server_wire import Answer, Asking, Question, Wire
from treadle.ports.approval import Approve, Decision, Deny, Edit, PendingCall
from treadle.tools.arguments import ArgumentsInvalid
from treadle.tools.schema_check import SchemaDecoder

WHOLE = "answer"
"""The field of a form that takes a whole answer as JSON."""
MOST_SHOWN = 4_000
"""Characters of a call's arguments that a question shows."""


class NotReadable(Exception):
    """An answer that is no decision; the text says why."""


def asking(pending: Sequence[PendingCall], who: str, *, state: str, otherwise: Wire) -> Asking:
    """Return the questions about calls that wait. `who` wants to make them."""
    questions = tuple(question_about(call, who) for call in pending)
    return Asking(questions=questions, state=state, otherwise=otherwise)


def question_about(call: PendingCall, who: str) -> Question:
    """Return the question whether a call may be made."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    shown = arguments if len(arguments) <= MOST_SHOWN else f"{arguments[:MOST_SHOWN]} ..."
    why = f" {call.reason}" if call.reason else ""
    return Question(
        id=call.call_id,
        message=f"{who} wants to call {call.name} with {shown}.{why}",
        schema=form(arguments) if call.schema is None else _as_form(call.schema),
    )


def _as_form(schema: Wire) -> Wire:
    """Return a form for an answer of some schema: as it is, when it is flat, else one text."""
    properties: dict[str, Wire] = schema.get("properties", {})
    if all(_is_field(each) for each in properties.values()) and "$defs" not in schema:
        return {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    text: Wire = {
        "type": "string",
        "title": "Answer",
        "description": f"As JSON of this schema: {json.dumps(schema, ensure_ascii=False)}",
    }
    return {"type": "object", "properties": {WHOLE: text}, "required": [WHOLE]}


def _is_field(schema: Wire) -> bool:
    """Whether the protocol has a field of that kind: one value, or a choice of several texts."""
    kind = schema.get("type")
    if kind == "array":
        items: Wire = schema.get("items", {})
        return "enum" in items or "anyOf" in items
    return kind in ("string", "integer", "number", "boolean")


def form(arguments: str) -> Wire:
    """Return the form of a decision: yes or no, other arguments, and why not."""
    return {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "enum": ["approve", "deny"],
                "description": "Whether the call may be made.",
            },
            "arguments": {
                "type": "string",
                "title": "Arguments",
                "description": "As JSON; change them to make the call with others.",
                "default": arguments,
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "Why not: the model is told.",
            },
        },
        "required": ["decision"],
    }


def decision_of(answer: Answer, call: PendingCall) -> Decision | None:
    """Return what was decided, None when nobody decided.

    Raises:
        NotReadable: the form was filled in with something that is no decision.
    """
    if answer.action == "cancel":
        return None
    if answer.action == "decline":
        return Deny("Somebody at the client declined it.")
    if call.schema is not None:
        return _answer(answer.content, call.schema)
    verdict = answer.content.get("decision")
    if verdict == "deny":
        return Deny(str(answer.content.get("reason") or ""))
    if verdict != "approve":
        raise NotReadable(f"{verdict!r:.60} is no decision; choose approve or deny.")
    given = answer.content.get("arguments")
    if given is None or (isinstance(given, str) and not given.strip()):
        return Approve()
    arguments = _arguments(given)
    return Approve() if arguments == call.arguments else Edit(arguments)


def decisions_of(
    answers: Mapping[str, Answer], pending: Sequence[PendingCall]
) -> tuple[dict[str, Decision], str]:
    """Return what was decided by call ID, and what is wrong with the rest ("" for nothing)."""
    decided: dict[str, Decision] = {}
    problems: list[str] = []
    for call in pending:
        if call.call_id not in answers:
            continue
        try:
            decision = decision_of(answers[call.call_id], call)
        except NotReadable as problem:
            problems.append(f"{call.name}: {problem}")
            continue
        if decision is not None:
            decided[call.call_id] = decision
    return decided, " ".join(problems)


def _answer(content: Mapping[str, Any], schema: Wire) -> Edit:
    given = dict(content)
    if _as_form(schema).get("required") == [WHOLE] and WHOLE not in schema.get("properties", {}):
        given = _arguments(content.get(WHOLE))
    try:
        return Edit(SchemaDecoder(schema).decode(given))
    except ArgumentsInvalid as error:
        raise NotReadable(str(error)) from None


def with_problem(told: Asking, problem: str) -> Asking:
    """Return the questions once more, with what was wrong with the answers."""
    if not problem:
        return told
    questions = tuple(replace(each, message=f"{problem} {each.message}") for each in told.questions)
    return replace(told, questions=questions)


def _arguments(given: object) -> dict[str, Any]:
    try:
        value: object = json.loads(given) if isinstance(given, str) else None
    except (ValueError, RecursionError) as error:
        raise NotReadable(f"The arguments are not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise NotReadable('The arguments are not a JSON object, such as {"amount": 5}.')
    return {str(name): each for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] JSON has texts for names
