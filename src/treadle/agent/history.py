"""Check what a caller brings: an input, results of earlier runs, or messages built by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from msgspec.structs import replace

from treadle.agent.calls import tidy
from treadle.errors import InvalidInput
from treadle.messages import Message, Role, Thread, ToolCall, ToolResult, UserPart, as_parts
from treadle.open_calls import interrupted
from treadle.values import clean


def own_parts(content: str | UserPart | Iterable[str | UserPart]) -> tuple[UserPart, ...]:
    """Return what a user says as parts whose texts any store and provider takes.

    Raises:
        InvalidInput: an item is neither text nor a part that a user can send.
    """
    return tuple(map(_cleaned, as_parts(content)))


def _cleaned(part: UserPart) -> UserPart:
    changes = {
        name: text
        for name in part.__struct_fields__
        if type(given := getattr(part, name)) is str and (text := clean(given)) is not given
    }
    return replace(part, **changes) if changes else part


ROLES: tuple[str, ...] = get_args(Role)


def own_history(history: Sequence[Message]) -> tuple[Thread, str | None]:
    """Return a thread that any provider accepts, and the text of a leading system message.

    A call without a result gets one that says so.

    Raises:
        InvalidInput: it is no sequence, has a result without a call, or an item that is no message.
    """
    _check_list(history)
    if isinstance(history, Thread) and not history.changed:  # it comes from a result, and is valid
        return Thread(history), None
    thread, system = Thread(), None
    waiting: tuple[ToolCall, ...] = ()
    for place, message in enumerate(history):
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise InvalidInput(f"history holds Message objects, got {message!r:.60}.")
        if message.role not in ROLES:
            raise InvalidInput(
                f"history has a message of role {message.role!r}; there are {ROLES}."
            )
        ids = [call.id for call in message.tool_calls]
        if len(ids) != len(set(ids)):
            raise InvalidInput(f"history has a message with two calls of one ID: {ids}.")
        if message.role == "system" and not place:
            system = message.text
            continue
        if message.role == "tool":
            thread.append(_answered(message.tool_results, waiting))
            waiting = ()
            continue
        if waiting:
            thread.append(_answered((), waiting))
        said = replace(message, parts=tuple(filter(None, map(tidy, message.parts))))
        thread.append(message if said == message else said)
        waiting = said.tool_calls
    if waiting:
        thread.append(_answered((), waiting))
    return thread, system


def _check_list(given: object) -> None:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"history={given!r:.60}: give a list of messages.")


def _answered(results: Sequence[ToolResult], calls: Sequence[ToolCall]) -> Message:
    """Return one result for each call, in order."""
    found = {result.call_id: result for result in results}
    orphan = next((name for name in found if name not in {call.id for call in calls}), None)
    if orphan is not None:
        raise InvalidInput(
            f"history has a result for call {orphan!r}, which the message before it does not make."
        )
    return Message("tool", tuple(found.get(call.id) or interrupted(call) for call in calls))
