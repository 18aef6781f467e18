"""The facts of a conversation: what a model says of it, merged by code with what it said before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from treadle.compaction.records import record_id
from treadle.values import clean, is_array, is_object, json_text

SECTIONS = (
    "user_goal",
    "hard_constraints",
    "pinned_facts",
    "preferences",
    "confirmed_facts",
    "decisions",
    "artefacts",
    "tool_outcomes",
    "failed_attempts",
    "open_questions",
    "next_actions",
)
"""What facts are about, in the order they are told in. A model says all next actions each time."""
_RENEWED = "next_actions"
_CITED = re.compile(r"\s*[\[(]\s*(M\d{1,12}(?:[\s,;]+M\d{1,12})*)\s*[\])]\s*\.?\s*\Z")
_NUMBER = re.compile(r"M(\d{1,12})\Z")
_WORD = re.compile(r"\w+")
_LIKE = 0.5
"""The share of words that two texts must have in both for one to be taken for the other."""


class Fact(Struct, frozen=True):
    """Something that holds, and the numbers of the records that say so."""

    text: str
    records: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """What is the same for the same statement, however it is set."""
        return " ".join(_WORD.findall(self.text.casefold())) or self.text.strip()

    def told(self) -> str:
        """Return it as one text: what it says, then what it cites."""
        if not self.records:
            return self.text
        return f"{self.text} [{' '.join(map(record_id, self.records))}]"

    def joined(self, other: Fact) -> Fact:
        """Return this fact, citing also what another cites."""
        return Fact(self.text, tuple(dict.fromkeys((*self.records, *other.records))))


class Superseded(Struct, frozen=True):
    """A fact that no longer holds, and what holds now, "" where nothing does."""

    was: Fact
    now: str = ""

    def told(self) -> Any:
        """Return it as a JSON value."""
        return {"was": self.was.told(), "now": self.now} if self.now else {"was": self.was.told()}


class Facts(Struct):
    """All that is known but for the references: sections of facts, and what was superseded."""

    summary: str = ""
    sections: dict[str, list[Fact]] = field(default_factory=dict[str, list[Fact]])
    superseded: list[Superseded] = field(default_factory=list[Superseded])

    @classmethod
    def of(cls, told: dict[str, Any], count: int) -> Facts:
        """Return the facts in what a model or an earlier note says.

        Records that are not among the first `count` are not cited.
        """
        told = {_section_name(name): value for name, value in told.items()}
        sections: dict[str, list[Fact]] = {}
        for section in SECTIONS:
            if section in told:
                sections[section] = [*_facts_in(told[section], count)]
        summary = told.get("rolling_summary")
        return cls(
            summary=clean(summary).strip() if isinstance(summary, str) else "",
            sections=sections,
            superseded=[*_superseded_in(told.get("superseded"), count)],
        )

    def plain(self) -> dict[str, Any]:
        """Return the facts as JSON values; what is empty is left out."""
        told: dict[str, Any] = {
            section: [fact.told() for fact in self.sections[section]]
            for section in SECTIONS
            if self.sections.get(section)
        }
        if self.summary:
            told["rolling_summary"] = self.summary
        if self.superseded:
            told["superseded"] = [each.told() for each in self.superseded]
        return told

    def texts(self) -> Iterator[str]:
        """Yield what holds."""
        for facts in self.sections.values():
            yield from (fact.text for fact in facts)

    def merged(self, new: Facts) -> Facts:
        """Return these facts and the `new` ones, which may restate and supersede them.

        A fact that the new ones do not speak of stays: a model may forget, and this does not.
        """
        old = [
            (section, fact)
            for section in SECTIONS
            for fact in self.sections.get(section, ())
            if section != _RENEWED or _RENEWED not in new.sections
        ]
        stated = {fact.key: fact for facts in new.sections.values() for fact in facts}
        outdated, others = _outdated(
            [fact for _, fact in old if fact.key not in stated],
            [each for each in new.superseded if each.was.key not in stated],
        )
        restated = _Restated(stated.values())
        sections: dict[str, list[Fact]] = {section: [] for section in SECTIONS}
        said: dict[str, Fact] = {}
        for section, fact in old:
            if fact.key in stated:
                said[fact.key] = fact
            elif fact.key not in outdated and not restated.has(fact):
                sections[section].append(fact)
        known: set[str] = set()
        for section in SECTIONS:
            for fact in new.sections.get(section, ()):
                if fact.key not in known:
                    known.add(fact.key)
                    before = said.get(fact.key)
                    sections[section].append(before.joined(fact) if before else fact)
        return Facts(
            summary=new.summary or self.summary,
            sections={section: facts for section, facts in sections.items() if facts},
            superseded=_each_once(
                each
                for each in (*self.superseded, *outdated.values(), *others)
                if each.was.key not in stated
            ),
        )


class _Restated:
    """Tells whether a statement is in a longer one that cites the same records."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._by_record: dict[int, list[tuple[set[str], set[int]]]] = {}
        for fact in facts:
            entry = (set(fact.key.split()), set(fact.records))
            for record in entry[1]:
                self._by_record.setdefault(record, []).append(entry)

    def has(self, fact: Fact) -> bool:
        if not fact.records:
            return False
        words, records = set(fact.key.split()), set(fact.records)
        candidates = self._by_record.get(fact.records[0], ())
        return any(words <= theirs and records <= cited for theirs, cited in candidates)


def _outdated(
    facts: Sequence[Fact], superseded: Iterable[Superseded]
) -> tuple[dict[str, Superseded], list[Superseded]]:
    """Return which of these facts are superseded, by their keys; and what is none of these."""
    by_key = {fact.key: fact for fact in facts}
    found: dict[str, Superseded] = {}
    others: list[Superseded] = []
    for each in superseded:
        fact = by_key.get(each.was.key) or _meant(each.was, facts)
        if fact is not None:
            found[fact.key] = Superseded(fact.joined(each.was), each.now)
        elif each.was.text:
            others.append(each)
    return found, others


def _meant(was: Fact, facts: Iterable[Fact]) -> Fact | None:
    """Return the fact that is meant with what it cites: the one that says about the same.

    Where only records are named, the one that cites just these, if there is but one.
    """
    cited, words = set(was.records), set(was.key.split())
    if not was.text:
        those = [fact for fact in facts if set(fact.records) == cited]
        return those[0] if len(those) == 1 else None
    best, most = None, _LIKE
    for fact in facts:
        if not cited.intersection(fact.records):
            continue
        theirs = set(fact.key.split())
        likeness = len(words & theirs) / (len(words | theirs) or 1)
        figures = {word for word in theirs if any(map(str.isdigit, word))}
        if likeness >= most and figures <= words:
            best, most = fact, likeness
    return best


def _each_once(superseded: Iterable[Superseded]) -> list[Superseded]:
    by_key: dict[str, Superseded] = {}
    for each in superseded:
        by_key.setdefault(each.was.key, each)
    return list(by_key.values())


def _section_name(name: str) -> str:
    return "_".join(_WORD.findall(name.casefold().replace("-", " ")))


def _facts_in(told: Any, count: int) -> Iterator[Fact]:
    for each in told if is_array(told) else [told]:
        fact = _fact(each, count)
        if fact.text:
            yield fact


def _fact(told: Any, count: int) -> Fact:
    """Return the fact in a text, or in an object that has its text and its records."""
    records: list[int] = []
    if is_object(told):
        text, cited = _text_and_records(told)
        records.extend(_numbers(cited, count))
    else:
        text = "" if told is None else told if isinstance(told, str) else json_text(told)
    text = clean(text).strip()
    if match := _CITED.search(text):
        text = text[: match.start()].rstrip()
        records.extend(_numbers(re.split(r"[\s,;]+", match[1]), count))
    return Fact(text, tuple(dict.fromkeys(records)))


def _text_and_records(told: dict[str, Any]) -> tuple[str, Any]:
    cited: Any = None
    texts: dict[str, Any] = {}
    for name, value in told.items():
        if _section_name(name) in ("records", "record", "record_ids", "ids", "sources", "source"):
            cited = value
        elif value not in (None, "", [], {}):
            texts[name] = value
    for name in ("text", "fact", "was", "value"):
        if isinstance(texts.get(name), str) and len(texts) == 1:
            return texts[name], cited
    spelled = (v if isinstance(v, str) else json_text(v) for v in texts.values())
    return "; ".join(f"{n}: {v}" for n, v in zip(texts, spelled, strict=True)), cited


def _numbers(cited: Any, count: int) -> Iterator[int]:
    """Yield the numbers of the records that are cited and exist."""
    for each in cited if is_array(cited) else [cited]:
        match = _NUMBER.match(str(each).strip()) if isinstance(each, str | int) else None
        if match and 1 <= int(match[1]) <= count:
            yield int(match[1])


def _superseded_in(told: Any, count: int) -> Iterator[Superseded]:
    for each in told if is_array(told) else [told]:
        now: Any = None
        if is_object(each):
            left = {_section_name(name): value for name, value in each.items()}
            for name in ("now", "by", "superseded_by", "replaced_by", "new"):
                now = left.pop(name, None) or now
            each = left
        was = _fact(each, count)
        if not was.records and (named := [*_numbers(was.text, count)]):
            was = Fact("", tuple(named))
        if was.text or was.records:
            yield Superseded(was, _fact(now, count).text)
