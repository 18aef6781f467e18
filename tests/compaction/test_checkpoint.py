"""Checkpoints: facts and exact references outlive any number of compactions and any model."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compaction.asking import Writer, call, gone_of, result, weigh
from treadle.compaction.checkpoint import Checkpoint
from treadle.compaction.facts import SECTIONS
from treadle.compaction.known import AS_SPELLED, Known
from treadle.errors import CompactionFailed
from treadle.messages import Message

REFERENCES = [
    "https://example.com/orders/7731?x=1",
    "/srv/app/config.yaml",
    r"C:\Program Files\App\run.exe",
    "2026-03-14T10:15:00Z",
    "ORD-7731",
    "550e8400-e29b-41d4-a716-446655440000",
    "user_id_9",
    "bob@example.com",
    "v1.2.3",
    "12,450 EUR",
    "42 ms",
    "March 3, 2027",
    "/srv/数据/报告.txt",
]
SAID = [
    Message.user("Deploy https://example.com/x on 2026-03-14; the port is 8080."),
    call("run", 1, path="/srv/a.txt", port=8443),
    result(1, '{"id": "ORD-7731", "dir": "C:\\\\tmp\\\\x", "n": 12345}'),
]


def loaded(note: str) -> Any:
    """Return the JSON of a note, without the lines of references that JSON would escape."""
    return json.loads(note.partition(AS_SPELLED)[0])


def values(note: str) -> set[str]:
    """Return the references in a note."""
    return set(Known.of(note).references.known)


async def test_a_checkpoint_is_compact_json() -> None:
    """Facts cite records, references are found by code, what is empty is left out."""
    ask = Writer(
        {"confirmed_facts": ["The port is 8080 [M0001 M0044]"], "rolling_summary": "Began."}
    )

    note = await Checkpoint().note(gone_of(SAID), ask)

    assert loaded(note) == {
        "records": 3,
        "confirmed_facts": ["The port is 8080 [M0001]"],
        "rolling_summary": "Began.",
        "references": {
            "urls": {"M0001": ["https://example.com/x"]},
            "paths": {"M0002": ["/srv/a.txt"]},
            "dates": {"M0001": ["2026-03-14"]},
            "numbers": {"M0001": ["8080"], "M0002": ["8443"]},
        },
        "references_in_results": {
            "ids": {"M0003": ["ORD-7731"]},
        },
    }
    assert ": " not in note.partition(AS_SPELLED)[0].replace("port is", "")
    assert note.endswith(AS_SPELLED + "returned M0003 C:\\tmp\\x")
    (request,) = ask.requests
    assert request.tools == ()
    assert request.settings.max_output_tokens


async def test_the_next_checkpoint_goes_on() -> None:
    """S65: IDs continue, forgotten facts stay, the old values are marked, new ones are found."""
    first = await Checkpoint().note(
        gone_of(SAID),
        Writer({"confirmed_facts": ["The port is 8080 [M0001]", "Bob leads [M0001]"]}),
    )
    reply = {
        "confirmed_facts": ["The port is 9090 [M0004]"],
        "superseded": [{"was": "The port is 8080", "now": "The port is 9090"}],
    }
    ask = Writer(reply)
    said = [Message.user("Use port 9090 from 2026-04-01, with ORD-7731.")]

    note = loaded(await Checkpoint().note(gone_of(said, first), ask))

    assert "[M0004] user:" in ask.texts[0]
    assert '"The port is 8080 [M0001]"' in ask.texts[0]
    assert "8443" not in ask.texts[0]  # references need not be told to the model
    assert note["records"] == 4
    assert note["confirmed_facts"] == ["Bob leads [M0001]", "The port is 9090 [M0004]"]
    assert note["superseded"] == [{"was": "The port is 8080 [M0001]", "now": "The port is 9090"}]
    assert note["former_references"] == {"numbers": {"M0001": ["8080"]}}
    assert note["references"]["dates"] == {"M0001": ["2026-03-14"], "M0004": ["2026-04-01"]}
    assert note["references"]["ids"] == {"M0003": ["ORD-7731"]}  # now somebody speaks of it


async def test_a_former_value_that_is_said_again_holds_again() -> None:
    """What was superseded once may come back."""
    first = await Checkpoint().note(gone_of(SAID), Writer({"superseded": [{"was": "port 8080"}]}))
    assert "former_references" in loaded(first)

    second = await Checkpoint().note(gone_of([Message.user("Back to 8080.")], first), Writer())
    assert "former_references" not in loaded(second)


async def test_names_that_a_model_finds_are_kept_where_they_are() -> None:
    """What it makes up is not."""
    ask = Writer({"exact_references": ["Project Falcon", "Project Eagle", 7, ""]})

    note = await Checkpoint().note(gone_of([Message.user("On Project Falcon.")]), ask)

    assert values(note) == {"Project Falcon"}


@pytest.mark.parametrize("bad", ["Sorry, what?", "[1, 2]", "{broken"])
async def test_what_is_no_json_is_asked_for_again(bad: str) -> None:
    """Once, saying what was wrong."""
    ask = Writer(bad, '{"decisions": ["We go"]}')

    note = await Checkpoint().note(gone_of(SAID), ask)

    assert loaded(note)["decisions"] == ["We go"]
    assert len(ask.requests) == 2
    assert "Your last answer was of no use" in ask.texts[1]


async def test_no_json_twice_is_an_error() -> None:
    """It says how the answer began."""
    ask = Writer("Sorry, what?")

    with pytest.raises(CompactionFailed, match=r"twice.*Sorry, what"):
        await Checkpoint().note(gone_of(SAID), ask)
    assert len(ask.requests) == 2


async def test_an_answer_that_breaks_off_twice_counts_as_far_as_it_goes() -> None:
    """A model with too little room does not keep the history from leaving."""
    ask = Writer('{"decisions": ["We go", "We stay"], "rolling_summary": "he said "no" and')

    note = await Checkpoint().note(gone_of(SAID), ask)

    assert loaded(note)["decisions"] == ["We go", "We stay"]
    assert "ORD-7731" in values(note)
    assert len(ask.requests) == 2


async def test_a_note_of_another_strategy_is_gone_on_from() -> None:
    """It becomes the summary, and what is exact in it is kept."""
    note = await Checkpoint().note(gone_of(SAID, "They use /etc/x.conf."), Writer())

    assert loaded(note)["rolling_summary"] == "They use /etc/x.conf."
    assert "/etc/x.conf" in values(note)


async def test_long_histories_are_read_piece_by_piece() -> None:
    """Each request fits; what was said in pieces before is shown; long records keep references."""
    messages = [Message.user(f"Turn {n}, id TICKET-{n:05d}. " + "word " * 300) for n in range(30)]
    messages.append(Message.user("x " * 9_000 + "/in/the/middle.txt" + " y" * 9_000))
    replies = [{"confirmed_facts": [f"Fact {n} holds [M0001]"]} for n in range(40)]
    ask = Writer(*replies)
    gone = gone_of(messages, tokens=1_000, window=4_000)

    note = await Checkpoint().note(gone, ask)

    count = len(ask.requests)
    assert count > 3
    for request in ask.requests:
        output = request.settings.max_output_tokens or 0
        assert weigh(request.system) + weigh(request.messages[0].text) + output <= gone.window
    assert "Fact 0 holds" in ask.texts[-1]
    assert len(loaded(note)["confirmed_facts"]) == count
    assert {f"TICKET-{n:05d}" for n in range(30)} | {"/in/the/middle.txt"} <= values(note)


def test_thousands_of_references_fit() -> None:
    """What begins alike is told once: 3,000 identifiers, paths and URLs need two fifths."""
    draw = random.Random(7)  # noqa: S311 the same each time
    known = Known()
    wanted: set[str] = set()
    for number in range(1_000):
        wanted |= {
            f"https://shop.example.com/orders/2026/{draw.randrange(10**6):06d}",
            f"/srv/app/logs/worker-{number % 7}/{draw.randrange(10**6):06d}.log",
            f"ORD-{draw.randrange(10**6):06d}",
        }
    known.references.add("\n".join(sorted(wanted)), "said", 1)
    whole = weigh(known.text())

    note = known.fitted(whole * 2 // 5, weigh)

    assert values(note) == wanted
    assert weigh(note) <= whole * 2 // 5


def test_what_yields_and_in_which_order() -> None:
    """The summary is shortened first, references go last, and the note says how much is missing."""
    told = {name: [f"{name} number {n} says something" for n in range(9)] for name in SECTIONS}
    full: dict[str, Any] = {"records": 9, "rolling_summary": "long " * 300, **told}
    known = Known.of(json.dumps(full))
    known.references.add(" ".join(f"/srv/file{n}.txt" for n in range(40)), "said", 1)
    notes = [loaded(known.fitted(most, weigh)) for most in range(weigh(known.text()), 40, -20)]

    def first(name: str, least: int) -> int:
        return next(n for n, note in enumerate(notes) if len(note.get(name, ())) < least)

    order = [first(name, 9) for name in ("tool_outcomes", "decisions", "confirmed_facts")]
    assert first("rolling_summary", 1_500) < order[0]
    assert order == sorted(order)
    assert order[-1] <= first("pinned_facts", 9)
    assert all(
        "decisions" not in note and note["left_out"] > 60
        for note in notes
        if len(Known.of(json.dumps(note)).references.known) < 40
    )
    assert notes[-1]["records"] == 9


@given(st.integers(1, 400), st.integers(0, 60), st.text(max_size=200))
def test_a_note_keeps_to_its_size(most: int, many: int, text: str) -> None:
    """However much is known, and it can be read again."""
    known = Known.of(json.dumps({"records": many, "pinned_facts": [text, *map(str, range(many))]}))
    known.references.add(" ".join(f"ID-{n} /a/b{n}.txt {n} km" for n in range(many)), "said", 1)

    note = known.fitted(most, weigh)

    assert weigh(note) <= max(most, 12)
    assert Known.of(note).count == many


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=15,
)
keys = st.sampled_from(
    [
        *SECTIONS,
        "superseded",
        "rolling_summary",
        "exact_references",
        "records",
        "references",
        "left_out",
    ]
)
replies = st.dictionaries(keys | st.text(max_size=8), json_values, max_size=8)
texts = st.lists(st.sampled_from(REFERENCES) | st.text(max_size=30), min_size=1, max_size=5)


@settings(max_examples=60)
@given(st.lists(st.tuples(texts, replies), min_size=1, max_size=4))
async def test_no_reference_is_lost_whatever_the_model_says(
    rounds: list[tuple[list[str], dict[str, Any]]],
) -> None:
    """Over many compactions: references stay, IDs go on, and the note can be read."""
    note, wanted, count = None, set[str](), 0
    for said, reply in rounds:
        text = "\n".join(said)
        messages = [Message.user(text), call("run", 1, x=text), result(1, text)]
        note = await Checkpoint().note(
            gone_of(messages, note, tokens=50_000, window=200_000), Writer(json.dumps(reply))
        )
        wanted.update(each for each in REFERENCES if each in said)
        count += 3
        assert wanted <= values(note)
        assert loaded(note)["records"] == count
