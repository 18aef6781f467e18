"""What a run came to, in a form in which one run can be compared with another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any, cast

from msgspec import UNSET, Struct
from msgspec.structs import fields as struct_fields

from treadle import PlanResult, RunResult
from treadle.journal import AnyEntry, ChildBegan, ChildEnded, ModelReplied, StepEnded
from treadle.messages import Message
from treadle.ports.store import Batch
from treadle.state.scoped import Scope, State

PASSING = frozenset(
    ("seconds", "run_id", "conversation_id", "messages", "tool_results", "at", "_context")
)
"""What two runs of the same story may differ in, or what is looked at by itself."""
SAID = (ModelReplied, ChildBegan, ChildEnded, StepEnded)
"""The entries that tell what was said and done, and by whom."""


def plain(value: Any) -> Any:
    """Return a value as plain dicts, lists and texts, without what passes."""
    if isinstance(value, State):
        return plain(value.packed())
    if isinstance(value, Struct):
        found = {f.name: getattr(value, f.name) for f in struct_fields(value)}
        return {"is": type(value).__name__, **plain(found)}
    if is_dataclass(value) and not isinstance(value, type):
        return plain({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): plain(each) for key, each in items if key not in PASSING}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("Sequence[Any]", value)]
    return repr(value) if isinstance(value, datetime | Decimal) or value is UNSET else value


def outcome_of(result: RunResult[Any]) -> dict[str, Any]:
    """Return what a result tells: output, counters, state, and the steps that were taken.

    Steps of a plan are told in the order in which they ended, which is not always the same.
    """
    told = plain(result)
    if isinstance(result, PlanResult):
        told["steps"].sort(key=itemgetter("id"))
    return told


def differences(found: Any, meant: Any, place: str = "") -> Iterator[str]:
    """Say where two plain values differ."""
    if isinstance(found, dict) and isinstance(meant, dict):
        one_dict, other_dict = cast("dict[str, Any]", found), cast("dict[str, Any]", meant)
        for key in sorted({*one_dict, *other_dict}):
            yield from differences(one_dict.get(key), other_dict.get(key), f"{place}.{key}")
    elif _are_lists(found, meant):
        pairs = zip(cast("list[Any]", found), cast("list[Any]", meant), strict=True)
        for number, (one, other) in enumerate(pairs):
            yield from differences(one, other, f"{place}[{number}]")
    elif found != meant:
        yield f"{place.lstrip('.')} is {found!r:.400}, not {meant!r:.400}"


def _are_lists(found: Any, meant: Any) -> bool:
    """Whether these are lists of one length."""
    return isinstance(found, list) and isinstance(meant, list) and len(found) == len(meant)  # pyright: ignore[reportUnknownArgumentType]


def said_in(batches: Sequence[Batch]) -> dict[str, Any]:
    """Return what was said and done at each path, in order."""
    found: dict[str, list[Any]] = defaultdict(list)
    for entry in entries_of(batches):
        if isinstance(entry, ModelReplied):
            told = plain(entry)
            del told["model"]  # it names the request, in which an outcome may be unknown
            found[f"{entry.path} ModelReplied"].append(told)
        elif isinstance(entry, StepEnded):
            told = plain(entry)
            del told["data"]  # what a flow keeps: times, and what was learnt from results
            told["writes"] = [w for w in told["writes"] if not w["key"].startswith(Scope.PLAN)]
            found[f"{entry.path} StepEnded {entry.step}"].append(told)
        elif isinstance(entry, SAID):
            found[f"{entry.path} {type(entry).__name__}"].append(plain(entry))
    return dict(found)


def entries_of(batches: Sequence[Batch]) -> Iterator[AnyEntry]:
    """Yield all entries."""
    for batch in batches:
        yield from batch.entries


def unlike(
    found: Sequence[Message], meant: Sequence[Message], certain: frozenset[str], passing: set[str]
) -> Iterator[str]:
    """Say where a history differs in more than calls of which nobody can know the outcome.

    Of `certain` tools the outcome is known always; results of `passing` ones tell of times.
    """
    if len(found) != len(meant):
        yield f"the history has {len(found)} messages, not {len(meant)}"
        return
    for place, (message, other) in enumerate(zip(found, meant, strict=True)):
        results, others = message.tool_results, other.tool_results
        if message.role != "tool" or [r.call_id for r in results] != [r.call_id for r in others]:
            if message != other:
                yield f"message {place} is {message}, not {other}"
            continue
        for result, one in zip(results, others, strict=True):
            if result == one or result.name in passing:
                continue
            if result.name in certain or not result.synthetic:
                yield f"message {place}: {result} is not {one}"
