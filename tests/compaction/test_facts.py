"""Facts: what a model forgets stays, what it supersedes goes, however it writes its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.compaction.facts import SECTIONS, Fact, Facts
from treadle.compaction.json_reply import beginning_in, object_in

OLD = Facts.of(
    {
        "confirmed_facts": [
            "The port is 8080 [M0001]",
            "The host is db-1 [M0001]",
            "Bob leads [M0002]",
        ],
        "decisions": ["We use Redis [M0003]"],
        "next_actions": ["Write tests [M0003]"],
        "rolling_summary": "So far.",
    },
    9,
)


def held(facts: Facts) -> list[str]:
    """Return what holds."""
    return list(facts.texts())


def test_what_a_model_forgets_stays() -> None:
    """S65: an answer that says nothing of a fact does not end it."""
    merged = OLD.merged(Facts.of({"decisions": ["We use Python [M0004]"]}, 9))

    assert held(merged) == [
        "The port is 8080",
        "The host is db-1",
        "Bob leads",
        "We use Redis",
        "We use Python",
        "Write tests",
    ]
    assert merged.summary == "So far."


@pytest.mark.parametrize(
    "named",
    [
        {"was": "The port is 8080", "now": "The port is 9090"},
        {"was": "the PORT is 8080. [M0001]", "now": "The port is 9090"},
        {
            "fact": "Port 8080 is the port",
            "records": ["M0001"],
            "superseded_by": "The port is 9090",
        },
        {"text": "The port is 8080", "by": {"text": "The port is 9090", "records": ["M0005"]}},
    ],
)
def test_what_is_superseded_goes(named: dict[str, Any]) -> None:
    """It is found by its text, or by what it cites where the words are about the same."""
    new = {"confirmed_facts": ["The port is 9090 [M0005]"], "superseded": [named]}
    merged = OLD.merged(Facts.of(new, 9))

    assert "The port is 8080" not in held(merged)
    assert "The host is db-1" in held(merged)
    (superseded,) = merged.superseded
    assert superseded.was == Fact("The port is 8080", (1,))
    assert superseded.now == "The port is 9090"


@pytest.mark.parametrize("named", ["M0003", {"records": ["M0003"]}])
def test_a_record_names_its_only_fact(named: Any) -> None:
    """Where just a record is named, and one fact cites just that, this fact is meant."""
    old = Facts.of({"decisions": ["We use Redis [M0003]", "Bob leads [M0002]"]}, 9)

    assert held(old.merged(Facts.of({"superseded": [named]}, 9))) == ["Bob leads"]


@pytest.mark.parametrize(
    "named",
    [
        "The port is 8443 [M0001]",
        "M0001",
        {"records": ["M0001"]},
        "Something else [M0001]",
        None,
        7,
    ],
)
def test_what_is_not_meant_stays(named: Any) -> None:
    """Two facts from one record are not one another, and a number makes a difference."""
    merged = OLD.merged(Facts.of({"superseded": [named]}, 9))

    assert held(merged) == held(OLD)


def test_a_longer_statement_stands_for_a_shorter_one() -> None:
    """Where it cites the same records, and has all its words."""
    longer = Facts.of({"confirmed_facts": ["The port is 8080 for all services [M0001 M0005]"]}, 9)
    alike = Facts.of({"confirmed_facts": ["The port is 8080 for all services [M0005]"]}, 9)

    assert "The port is 8080" not in held(OLD.merged(longer))
    assert "The port is 8080" in held(OLD.merged(alike))


def test_a_fact_said_again_is_there_once() -> None:
    """It cites both records, and stands where it was said last."""
    merged = OLD.merged(Facts.of({"hard_constraints": ["the port IS 8080! [M0007]"]}, 9))

    assert sum("8080" in text for text in held(merged)) == 1
    assert merged.sections["hard_constraints"] == [Fact("The port is 8080", (1, 7))]


def test_what_is_said_to_hold_is_not_superseded() -> None:
    """A model that says both is taken at its better word, also where it goes back to it later."""
    both = {"superseded": ["Bob leads"], "confirmed_facts": ["Bob leads"]}
    assert "Bob leads" in held(OLD.merged(Facts.of(both, 9)))

    ended = OLD.merged(Facts.of({"superseded": ["Bob leads"]}, 9))
    again = ended.merged(Facts.of({"confirmed_facts": ["Bob leads"]}, 9))
    assert held(again).count("Bob leads") == 1
    assert again.superseded == []


def test_next_actions_are_those_of_the_last_answer() -> None:
    """What was done is no fact; without any list the old one stays."""
    assert "Write tests" not in held(OLD.merged(Facts.of({"next_actions": []}, 9)))
    assert "Write tests" in held(OLD.merged(Facts.of({}, 9)))


def test_records_that_do_not_exist_are_not_cited() -> None:
    """However they are written."""
    told = {
        "decisions": [
            "a (M0001, M0099)",
            {"text": "b", "records": ["M2", "M0000", "x", None, 3]},
            {"text": "c", "ids": "M0003"},
            "d [M12345678]",
        ]
    }

    assert Facts.of(told, 3).sections["decisions"] == [
        Fact("a", (1,)),
        Fact("b", (2,)),
        Fact("c", (3,)),
        Fact("d"),
    ]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("one", ["one"]),
        (["a", "", None, "  "], ["a"]),
        ([1, True], ["1", "true"]),
        ({"name": "x", "port": 1}, ["name: x; port: 1"]),
        ([["a", "b"]], ['["a","b"]']),
    ],
)
def test_odd_values_become_texts(value: Any, texts: list[str]) -> None:
    """A model that is free with the form loses nothing of what it says."""
    assert held(Facts.of({"Confirmed-Facts": value}, 0)) == texts


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("Bob leads [M0002]"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["was", "now", "text", "records", *SECTIONS, "superseded"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
sections = st.sampled_from([*SECTIONS, "superseded", "rolling_summary", "other"])
replies = st.dictionaries(sections, json_values, max_size=6)
FACTS = st.lists(
    st.tuples(st.sampled_from(SECTIONS[:-1]), st.text("abcd 123", min_size=1).filter(str.strip)),
    unique_by=lambda pair: " ".join(pair[1].split()),
    max_size=8,
)


@given(FACTS, st.lists(replies.filter(lambda each: "superseded" not in each), max_size=4))
def test_nothing_but_superseding_ends_a_fact(
    facts: list[tuple[str, str]], answers: list[dict[str, Any]]
) -> None:
    """Whatever else a model answers, what was known is in what is known then."""
    known = Facts(sections={})
    for section, text in facts:
        known.sections.setdefault(section, []).append(Fact(text.strip()))
    for answer in answers:
        known = known.merged(Facts.of(answer, 5))

    keys = {fact.key for those in known.sections.values() for fact in those}
    assert {Fact(text.strip()).key for _, text in facts} <= keys


@given(replies, replies)
def test_facts_come_back_from_their_own_json(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Told and read again they are the same."""
    known = Facts.of(first, 9).merged(Facts.of(second, 9))
    again = Facts.of(known.plain(), 9)

    assert again.plain() == known.plain()
    assert again.merged(Facts()).plain() == known.merged(Facts()).plain()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2]}',
        'Here it is:\n```json\n{"a": [1, 2,],}\n```\nDone.',
        '{"a": [1, 2 , ] , }',
    ],
)
def test_json_with_small_faults_is_read(text: str) -> None:
    """Fences, words around it and trailing commas do no harm."""
    assert object_in(text) == {"a": [1, 2]}


def test_commas_in_texts_stay() -> None:
    """Only those outside of texts are too many."""
    assert object_in('{"a": "x,]", "b": "line\n,}",}') == {"a": "x,]", "b": "line\n,}"}


@pytest.mark.parametrize(
    "text", ["", "no", "}{", "{", "[1]", "{a: 1}", "{" * 5, '{"a":' * 9_999 + "}"]
)
def test_what_is_no_object_is_refused(text: str) -> None:
    """With one kind of error."""
    with pytest.raises(ValueError, match=r"."):
        object_in(text)


@given(st.dictionaries(st.text(max_size=5), json_values, min_size=1, max_size=5), st.data())
def test_what_is_whole_of_a_broken_object_is_read(
    value: dict[str, Any], data: st.DataObject
) -> None:
    """Cut anywhere, the members before the cut come back as they are; nothing raises."""
    text = json.dumps(value)
    beginning = beginning_in(text[: data.draw(st.integers(0, len(text)))])

    whole = list(beginning.items())[:-1]
    assert whole == list(value.items())[: len(whole)]
    assert beginning_in(text) == value


@pytest.mark.parametrize(
    "text", ["", "no", "[1, 2", "{", '{"a"', '{"a": ', "{" * 10_000, "[{" * 9_999]
)
def test_of_nothing_there_is_no_beginning(text: str) -> None:
    """Hostile nesting costs no time either."""
    assert beginning_in(text) == {}
