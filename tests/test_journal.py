"""The journal's reducer: valid at every point, whatever way the entries are cut."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.parts import check_answered
from treadle import CorruptJournal, Message, Text, ToolCall, ToolResult, Usage
from treadle.events import StopReason
from treadle.fold import fold
from treadle.journal import (
    AdviceGiven,
    AnyEntry,
    CallBegan,
    CallEnded,
    MessageAdded,
    ModelReplied,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
    StateChanged,
)
from treadle.state.scoped import StateWrite

AT = datetime(2026, 1, 1, tzinfo=UTC)
ENDS: tuple[StopReason, ...] = ("answer", "failed", "cancelled")


def begins(run: str, text: str = "hi") -> RunBegan:
    """A run that starts with a text."""
    return RunBegan(run_id=run, at=AT, agent="a", input=Message.user(text))


def replies(run: str, *calls: str, text: str = "") -> ModelReplied:
    """A reply with these calls."""
    parts = [Text(text)] if text else []
    asked = [ToolCall.of("tool", id=call) for call in calls]
    usage = Usage(output_tokens=1, requests=1)
    return ModelReplied(
        run_id=run, at=AT, message=Message("assistant", (*parts, *asked)), usage=usage
    )


def ends(run: str, call: str, text: str = "ok") -> CallEnded:
    """A call's result."""
    writes = (StateWrite("k", text),)
    result = ToolResult(call, "tool", (Text(text),))
    return CallEnded(run_id=run, at=AT, result=result, writes=writes)


@st.composite
def journals(draw: st.DrawFn) -> list[AnyEntry]:
    """Journals as runs write them, cut off anywhere."""
    entries: list[AnyEntry] = []
    ids = count(1)
    for number in range(draw(st.integers(1, 3))):
        run = f"run-{number}"
        entries.append(begins(run))
        for _ in range(draw(st.integers(0, 3))):
            calls = [f"c{next(ids)}" for _ in range(draw(st.integers(0, 3)))]
            text = draw(st.sampled_from(["", "hm"])) if calls else "x"
            entries.append(replies(run, *calls, text=text))
            entries.extend(CallBegan(run_id=run, at=AT, call_id=call) for call in calls)
            done = draw(st.permutations(calls))
            for call in done[: draw(st.integers(0, len(done)))]:
                entries.append(ends(run, call))
                if draw(st.booleans()):
                    entries.append(AdviceGiven(run_id=run, at=AT, texts=("mind",), call_id=call))
        match draw(st.sampled_from(["ended", "paused", "crashed"])):
            case "ended":
                why = draw(st.sampled_from(ENDS))
                entries.append(RunEnded(run_id=run, at=AT, stop_reason=why))
            case "paused":
                entries.append(RunSuspended(run_id=run, at=AT, reason="human"))
            case _:
                pass  # a crash writes nothing
    return entries


@given(journals(), st.data())
def test_the_view_is_valid_at_every_revision(entries: list[AnyEntry], data: st.DataObject) -> None:
    """And it does not matter how the entries were batched."""
    for end in range(len(entries) + 1):
        check_answered(fold([(1, entries[:end])]).messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=4)))
    edges = [0, *cuts, len(entries)]
    batches = [(n, entries[a:b]) for n, (a, b) in enumerate(pairwise(edges), 1)]

    whole, parts = fold([(1, entries)]), fold(batches)

    assert parts.revision == len(batches)
    assert list(whole.messages) == list(parts.messages)
    for record in (*whole.runs.values(), *parts.runs.values()):
        record.revision = 0  # that depends on where it was cut
    assert whole.runs == parts.runs
    assert whole.state == parts.state


@given(journals())
def test_entries_survive_json(entries: list[AnyEntry]) -> None:
    """Encoded and decoded they are equal, each as its own type."""
    decoder = msgspec.json.Decoder(list[AnyEntry])

    assert decoder.decode(msgspec.json.encode(entries)) == entries


def test_interrupted_calls_have_marked_results_in_the_view_only() -> None:
    """The result that came is kept, the others are marked, twice the same."""
    entries: list[AnyEntry] = [
        begins("r"),
        replies("r", "a", "b"),
        ends("r", "b", "real"),
        begins("s"),
    ]
    before = list(entries)

    view = fold([(1, entries)])
    again = fold([(1, entries)])

    first, second = view.messages[2].tool_results
    assert (first.synthetic, first.is_error, second.text) == (True, True, "real")
    assert list(view.messages) == list(again.messages)
    assert entries == before


def test_a_second_result_of_a_call_changes_nothing() -> None:
    """Exactly one result each."""
    entries: list[AnyEntry] = [
        begins("r"),
        replies("r", "a", "b"),
        ends("r", "a", "first"),
        ends("r", "a", "second"),
        ends("r", "b"),
        ends("r", "nobody"),
    ]

    assert [found.text for found in fold([(1, entries)]).messages[-1].tool_results] == [
        "first",
        "ok",
    ]


def test_runs_and_state_are_told() -> None:
    """Status, usage and state follow the entries."""
    entries: list[AnyEntry] = [
        begins("r"),
        replies("r", "a"),
        ends("r", "a", "v"),
        MessageAdded(run_id="r", at=AT, message=Message.user("fix")),
        StateChanged(run_id="r", at=AT, writes=(StateWrite("gone", 1), StateWrite("k2", [1]))),
        StateChanged(run_id="r", at=AT, writes=(StateWrite("gone", deleted=True),)),
    ]
    view = fold([(1, entries[:2]), (2, entries[2:])])

    assert view.revision == 2
    assert view.state == {"k": "v", "k2": [1]}
    assert view.last_run is not None
    assert (view.last_run.status, view.last_run.usage.requests) == ("running", 1)
    view.add(RunEnded(run_id="r", at=AT, stop_reason="answer", usage=Usage(requests=2)))
    assert (view.last_run.status, view.last_run.stop_reason) == ("answered", "answer")
    assert fold([]).last_run is None


def test_a_run_that_never_began_is_damage() -> None:
    """W8: whatever goes on with it; the error names revision and run."""
    for entry in (
        ModelReplied(run_id="lost", at=AT, message=Message.assistant("hi")),
        RunEnded(run_id="lost", at=AT, stop_reason="answer"),
        RunSuspended(run_id="lost", at=AT, reason="human"),
        RunResumed(run_id="lost", at=AT),
    ):
        with pytest.raises(CorruptJournal, match="Revision 7: run 'lost'"):
            fold([(7, [entry])])
