"""What a checkpoint keeps: facts, exact references, and how many records there were."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

from msgspec import Struct, field
from msgspec.json import encode
from msgspec.structs import replace

from treadle.compaction.facts import SECTIONS, Facts
from treadle.compaction.json_reply import object_in
from treadle.compaction.references import LEGEND, Detail, Reference, References

AS_SPELLED = "\nReferences with the records they stood in, exactly as they are spelled:\n"
_COUNT, _LEFT_OUT, _READING = "records", "left_out", "reading"
_CORE = ("user_goal", "hard_constraints", "pinned_facts")
"""What stays beside references, as long as it takes no more than its share."""
_CORE_SHARE = 0.25
_SHORT_SUMMARY = 0.1
"""The share of the note that a summary may keep before facts yield."""


class Known(Struct):
    """What is known of the messages that have left the view.

    `count` is how many records there were: the next one has the number after it. `left_out` is how
    many facts and references there was no room for.
    """

    count: int = 0
    facts: Facts = field(default_factory=Facts)
    references: References = field(default_factory=References)
    left_out: int = 0

    @classmethod
    def of(cls, note: str | None) -> Known:
        """Return what an earlier note says. One that another strategy wrote becomes the summary."""
        if note is None:
            return cls()
        told_as_json, _, lines = note.partition(AS_SPELLED)
        try:
            told = object_in(told_as_json)
        except ValueError:
            told = {}
        count = _whole(told.get(_COUNT))
        if count is None:
            known = cls(facts=Facts(summary=note.strip()))
            known.references.add(note, "said", 0)
            return known
        facts, references = Facts.of(told, count), References.of(told)
        references.add_lines(lines.split("\n"))
        return cls(count, facts, references, _whole(told.get(_LEFT_OUT)) or 0)

    def text(self, detail: Detail = "records") -> str:
        """Return it as compact JSON, what is empty left out, and lines for what JSON escapes."""
        told: dict[str, Any] = {_COUNT: self.count, **self.facts.plain()}
        references = self.references.plain(detail)
        if references and detail == "grouped":
            told[_READING] = LEGEND
        if self.left_out:
            told[_LEFT_OUT] = self.left_out
        as_json = encode({**told, **references}).decode()
        lines = self.references.lines(detail)
        return AS_SPELLED.join((as_json, "\n".join(lines))) if lines else as_json

    def fitted(self, most: int, weigh: Callable[[str], int]) -> str:
        """Return it as a text of at most `most` tokens.

        What does not fit yields in this order: the records of the references, which are then told
        in groups; the summary, down to a tenth of the note; what was superseded; tool outcomes;
        failed attempts; artefacts; open questions; next actions; decisions; confirmed facts;
        preferences; and the core (pinned facts, hard constraints, the goal) down to a quarter of
        the note. Only then go references: bare numbers first, then former ones, those that only
        stood in results, and those that somebody has said. Of each the oldest goes first.
        """
        detail: Detail
        for detail in ("records", "plain", "grouped"):
            text = self.text(detail)
            if weigh(text) <= most:
                return text
        return _Fitting(self, most, weigh).text()


class _Fitting:
    """Makes a note fit; `known` is what is left of it."""

    def __init__(self, known: Known, most: int, weigh: Callable[[str], int]) -> None:
        self._known = Known(
            known.count,
            replace(known.facts, sections=dict(known.facts.sections)),
            References(dict(known.references.known)),
            known.left_out,
        )
        self._most = most
        self._weigh = weigh

    def text(self) -> str:
        self._shorten_summary(int(self._most * _SHORT_SUMMARY))
        self._shed_superseded()
        for section in reversed(SECTIONS):
            if section not in _CORE:
                self._shed(section, 0)
        self._shorten_summary(0)
        for section in reversed(_CORE):
            self._shed(section, int(self._most * _CORE_SHARE))
        for among in (_is_number, _is_former, _is_returned, _is_any):
            self._shed_references(among)
        for section in reversed(_CORE):
            self._shed(section, 0)
        return self._told()

    def _told(self) -> str:
        return self._known.text("grouped")

    def _excess(self) -> int:
        return self._weigh(self._told()) - self._most

    def _shorten_summary(self, least: int) -> None:
        """Leave out the beginning of the summary, which is the oldest, as far as that is needed."""
        facts = self._known.facts
        while facts.summary and (excess := self._excess()) > 0:
            size = self._weigh(facts.summary)
            if size <= least:
                return
            left = max(size - excess - 1, least) / size
            facts.summary = _end_of(facts.summary, int(len(facts.summary) * left * 0.95))

    def _shed_superseded(self) -> None:
        facts = self._known.facts
        while facts.superseded and (excess := self._excess()) > 0:
            size = self._weigh(encode([each.told() for each in facts.superseded]).decode())
            gone = _how_many(len(facts.superseded), size, excess)
            facts.superseded = facts.superseded[gone:]
            self._known.left_out += gone

    def _shed(self, section: str, least: int) -> None:
        """Leave out the oldest facts of a section while it has more than `least` tokens."""
        sections = self._known.facts.sections
        while sections.get(section) and (excess := self._excess()) > 0:
            facts = sections[section]
            size = self._weigh(encode([fact.told() for fact in facts]).decode())
            if size <= least:
                return
            gone = _how_many(len(facts), size, min(excess, size - least))
            sections[section] = facts[gone:]
            self._known.left_out += gone

    def _shed_references(self, among: Callable[[Reference], bool]) -> None:
        references = self._known.references
        while (excess := self._excess()) > 0:
            those = [each for each in references.known.values() if among(each)]
            if not those:
                return
            size = self._weigh(" ".join(each.value for each in those))
            gone = _how_many(len(those), size, excess)
            references.drop(_oldest(those, gone))
            self._known.left_out += gone


def _how_many(count: int, size: int, excess: int) -> int:
    """Return how many of `count` things that have `size` tokens bring about `excess` tokens."""
    return max(1, min(count, ceil(count * excess / max(size, 1))))


def _oldest(references: Iterable[Reference], number: int) -> list[str]:
    ordered = sorted(references, key=lambda each: each.record)
    return [each.value for each in ordered[:number]]


def _end_of(text: str, length: int) -> str:
    """Return the last characters of a text, from the beginning of a word on."""
    end = text[len(text) - length :] if length > 0 else ""
    return end.partition(" ")[2] or end if length < len(text) else end


def _is_number(reference: Reference) -> bool:
    return reference.kind == "numbers"


def _is_former(reference: Reference) -> bool:
    return reference.place == "former"


def _is_returned(reference: Reference) -> bool:
    return reference.place == "returned"


def _is_any(reference: Reference) -> bool:
    return bool(reference.value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
