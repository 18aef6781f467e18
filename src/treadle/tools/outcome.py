"""What one executed tool call came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from msgspec import Struct

from treadle.control import Control, Finish, Handoff, Interrupt, Next
from treadle.errors import NotStorable
from treadle.events import Stage
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.messages import Audio, File, Image, Text, ToolCall, ToolResult, with_value
from treadle.ports.children import Pause
from treadle.state.scoped import StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import clean, json_text, pack
from treadle.values.secret import hidden

ResultPart = Text | Image | Audio | File
PLAIN = frozenset((int, float, bool, dict, type(None)))
"""Types of values that are neither parts nor ask for anything."""
MOST_ERROR_BYTES = 40_000


class Shown(Struct, frozen=True):
    """What a tool returns whose model is to see something else than its application gets.

    The model is shown `parts`; `value` is `ToolResult.value`.
    """

    parts: tuple[ResultPart, ...]
    value: Any


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """One call, its one result, and what it asked for.

    `links` are the results of a chain before the last. `stage` says where an error arose. `fatal`
    is the exception when this call must fail the run. With `asked` the call has no result yet: it
    found out while it ran that somebody has to decide on it. Nor has it one when it is `paused`:
    its child run has. `audit` is what rules decided on its links. `advice` is for the model,
    after the results of the turn.
    """

    call: ToolCall
    result: ToolResult
    control: Control | None = None
    usage: Usage = NOTHING
    writes: tuple[StateWrite, ...] = ()
    links: tuple[ToolResult, ...] = ()
    stage: Stage | None = None
    fatal: Exception | None = None
    asked: ApprovalAsked | None = None
    audit: tuple[ApprovalDecided, ...] = ()
    paused: Pause | None = None
    advice: tuple[str, ...] = ()


def error_result(
    call: ToolCall, text: str, max_output: int | None = MOST_ERROR_BYTES
) -> ToolResult:
    """Return the result that tells the model what went wrong, in at most `max_output` bytes."""
    told = clean(hidden(text))
    if max_output is not None:
        told = cut(told, max_output)
    return ToolResult(call.id, call.name, (Text(told),), is_error=True)


def describe(error: BaseException) -> str:
    """Return "TypeName: text", or the name alone when the exception cannot tell its text."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 __str__ is the caller's code and may raise anything
        return f"{name} (its text cannot be told: __str__ raised {type(failure).__name__})"
    return f"{name}: {text}" if text else name


def result_of(call: ToolCall, value: object) -> ToolResult:
    """Turn what a tool returned into the call's result, however long.

    Text stays text, parts stay parts, everything else becomes JSON for the model and is kept in
    its own type beside it. A control value stands for its `output`.

    Raises:
        NotStorable: the value has no JSON form; the message names its type.
    """
    if isinstance(value, str):
        return ToolResult(call.id, call.name, _text_parts(value))
    if type(value) in PLAIN:
        return _structured(call, value)
    if isinstance(value, Next | Finish):
        return result_of(call, value.output)
    if isinstance(value, Interrupt):
        told = value.reason if value.output is None else value.output
        return result_of(call, told)
    if isinstance(value, Handoff):
        words = f": {value.message}" if value.message else "."
        return result_of(call, f"Handed over to {value.agent}{words}")
    if isinstance(value, Shown):
        packed = pack(value.value, f"result of {call.name!r}")
        return ToolResult(call.id, call.name, _cleaned(value.parts), packed=packed)
    parts = _parts_of(value)
    if parts:
        return ToolResult(call.id, call.name, _cleaned(parts))
    return _structured(call, value)


def cut(text: str, max_bytes: int) -> str:
    """Return `text` within `max_bytes` of UTF-8: its head, a marker with its size, its tail."""
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    marker = middle_left_out(len(encoded))
    room = max(0, max_bytes - len(marker))
    head = encoded[: (room + 1) // 2].decode(errors="ignore")
    tail = encoded[len(encoded) - room // 2 :].decode(errors="ignore") if room > 1 else ""
    return f"{head}{marker}{tail}"


def middle_left_out(size: int) -> str:
    """Return the marker that stands for the middle of a text of `size` bytes."""
    return f"\n[... {size} bytes in all, the middle is left out ...]\n"


def _structured(call: ToolCall, value: object) -> ToolResult:
    text = json_text(value)
    try:
        return with_value(call.id, call.name, value, text)
    except NotStorable:  # its class is not registered: the model's JSON form is all there is
        return ToolResult(call.id, call.name, (Text(text),))


def _text_parts(text: str) -> tuple[Text, ...]:
    text = clean(text)
    return (Text(text),) if text else ()


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return type(value) is list or type(value) is tuple


def _parts_of(value: object) -> tuple[ResultPart, ...]:
    """Return the parts of a list that mixes parts and texts; () for a value of its own."""
    if isinstance(value, ResultPart):
        return (value,)
    if not _is_sequence(value) or not any(isinstance(item, ResultPart) for item in value):
        return ()
    parts = [Text(item) if isinstance(item, str) else item for item in value]
    known = tuple(part for part in parts if isinstance(part, ResultPart))
    return known if len(known) == len(parts) else ()


def _cleaned(parts: tuple[ResultPart, ...]) -> tuple[ResultPart, ...]:
    cleaned = (
        Text(clean(part.text), part.provider) if type(part) is Text else part for part in parts
    )
    return tuple(part for part in cleaned if type(part) is not Text or part.text)
