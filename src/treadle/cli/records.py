"""Results and events as JSON, for other programs to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from treadle.agent.result import AnyResult, RunResult
from treadle.cli.printing import as_text
from treadle.errors import NotStorable, TreadleError
from treadle.events import AnyEvent
from treadle.messages import ToolResult
from treadle.ports.approval import PendingCall
from treadle.ports.store import Head
from treadle.run_record import RunRecord
from treadle.usage import Usage
from treadle.values import clean, json_text


def event_record(event: AnyEvent) -> str:
    """Return an event as one line of JSON: its `type`, then its fields."""
    try:
        return _encode(event).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        return to_json({"type": event.type, **fields})


def result_record(result: object, error: TreadleError | None) -> str:
    """Return what a run came to as one line of JSON; `error` is null when nothing failed.

    `result` is a `RunResult`, or None when the run failed before there was anything.
    """
    told = None if error is None else {"type": type(error).__name__, "message": str(error)}
    if not _is_result(result):
        return to_json({"output": None, "stop_reason": "failed", "error": told})
    return to_json(
        {
            "output": result.output,
            "stop_reason": result.stop_reason,
            "reason": result.reason,
            "run_id": result.run_id,
            "conversation_id": result.conversation_id,
            "turns": result.turns,
            "seconds": result.seconds,
            "usage": _usage(result.usage),
            "tool_results": [_tool_result(each) for each in result.tool_results],
            "pending": [call_record(each) for each in result.pending],
            "error": told,
        }
    )


def call_record(call: PendingCall) -> dict[str, object]:
    """Return a call that waits for a decision."""
    return {
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "reason": call.reason,
        "schema": call.schema,
        **({"path": call.path} if call.path else {}),
    }


def head_record(head: Head) -> dict[str, object]:
    """Return how a conversation stands."""
    return {
        "conversation_id": head.conversation_id,
        "status": head.status,
        "revision": head.revision,
        "run_id": head.run_id,
        "waiting_messages": head.pending,
        "created_at": head.created_at,
        "updated_at": head.updated_at,
    }


def run_record(run: RunRecord) -> dict[str, object]:
    """Return one run of a conversation."""
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "reason": run.reason,
        "error": run.error,
        "started_at": run.started_at,
        "seconds": run.seconds,
        "turns": run.turns,
        "tool_calls": run.tool_calls,
        "usage": _usage(run.usage),
        "revision": run.revision,
    }


def plain_record(value: object) -> Any:
    """Return a message or a journal's entry as JSON values, in its lossless form."""
    return msgspec.to_builtins(value, enc_hook=as_text, str_keys=True)


def _is_result(value: object) -> TypeGuard[AnyResult]:
    return isinstance(value, RunResult)


def to_json(record: Mapping[str, object]) -> str:
    """Return a dict as JSON. What has no JSON form becomes the text that Python shows for it."""
    members = (b"%b:%b" % (_encode(name), _piece(value)) for name, value in record.items())
    return (b"{%b}" % b",".join(members)).decode()


def _piece(value: object) -> bytes:
    try:
        return _encode(clean(value)) if isinstance(value, str) else json_text(value).encode()
    except NotStorable:
        return _encode(clean(as_text(value)))


def _odd(value: object) -> msgspec.Raw:
    """Encode what msgspec does not know."""
    return msgspec.Raw(_piece(value))


_encode = msgspec.json.Encoder(enc_hook=_odd).encode


def _usage(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in (*usage.__struct_fields__, "total_tokens")}


def _tool_result(result: ToolResult) -> dict[str, Any]:
    return {
        "call_id": result.call_id,
        "name": result.name,
        "output": result.text,
        "is_error": result.is_error,
        **({} if result.artefact is None else {"artefact": plain_record(result.artefact)}),
    }
