"""The exact references of a conversation: found by code, kept as they were spelled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

from msgspec import Struct, field

from treadle.compaction.patterns import ReferenceKind, find_references
from treadle.compaction.records import Record, record_id, returned_in, said_in
from treadle.values import is_array, is_object

Place = Literal["said", "returned", "former"]
Detail = Literal["records", "plain", "grouped"]
"""How references are told: with the record of each, without, or those that begin alike together."""

NAMES: dict[Place, str] = {
    "said": "references",
    "returned": "references_in_results",
    "former": "former_references",
}
LEGEND = "In references, [a, b c] stands for ab and ac."
_KINDS: tuple[ReferenceKind, ...] = get_args(ReferenceKind)
_PLACES: dict[str, Place] = {place: place for place in NAMES}
_RECORD = re.compile(r"M(\d{4,12})")
_EARLIER = "earlier"
_BREAKS = re.compile(r"[/\\\-_.:@#]")
_MOST_BREAKS = 12
_WORTH_GROUPING = 3


class Reference(Struct, frozen=True):
    """One exact reference; `record` is the number of the first that has it, 0 where unknown.

    `place` is whether somebody has said or used it, whether it only stood in what a tool returned,
    or whether what was said of it no longer holds.
    """

    value: str
    kind: ReferenceKind
    place: Place
    record: int = 0


class References(Struct):
    """All exact references so far, each once, by the first record that has it."""

    known: dict[str, Reference] = field(default_factory=dict[str, Reference])

    def read(self, records: Iterable[Record]) -> None:
        """Add those in records."""
        for record in records:
            for text in said_in(record.message):
                self.add(text, "said", record.number)
            for text in returned_in(record.message):
                self.add(text, "returned", record.number)

    def add(self, text: str, place: Place, record: int) -> None:
        """Add those in a text. One that a tool returned and then somebody uses has been said."""
        for kind, value in find_references(text, said=place == "said"):
            known = self.known.get(value)
            if known is None:
                self.known[value] = Reference(value, kind, place, record)
            elif known.place == "former" or place == "said":
                self.known[value] = Reference(value, known.kind, place, known.record)

    def outdate(self, was: str, holds: Iterable[str]) -> None:
        """Mark those that only a statement which holds no longer speaks of as former ones."""
        values = [value for _, value in find_references(was)]
        held = {value for text in holds if values for _, value in find_references(text)}
        for value in values:
            known = self.known.get(value)
            if known is not None and value not in held:
                self.known[value] = Reference(value, known.kind, "former", known.record)

    def drop(self, values: Iterable[str]) -> None:
        """Forget some."""
        for value in values:
            self.known.pop(value, None)

    def plain(self, detail: Detail) -> dict[str, Any]:
        """Return them as JSON values by place and kind, but for those that JSON escapes."""
        told: dict[str, Any] = {}
        ordered = [each for each in self._ordered() if not is_escaped(each.value)]
        by_kind: dict[tuple[Place, ReferenceKind], list[Reference]] = {}
        for each in ordered:
            by_kind.setdefault((each.place, each.kind), []).append(each)
        for place, name in NAMES.items():
            kinds = {
                kind: _told(by_kind[place, kind], detail)
                for kind in _KINDS
                if (place, kind) in by_kind
            }
            if kinds:
                told[name] = kinds
        return told

    def lines(self, detail: Detail) -> list[str]:
        """Return those that JSON would spell anew, a line each: place, record and the reference."""
        numbered = detail == "records"
        return [
            f"{each.place} {record_id(each.record if numbered else 0)} {each.value}"
            for each in self._ordered()
            if is_escaped(each.value)
        ]

    def add_lines(self, lines: Iterable[str]) -> None:
        """Add those that such lines tell of; what is no such line is left out."""
        for line in lines:
            word, _, rest = line.partition(" ")
            record, _, value = rest.partition(" ")
            place = _PLACES.get(word)
            match = _RECORD.fullmatch(record)
            if place is None or match is None or not value:
                continue
            kinds: list[ReferenceKind] = [k for k, each in find_references(value) if each == value]
            kind: ReferenceKind = kinds[0] if kinds else "paths"
            self.known.setdefault(value, Reference(value, kind, place, int(match[1])))

    def _ordered(self) -> list[Reference]:
        return sorted(self.known.values(), key=lambda each: each.record)

    @classmethod
    def of(cls, told: dict[str, Any]) -> References:
        """Return the references in such JSON values; what is none is left out."""
        references = cls()
        for place, name in NAMES.items():
            kinds = told.get(name)
            if not is_object(kinds):
                continue
            for kind in _KINDS:
                for value, record in _values(kinds.get(kind)):
                    known = Reference(value, kind, place, record)
                    references.known.setdefault(value, known)
        return references


def is_escaped(value: str) -> bool:
    """Whether JSON spells it in another way: paths with backslashes, for one."""
    return "\\" in value or '"' in value


def _told(references: Sequence[Reference], detail: Detail) -> Any:
    if detail == "plain":
        return [each.value for each in references]
    if detail == "grouped":
        return _grouped([each.value for each in references])
    by_record = groupby(references, lambda each: each.record)
    if not any(each.record for each in references):
        return [each.value for each in references]
    return {
        record_id(record) if record else _EARLIER: [each.value for each in those]
        for record, those in by_record
    }


def _values(told: Any) -> Iterator[tuple[str, int]]:
    """Yield the references in what `_told` has returned, each with its record."""
    if is_object(told):
        for name, values in told.items():
            match = _RECORD.fullmatch(name)
            record = int(match[1]) if match else 0
            yield from ((value, record) for value, _ in _values(values))
        return
    for each in told if is_array(told) else ():
        if isinstance(each, str):
            yield each, 0
        elif is_array(each) and len(each) == 2:
            beginning, ends = map(str, each)
            yield from ((beginning + end, 0) for end in ends.split(" "))


def _grouped(values: Sequence[str]) -> list[Any]:
    """Return values that begin alike as a pair of the beginning and the ends."""
    beginnings = {value: list(_beginnings(value)) for value in values if " " not in value}
    counts = Counter(each for those in beginnings.values() for each in those)
    groups: dict[str, list[str]] = {}
    told: list[Any] = []
    for value in values:
        if value not in beginnings:
            told.append(value)
            continue
        shared = (each for each in beginnings[value] if counts[each] >= _WORTH_GROUPING)
        beginning = next(shared, "")
        if beginning not in groups:
            groups[beginning] = []
            told.append((beginning, groups[beginning]))
        groups[beginning].append(value[len(beginning) :])
    return [each if isinstance(each, str) else _pair(*each) for each in told]


def _pair(beginning: str, ends: Sequence[str]) -> str | list[str]:
    return beginning + ends[0] if len(ends) == 1 else [beginning, " ".join(ends)]


def _beginnings(value: str) -> Iterator[str]:
    """Yield how a value begins, up to each break in it; the longest first."""
    ends = [match.end() for match in _BREAKS.finditer(value)]
    for end in reversed(ends[-_MOST_BREAKS:]):
        if 1 < end < len(value):
            yield value[:end]
