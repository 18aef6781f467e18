"""The sources that a reply names, put on the texts that rely on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.messages import Citation, Part, Text
from treadle.providers.gemini.dialect import Wire
from treadle.values import is_array, is_object


class _Place(Struct, frozen=True):
    """Where a text part is: among the parts, and in all that the reply says, in bytes."""

    index: int
    text: str
    begin: int
    end: int


def cited(parts: Sequence[Part], told: Iterable[Wire]) -> list[Part]:
    """Return the parts with the citations that a candidate's metadata tell of.

    Google counts in bytes of all that was said, or of one part; the words that it repeats decide.
    """
    said = list(parts)
    places = _places(parts)
    if not places:
        return said
    found: dict[int, list[Citation]] = {}
    for metadata in told:
        for index, citation in _all(metadata, places):
            known = found.setdefault(index, [])
            if citation not in known:
                known.append(citation)
    for index, citations in found.items():
        part = said[index]
        if isinstance(part, Text):
            said[index] = replace(part, citations=tuple(citations))
    return said


def _places(parts: Sequence[Part]) -> list[_Place]:
    places: list[_Place] = []
    begin = 0
    for index, part in enumerate(parts):
        if type(part) is Text:
            end = begin + len(part.text.encode("utf-8", "replace"))
            places.append(_Place(index, part.text, begin, end))
            begin = end
    return places


def _all(metadata: Wire, places: list[_Place]) -> Iterable[tuple[int, Citation]]:
    yield from _grounded(metadata, places)
    for source in _objects(metadata.get("citations") or metadata.get("citationSources")):
        index, start, end = _placed(source, "", places)
        yield index, Citation(_word(source, "uri"), _word(source, "title"), None, start, end)
    for fetched in _objects(metadata.get("urlMetadata")):
        url = _word(fetched, "retrievedUrl")
        if url and str(fetched.get("urlRetrievalStatus", "")).endswith("SUCCESS"):
            yield places[-1].index, Citation(url)


def _grounded(metadata: Wire, places: list[_Place]) -> Iterable[tuple[int, Citation]]:
    chunks = metadata.get("groundingChunks")
    sources = [_source(chunk) for chunk in chunks] if is_array(chunks) else []
    used: set[int] = set()
    for support in _objects(metadata.get("groundingSupports")):
        segment: object = support.get("segment")
        segment = segment if is_object(segment) else {}
        index, start, end = _placed(segment, _word(segment, "text") or "", places)
        numbers = support.get("groundingChunkIndices")
        for number in numbers if is_array(numbers) else ():
            if isinstance(number, int) and 0 <= number < len(sources):
                used.add(number)
                yield index, replace(sources[number], start=start, end=end)
    for number, source in enumerate(sources):
        if number not in used and source != Citation():
            yield places[-1].index, source


def _source(chunk: object) -> Citation:
    """Return the source in a chunk: a page, a place, or a passage of a document."""
    inner: object = next(iter(chunk.values()), None) if is_object(chunk) else None
    if not is_object(inner):
        return Citation()
    return Citation(
        _word(inner, "uri") or _word(inner, "sourceUri") or _word(inner, "imageUri"),
        _word(inner, "title") or _word(inner, "documentName"),
        _word(inner, "text"),
    )


def _placed(segment: Wire, words: str, places: list[_Place]) -> tuple[int, int | None, int | None]:
    """Return the part that a segment is in, and where in it, in characters."""
    start, end = _count(segment, "startIndex"), _count(segment, "endIndex")
    if end:
        inside = (place for place in places if place.begin <= start < place.end)
        relative = ((place, place.begin) for place in places)
        for place, begin in [*((place, 0) for place in inside), *relative]:
            spot = _characters(place, start - place.begin + begin, end - place.begin + begin)
            if spot and _fits(place.text, spot, words):
                return place.index, *spot
    for place in places if words else ():
        found = place.text.find(words)
        if found >= 0:
            return place.index, found, found + len(words)
    return places[-1].index, None, None


def _fits(text: str, spot: tuple[int, int], words: str) -> bool:
    """Whether the words are there, or begin there and go on in the next part."""
    there = text[spot[0] : spot[1]]
    return not words or there == words or (spot[1] >= len(text) and words.startswith(there))


def _characters(place: _Place, start: int, end: int) -> tuple[int, int] | None:
    """Return byte offsets into a text as offsets in characters."""
    body = place.text.encode("utf-8", "replace")
    if not 0 <= start < end or start >= len(body):
        return None
    first = len(body[:start].decode("utf-8", "ignore"))
    return first, first + len(body[start:end].decode("utf-8", "ignore"))


def _objects(value: Any) -> list[Wire]:
    return [item for item in value if is_object(item)] if is_array(value) else []


def _word(inside: Wire, name: str) -> str | None:
    value = inside.get(name)
    return value if isinstance(value, str) and value else None


def _count(inside: Wire, name: str) -> int:
    value = inside.get(name)
    return value if isinstance(value, int) else 0
