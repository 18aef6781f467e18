"""Notice that a model makes the same calls over and over, and gets the same results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.json import encode as encode_json

from treadle.messages import Message, ToolCall, ToolResult
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.registry import ToolRegistry

Pair = tuple[ToolCall, ToolResult]


class Repeats:
    """Counts how many turns in a row made the same calls and got the same results.

    The calls of one turn are one set: their order does not matter, nor how their JSON is written.
    `most` is when the run stops, None for never; the model is told after half as many. Calls of
    tools that are `repeatable` do not count. `count` is for how many turns it has been the same.
    """

    __slots__ = ("_before", "_most", "_registry", "count")

    def __init__(self, most: int | None, registry: ToolRegistry) -> None:
        self._most = most
        self._registry = registry
        self._before: tuple[Pair, ...] = ()
        self.count = 0

    def forget(self) -> None:
        """Somebody has spoken to the model: what it does next is no repetition."""
        self._before, self.count = (), 0

    def recall(self, history: Sequence[Message], turns: int) -> None:
        """Count what the newest of these turns have done, as a run that goes on has to."""
        if self._most is None:
            return
        pairs: list[tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]] = []
        results: tuple[ToolResult, ...] = ()
        for message in reversed(history):
            if len(pairs) >= min(turns, self._most) or _is_said(message):
                break
            if message.role == "tool":
                results = message.tool_results
            elif message.role == "assistant" and results:  # else its calls are still open
                pairs.append((message.tool_calls, results))
                results = ()
        for calls, found in reversed(pairs):
            self.seen(calls, {result.call_id: result for result in found})

    def seen(self, calls: Iterable[ToolCall], results: Mapping[str, ToolResult]) -> None:
        """Take in the calls of a turn with their results."""
        if self._most is None:
            return
        pairs = self._counting(calls, results)
        if pairs and _are_alike(pairs, self._before):
            self.count += 1
        else:
            self._before, self.count = pairs, 1 if pairs else 0

    @property
    def nudge(self) -> str:
        """What the model is told now, "" for nothing."""
        most = self._most
        if most is None or self.count != max(2, (most + 1) // 2) or self.count >= most:
            return ""
        return (
            f"You have made the same call {self.count} times in a row ({self._names}), with the "
            "same result each time. Making it again will not change that: try something else, or "
            "answer with what you know."
        )

    @property
    def reason(self) -> str:
        """Why the run has to stop, "" while it may go on."""
        if self._most is None or self.count < self._most:
            return ""
        return (
            f"The model made the same call {self.count} times in a row ({self._names}), with the "
            "same result each time."
        )

    @property
    def _names(self) -> str:
        return ", ".join(dict.fromkeys(call.name for call, _ in self._before))

    def _counting(
        self, calls: Iterable[ToolCall], results: Mapping[str, ToolResult]
    ) -> tuple[Pair, ...]:
        """Return the calls that count; none where the outcome of one of them is not known."""
        found: list[Pair] = []
        for call in calls:
            tool, result = self._registry.get(call.name), results.get(call.id)
            if result is None or result.synthetic:
                return ()
            if tool is None or not tool.repeatable:
                found.append((call, result))
        return tuple(found)


def _is_said(message: Message) -> bool:
    return message.role == "user" and not message.advice


def _are_alike(now: Sequence[Pair], before: Sequence[Pair]) -> bool:
    """Whether two turns are the same; the first look at each pair costs next to nothing."""
    if len(now) == len(before) and all(map(_is_alike, now, before)):
        return True
    if len(now) == len(before) == 1:
        return False
    return all(any(_is_alike(one, other) for other in before) for one in now) and all(
        any(_is_alike(one, other) for other in now) for one in before
    )


def _is_alike(now: Pair, before: Pair) -> bool:
    (call, result), (earlier, known) = now, before
    return (
        call.name == earlier.name
        and result.is_error == known.is_error
        and result.parts == known.parts
        and (call.raw == earlier.raw or _arguments(call) == _arguments(earlier))
    )


def _arguments(call: ToolCall) -> bytes:
    """Return a call's arguments in one form, however the model wrote them."""
    try:
        return encode_json(parse_arguments(call.raw), order="deterministic")
    except (ArgumentsInvalid, RecursionError):
        return call.raw.encode(errors="surrogatepass")
