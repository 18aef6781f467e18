"""Tool output that is too long for the model: kept whole, while the model gets its ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from treadle.errors import StoreError, ToolError
from treadle.messages import Artefact, Text, ToolResult
from treadle.ports.artefacts import Artefacts
from treadle.ports.store import Blobs
from treadle.tools.names import nearest
from treadle.tools.outcome import MOST_ERROR_BYTES, middle_left_out
from treadle.tools.pages import head_of, tail_of
from treadle.values import clean
from treadle.values.logs import logger

log = logger(__name__)

READER = "read_output"
LEAST = 1_000
"""So many bytes of a result fit into any window."""
SHARE = 3 / 8
"""Bytes of one result for each token of the model's window: about an eighth of it."""
LARGE = 1_000_000  # characters, from which on a thread encodes them
ROOMY = 800  # bytes, from which the marker may say which lines are left out


class Shelf:
    """The artefacts of one conversation: in its store, or in memory where it has none.

    Without a store they live as long as the run and its result.
    """

    __slots__ = ("_bound", "_conversation_id", "_store", "known", "texts")

    def __init__(
        self,
        store: Blobs | None,
        conversation_id: str,
        known: Mapping[str, Artefact],
        window: int | None,
    ) -> None:
        self._store = store
        self._conversation_id = conversation_id
        self._bound = None if window is None else max(LEAST, int(window * SHARE))
        self.known = dict(known)
        self.texts: dict[str, str] = {}

    def most(self, max_output: int) -> int:
        """Return the least of the tool's limit and a share of the model's window."""
        return max_output if self._bound is None else min(max_output, self._bound)

    async def keep(self, content: bytes, lines: int) -> Artefact:
        """Keep a text whole; the same one twice is kept once."""
        if self._store is None:
            digest = hashlib.sha256(content).hexdigest()
        else:
            digest = await self._store.put(self._conversation_id, content)
        artefact = Artefact(digest, len(content), lines)
        if self._store is None:
            self.texts[artefact.id] = content.decode()
        self.known[artefact.id] = artefact
        return artefact

    async def read(self, id: str) -> bytes:
        """Return a text; see the port."""
        artefact = self.known.get(id)
        if artefact is None:
            there = ", ".join(nearest(id, list(self.known))[:5]) or "there is none"
            raise ToolError(f"There is no output {id!r:.80} in this conversation: {there}.")
        if self._store is not None:
            return await self._store.get(self._conversation_id, artefact.digest)
        return self.texts[id].encode()


def short_of(least_output: int, artefacts: Artefacts | None) -> int:
    """Return how many characters fit whichever tool they are of."""
    most = min(least_output, MOST_ERROR_BYTES)
    return (most if artefacts is None else artefacts.most(most)) // 4


def is_short(result: ToolResult, short: int) -> bool:
    """Whether a result is one text of at most so many characters, as most are."""
    parts = result.parts
    return len(parts) == 1 and type(text := parts[0]) is Text and len(text.text) <= short


def fits(result: ToolResult, artefacts: Artefacts | None, max_output: int) -> bool:
    """Whether the model gets a result's text as it is."""
    text = result.text
    most = max_output if artefacts is None else artefacts.most(max_output)
    if len(text) * 4 <= most or len(text) > most:
        return len(text) * 4 <= most
    return len(clean(text).encode()) <= most


async def fitted(
    result: ToolResult, max_output: int, artefacts: Artefacts | None, reader: str
) -> ToolResult:
    """Return a result that does not fit as the model gets it, with the whole text kept.

    Where it cannot be kept, the model is told its size; nothing else is lost for that.
    """
    most = max_output if artefacts is None else artefacts.most(max_output)
    text = result.text
    if len(text) < LARGE:
        content, lines = _in_bytes(text)
    else:
        content, lines = await asyncio.to_thread(_in_bytes, text)
    artefact = None
    if artefacts is not None:
        try:
            artefact = await artefacts.keep(content, lines)
        except (StoreError, OSError) as error:
            log.warning("an output of %d bytes could not be kept: %s", len(content), error)
    if artefact is None:
        shown = ends_of(content, middle_left_out(len(content)), most)
    else:
        shown = shortened(content, artefact, most, reader)
    parts = [part for part in result.parts if type(part) is not Text]
    place = next(n for n, part in enumerate(result.parts) if type(part) is Text)
    parts.insert(place, Text(shown))
    return replace(result, parts=tuple(parts), packed=UNSET, artefact=artefact)


def shortened(content: bytes, artefact: Artefact, most: int, reader: str) -> str:
    """Return the ends of a text with a marker between, that says how to read what is left out."""
    if most < ROOMY:
        way = f'{reader}(id="{artefact.id}")'
        return ends_of(
            content, f"\n[... {artefact.size} bytes in all; {way} reads them ...]\n", most
        )
    room = most - len(_marker(artefact, reader, artefact.size, artefact.size, "bytes"))
    head, head_lines = head_of(content, room - room // 2)
    tail, tail_lines = tail_of(content, room // 2)
    if head_lines and tail_lines:
        first, last, what = head_lines + 1, artefact.lines - tail_lines, "lines"
    else:
        first, last = len(head.encode()) + 1, artefact.size - len(tail.encode())
        what = "bytes"
    return f"{head}{_marker(artefact, reader, first, last, what)}{tail}"


def ends_of(content: bytes, marker: str, most: int) -> str:
    """Return the ends of a text with this marker between, in so many bytes."""
    room = max(0, most - len(marker))
    return f"{head_of(content, room - room // 2)[0]}{marker}{tail_of(content, room // 2)[0]}"


def _in_bytes(text: str) -> tuple[bytes, int]:
    """Return a text in UTF-8, and how many lines it has."""
    content = clean(text).encode()
    return content, content.count(b"\n") + (not content.endswith(b"\n"))


def _marker(artefact: Artefact, reader: str, first: int, last: int, what: str) -> str:
    by = "" if what == "lines" else ', by="bytes"'
    return (
        f"\n[... {artefact.size} bytes in all, {artefact.lines} lines; {what} {first} to {last} "
        f'are left out here. {reader}(id="{artefact.id}", start={first}{by}) reads on, '
        f'{reader}(id="{artefact.id}", search="...") finds a text. ...]\n'
    )
