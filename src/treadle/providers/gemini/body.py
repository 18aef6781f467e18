"""The body of a Gemini request, in which each message is encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.messages import Thread
from treadle.ports.model import DEFAULT_SETTINGS, ModelRequest, ModelSettings
from treadle.providers._json import decode, encode
from treadle.providers.gemini.dialect import TURN, GeminiDialect, Wire
from treadle.providers.gemini.pieces import Kind, Names, Piece, joined, pieces_of
from treadle.providers.gemini.wire import wire_settings

LOOSE = 64
"""So many encoded turns are kept apart before the older ones become one piece."""
HEADS = 32
"""So many encoded system prompts are kept; they may be long."""
KEPT = 256
"""So many encoded sets of tools and settings are kept."""

_WHOLE = frozenset({"contents", "systemInstruction"})
_NOTHING = b'{"parts":[{"text":""}],"role":"user"}'
"""What a user says in a conversation that the model is to begin."""


class _Encoded(Struct):
    """What became of the first `count` messages of a thread. Never changed: threads may share it.

    `chunks[0]` is the oldest turns in one piece, every other chunk is one turn, each with a comma
    before it. `parts` are those of the turn that more messages may be merged into; neighbours of
    one kind are one turn. `names` are the calls that wait for their results.
    """

    count: int
    chunks: list[bytes]
    first: Kind | None
    kind: Kind
    parts: tuple[bytes, ...]
    extra: Wire | None
    names: Names


class GeminiEncoder:
    """Makes request bodies for one model on one server.

    What was made of a thread's messages is kept in `Thread.encoded`, so a turn costs what is new
    in it; tools and settings are kept here by identity. `hosted_tools` are offered with every
    request.
    """

    __slots__ = ("_defaults", "_dialect", "_heads", "_hosted", "_key", "_tails")

    def __init__(
        self,
        dialect: GeminiDialect,
        defaults: ModelSettings = DEFAULT_SETTINGS,
        *,
        hosted_tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._dialect = dialect
        self._defaults = defaults
        self._hosted = [dict(tool) for tool in hosted_tools]
        self._key = f"gemini {dialect!r}"
        self._heads: dict[str, bytes] = {}
        self._tails: dict[tuple[object, ...], tuple[object, bytes]] = {}

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        return self._defaults.merged(request.settings)

    def body(self, request: ModelRequest) -> bytes:
        """Return the whole body as JSON.

        Raises:
            ConfigError: the API cannot be asked for this.
        """
        extra = request.settings.extra_body or self._defaults.extra_body
        if extra and not _WHOLE.isdisjoint(extra):
            return self._overridden(request, extra)
        chunks: list[bytes | memoryview] = [self._head(request.system)]
        chunks += self._contents(request.messages)
        chunks.append(b"]")
        chunks.append(self._tail(request))
        return b"".join(chunks)

    def _overridden(self, request: ModelRequest, extra: Wire) -> bytes:
        """Return a body in which `extra_body` replaces the contents or the system prompt."""
        rest = {name: value for name, value in extra.items() if name not in _WHOLE}
        settings = replace(self.settings(request), extra_body=rest)
        body = self._plain().body(replace(request, settings=settings))
        return encode({**decode(body), **{name: extra[name] for name in _WHOLE & extra.keys()}})

    def _plain(self) -> GeminiEncoder:
        return GeminiEncoder(self._dialect, hosted_tools=self._hosted)

    def _head(self, system: str) -> bytes:
        found = self._heads.get(system)
        if found is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            found = b"{"
            if system:
                found += b'"systemInstruction":{"parts":[{"text":' + encode(system) + b"}]},"
            found = self._heads[system] = found + b'"contents":['
        return found

    def _tail(self, request: ModelRequest) -> bytes:
        """Return everything that follows the contents."""
        settings, output, tools = request.settings, request.output, request.tools
        key = (id(settings), id(output), *map(id, tools))
        found = self._tails.get(key)
        if found is None:
            if len(self._tails) >= KEPT:
                self._tails.clear()
            wire = wire_settings(
                self.settings(request),
                self._dialect,
                output=output,
                tools=tools,
                hosted=self._hosted,
            )
            body = b"," + encode(wire)[1:] if wire else b"}"
            # What the key is made of is kept beside, so that its identities stay theirs.
            found = self._tails[key] = ((settings, output, tools), body)
        return found[1]

    def _contents(self, thread: Thread) -> Sequence[bytes | memoryview]:
        """Return the contents' bytes, and keep them in the thread."""
        known = thread.encoded.get(self._key)
        if not isinstance(known, _Encoded):
            known = _Encoded(0, [b""], None, "user", (), None, {})
        if known.count != len(thread):
            known = thread.encoded[self._key] = self._extended(known, thread)
        chunks: list[bytes | memoryview] = list(known.chunks)
        if known.parts:
            chunks.append(joined(known.parts, known.kind, known.extra))
        if known.first == "model" or not any(chunks):
            return [_NOTHING, *chunks]  # the user has the first word
        _drop_first_comma(chunks)
        return chunks

    def _extended(self, known: _Encoded, thread: Thread) -> _Encoded:
        """Return what is known with the messages of the thread that are new."""
        turns = _Turns(known)
        for message in islice(thread, known.count, None):
            for piece in pieces_of(message, self._dialect, turns.names):
                turns.add(piece)
        return turns.encoded(len(thread))


class _Turns:
    """Turns that are being added to those that are known."""

    __slots__ = ("_chunks", "_extra", "_first", "_kind", "_parts", "names")

    def __init__(self, known: _Encoded) -> None:
        self._chunks = list(known.chunks)
        self._first: Kind | None = known.first
        self._kind: Kind = known.kind
        self._parts = list(known.parts)
        self._extra = known.extra
        self.names = dict(known.names)

    def add(self, piece: Piece) -> None:
        """Merge a piece into the open turn, or close that and open another."""
        stands = piece.extra.get(TURN) if piece.extra else None
        if self._parts and (stands == "joined" or (not piece.extra and self._joins(piece))):
            self._parts += piece.parts
            return
        self.close()
        if self._first is None:
            self._first = "user" if stands else piece.kind
        self._kind, self._parts, self._extra = piece.kind, list(piece.parts), piece.extra

    def close(self) -> None:
        if self._parts:
            self._chunks.append(joined(self._parts, self._kind, self._extra))
            self._parts = []

    def encoded(self, count: int) -> _Encoded:
        """Return all turns as they are to be kept."""
        chunks = self._chunks
        if len(chunks) > LOOSE:
            old = len(chunks) - LOOSE // 4
            chunks[:old] = [b"".join(chunks[:old])]
        return _Encoded(
            count, chunks, self._first, self._kind, tuple(self._parts), self._extra, self.names
        )

    def _joins(self, piece: Piece) -> bool:
        return piece.kind == self._kind and not self._extra


def _drop_first_comma(chunks: list[bytes | memoryview]) -> None:
    for place, chunk in enumerate(chunks):
        if chunk:
            chunks[place] = memoryview(chunk)[1:]  # a view: the first chunk may be most of the body
            return
