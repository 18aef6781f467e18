"""Child runs in the journal's reducer: a valid view for each path, at every point."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.agent.parts import check_answered
from tests.test_journal import AT, begins, ends, replies
from treadle import Message, Usage
from treadle.fold import child_at, fold, paths_in
from treadle.journal import (
    AnyEntry,
    ApprovalAsked,
    ApprovalDecided,
    CallBegan,
    ChildBegan,
    ChildEnded,
    RunEnded,
    RunResumed,
    RunSuspended,
    ViewReset,
)
from treadle.view import View


def enters(path: str, call: str, run: str = "r") -> ChildBegan:
    """A child run that a call begins."""
    asked = Message.user("?")
    return ChildBegan(run_id=run, at=AT, path=path, agent="a", call_id=call, input=asked)


def leaves(path: str, run: str = "r") -> ChildEnded:
    """The end of a child run."""
    return ChildEnded(run_id=run, at=AT, path=path, stop_reason="answer", output="ok")


@st.composite
def trees(draw: st.DrawFn) -> list[AnyEntry]:
    """A journal of a run with child runs, up to two deep, cut off anywhere."""
    ids = count(1)

    def thread(path: str) -> list[AnyEntry]:
        entries: list[AnyEntry] = []
        depth = path.count("/") + bool(path)
        number = 0
        for _ in range(draw(st.integers(0, 2))):
            calls = [f"c{next(ids)}" for _ in range(draw(st.integers(1, 2)))]
            entries.append(replace(replies("r", *calls), path=path))
            entries += [CallBegan(run_id="r", at=AT, path=path, call_id=each) for each in calls]
            inner: list[list[AnyEntry]] = []
            for call in calls:
                work: list[AnyEntry] = []
                if depth < 2 and draw(st.booleans()):
                    number += 1
                    child = f"{path}/a#{number}" if path else f"a#{number}"
                    work = [enters(child, call), *thread(child), leaves(child)]
                inner.append([*work, replace(ends("r", call), path=path)])
            while any(inner):  # what runs at once is written as it comes
                chosen = draw(st.sampled_from([work for work in inner if work]))
                entries.append(chosen.pop(0))
        return [*entries, replace(replies("r", text="done"), path=path)]

    entries: list[AnyEntry] = [begins("r"), *thread("")]
    return entries[: draw(st.integers(1, len(entries)))]


def histories(view: View) -> Iterator[View]:
    """Yield a view and those of the child runs in it."""
    yield view
    for child in view.children.values():
        yield from histories(child.view)


def told(view: View) -> object:
    """What a view comes to."""
    runs = [replace(record, revision=0) for record in view.runs.values()]
    inner = [(name, told(each.view), each.ended) for name, each in view.children.items()]
    return runs, list(view.messages), view.state, view.entered, inner


@given(trees(), st.data())
def test_every_view_is_valid_at_every_revision(
    entries: list[AnyEntry], data: st.DataObject
) -> None:
    """J3: each history has a result for each call; and it does not matter how it was batched."""
    for end in range(len(entries) + 1):
        for each in histories(fold([(1, entries[:end])])):
            check_answered(list(each.messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=4)))
    batches = [(n, entries[a:b]) for n, (a, b) in enumerate(pairwise([0, *cuts, len(entries)]), 1)]
    assert told(fold(batches)) == told(fold([(1, entries)]))


@given(trees())
def test_the_run_has_used_what_its_children_have(entries: list[AnyEntry]) -> None:
    """Each reply and each call counts once, whoever it was of."""
    record = fold([(1, entries)]).runs["r"]
    said = [entry for entry in entries if entry.__class__.__name__ == "ModelReplied"]
    assert record.usage == Usage(output_tokens=len(said), requests=len(said))
    assert record.tool_calls == sum(isinstance(entry, CallBegan) for entry in entries)
    assert record.turns == sum(not entry.path for entry in said)


@given(trees())
def test_a_view_keeps_what_is_open_only(entries: list[AnyEntry]) -> None:
    """J6: a child run is forgotten with its call; one that has ended keeps no history."""
    view = fold([(1, entries)])
    for each in histories(view):
        still: set[str] = set()
        if each.open is not None:
            still = {call.id for call in each.open.calls} - {*each.open.ended}
        assert {child.call_id for child in each.children.values()} <= still
        for child in each.children.values():
            assert child.ended is None or len(child.view.messages) == 0


@given(trees())
def test_entries_of_child_runs_survive_json(entries: list[AnyEntry]) -> None:
    """Encoded and decoded they are equal, each as its own type."""
    decoder = msgspec.json.Decoder(list[AnyEntry])
    assert decoder.decode(msgspec.json.encode(entries)) == entries


def opened() -> list[AnyEntry]:
    """A run with two calls, each of which has a child run, one of them with one of its own."""
    return [
        begins("r"),
        replies("r", "c1", "c2"),
        CallBegan(run_id="r", at=AT, call_id="c1"),
        CallBegan(run_id="r", at=AT, call_id="c2"),
        enters("a#1", "c1"),
        enters("b#1", "c2"),
        replace(replies("r", "d1"), path="a#1"),
        CallBegan(run_id="r", at=AT, path="a#1", call_id="d1"),
        enters("a#1/c#1", "d1"),
    ]


def test_paths_lead_to_child_runs() -> None:
    """And nowhere else."""
    view = fold([(1, opened())])
    assert list(paths_in(view)) == ["a#1", "a#1/c#1", "b#1"]
    found = child_at(view, "a#1/c#1")
    assert found is not None
    assert (found.call_id, found.view.messages[0].text) == ("d1", "?")
    assert child_at(view, "a#2") is None
    assert child_at(view, "b#1/c#1") is None
    assert (view.entered, view.children["a#1"].view.entered) == ({"a": 1, "b": 1}, {"c": 1})


@pytest.mark.parametrize(
    "late",
    [
        replace(replies("r", text="late"), path="a#1"),
        replace(replies("r", text="late"), path="a#1/c#1"),
        leaves("a#1"),
        replace(ends("r", "d1"), path="a#1"),
        enters("a#1/c#2", "d1"),
        enters("x#1", "nobody"),
        ApprovalDecided(run_id="r", at=AT, path="a#1", call_id="d1", digest="x", verdict="approve"),
    ],
)
def test_what_comes_after_the_call_changes_no_history(late: AnyEntry) -> None:
    """A decision may come late, and so may what was under way when a run was cancelled."""
    before = fold([(1, [*opened(), ends("r", "c1")])])
    after = fold([(1, [*opened(), ends("r", "c1"), late])])
    assert list(after.messages) == list(before.messages)
    assert list(paths_in(after)) == list(paths_in(before)) == ["b#1"]
    assert after.runs["r"].usage == before.runs["r"].usage


def test_approvals_of_a_child_are_its_own() -> None:
    """Asked and decided under its path; what was decided is known of the run."""
    asked = ApprovalAsked(run_id="r", at=AT, path="a#1", call_id="d1", digest="x")
    entries = [*opened()[:7], asked]
    view = fold([(1, entries)])
    inner = view.children["a#1"].view
    assert inner.open is not None
    assert [call.id for call in inner.open.waiting] == ["d1"]
    decided = ApprovalDecided(
        run_id="r", at=AT, path="a#1", call_id="d1", digest="x", verdict="edit", raw='{"n":1}'
    )
    view = fold([(1, [*entries, decided])])
    inner = view.children["a#1"].view
    assert inner.messages[1].tool_calls[0].raw == '{"n":1}'
    assert view.runs["r"].verdicts == {"d1": "edit"}


def test_pauses_do_not_count_for_child_runs() -> None:
    """Their time stands still while the run rests, as the run's own does."""
    hour = timedelta(hours=1)
    rest = [
        RunSuspended(run_id="r", at=AT + timedelta(seconds=5), reason="?"),
        RunResumed(run_id="r", at=AT + hour),
        replace(replies("r", text="x"), path="a#1/c#1", at=AT + hour + timedelta(seconds=2)),
    ]
    view = fold([(1, [*opened(), *rest])])
    assert [each.runs["r"].seconds for each in histories(view)] == [7, 7, 7, 5]


@pytest.mark.parametrize("last", [begins("s"), ViewReset(run_id="", at=AT)])
def test_what_ends_the_history_ends_the_children(last: AnyEntry) -> None:
    """A new run, or a reset; a number begins anew with a run."""
    view = fold([(1, [*opened(), last])])
    assert view.children == {}
    check_answered(list(view.messages))
    if last.run_id:
        assert view.entered == {}


def test_the_state_is_one() -> None:
    """What a child's call writes is the conversation's."""
    view = fold([(1, [*opened()[:8], replace(ends("r", "d1", "v"), path="a#1")])])
    assert view.state == {"k": "v"}
    end = RunEnded(run_id="r", at=AT, stop_reason="failed")
    assert fold([(1, [*opened(), end])]).runs["r"].status == "failed"
