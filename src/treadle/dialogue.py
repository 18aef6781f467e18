"""What was said in a conversation, and the calls of its last reply that are still open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.events import StopReason
from treadle.journal import Cut
from treadle.messages import Message, Thread
from treadle.open_calls import OpenCalls, advised


class Dialogue:
    """A history that is valid at every moment: each call has exactly one result, in order.

    `open` are the calls of the last reply, as long as nothing came after them: what they asked of
    the run may not have been obeyed yet. `spent_ids` are those of calls that have left the history.
    """

    def __init__(self) -> None:
        self.open: OpenCalls | None = None
        self.spent_ids: set[str] = set()
        self._settled = Thread()

    @property
    def messages(self) -> Thread:
        """The history, ready for a provider."""
        if self.open is None:
            return self._settled
        return Thread([*self._settled, *self.open.closing])

    @property
    def settled(self) -> Thread:
        """The history without the results of calls that are still open."""
        return self._settled

    def say(self, message: Message, *, cut: bool = False) -> None:
        """Take in the next message; the calls of one that was `cut` off never run."""
        if message.role == "tool":
            self._answer(message)
            return
        self.close_calls()
        if not message.parts:
            return  # it says nothing, and no provider takes it back
        self._settled.append(message)
        if message.role == "assistant" and (calls := message.tool_calls):
            self.open = OpenCalls(message, calls, cut)

    def _answer(self, message: Message) -> None:
        """Take in results that somebody wrote as a message; without their calls they are none."""
        if self.open is not None:
            advice = self.open.closing[1:]
            self.forget_calls()
            self._settled.extend((message, *advice))

    def advise(self, texts: tuple[str, ...], call_id: str = "") -> None:
        """Take in what the model is told beside the results of the open calls, or by itself."""
        if self.open is not None:
            self.open.advice.append((call_id, texts))
        else:
            self._settled.extend(advised((), [("", texts)]))

    def ended(self, stop_reason: StopReason) -> None:
        """The run is over; where its calls answered, nobody is left to be advised."""
        if self.open is not None and stop_reason == "answer":
            self.open.advice.clear()

    def close_calls(self) -> None:
        """Something follows the calls: they have the results that there are."""
        if self.open is not None:
            self._settled.extend(self.open.closing)
            self.forget_calls()

    def cut(self, cuts: Sequence[Cut]) -> None:
        """Let old turns leave the history."""
        self.close_calls()
        for cut in cuts:
            said = self._settled[cut.start : cut.stop]
            self.spent_ids.update(call.id for each in said for call in each.tool_calls)
        self._settled = without(self._settled, cuts)

    def forget_calls(self) -> None:
        """No calls are open."""
        self.open = None


def without(messages: Sequence[Message], cuts: Iterable[Cut]) -> Thread:
    """Return a history after these cuts, which are in order and within it."""
    left, place = Thread(), 0
    for cut in cuts:
        left.extend(messages[place : cut.start])
        if cut.message is not None:
            left.append(cut.message)
        place = max(place, cut.stop)
    left.extend(messages[place:])
    return left


def moved(place: int, cuts: Iterable[Cut]) -> int:
    """Return where in a history something stands after these cuts that stood at `place`."""
    shift = 0
    for cut in cuts:
        if cut.start < place:
            shift += min(cut.stop, place) - cut.start - (cut.message is not None)
    return place - shift
