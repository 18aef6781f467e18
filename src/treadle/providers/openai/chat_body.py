"""The body of a Chat Completions request, in which each message is encoded once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from treadle.messages import Thread
from treadle.ports.model import DEFAULT_SETTINGS, ModelRequest, ModelSettings, ToolSpec
from treadle.providers._json import decode, encode
from treadle.providers._tools import parted, with_added
from treadle.providers.openai.chat_quick import quick
from treadle.providers.openai.chat_wire import BEGIN, Wire, wire_messages, wire_settings, wire_tools
from treadle.providers.openai.dialect import ChatDialect
from treadle.values import is_array

LOOSE = 64
"""So many encoded messages are kept apart before the older ones become one piece."""
HEADS = 32
"""So many encoded system prompts are kept; they may be long."""
KEPT = 256
"""So many encoded sets of tools, and of settings, are kept."""

_WHOLE = frozenset({"model", "messages", "tools"})


class _Encoded(Struct):
    """What became of the first `count` messages of a thread. Never changed: threads may share it.

    `chunks[0]` is the oldest of them in one piece, every other chunk is one message; each object
    in them has a comma before it. `open` is the object that more messages may be merged into,
    where neighbours merge.
    """

    count: int
    chunks: list[bytes]
    open: Wire | None
    first: Wire | None


class ChatEncoder:
    """Makes request bodies for one model on one server.

    What was made of a thread's messages is kept in `Thread.encoded`, so a turn costs what is new
    in it; tools and settings are kept here by identity. `hosted_tools` are offered with every
    request.
    """

    __slots__ = (
        "_defaults",
        "_dialect",
        "_heads",
        "_hosted",
        "_key",
        "_merges",
        "_tails",
        "_tools",
        "model",
    )

    def __init__(
        self,
        model: str,
        dialect: ChatDialect,
        defaults: ModelSettings = DEFAULT_SETTINGS,
        *,
        hosted_tools: Iterable[Wire] = (),
    ) -> None:
        self.model = model
        self._dialect = dialect
        self._defaults = defaults
        self._hosted = list(hosted_tools)
        self._merges = dialect.merge_roles or not dialect.system_role
        self._key = f"openai_chat {dialect!r}"
        self._heads: dict[str, bytes] = {}
        self._tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}
        self._tails: dict[tuple[int | bool, ...], tuple[object, bytes]] = {}

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        return self._defaults.merged(request.settings)

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body as JSON."""
        extra = request.settings.extra_body or self._defaults.extra_body
        if extra and not _WHOLE.isdisjoint(extra):
            return self._overridden(request, extra, stream=stream)
        chunks: list[bytes | memoryview] = [self._head(request.system)]
        said = self._messages(request.messages, request.system)
        if not any(said) and not (request.system and self._dialect.system_role):
            said = (b"," + encode(BEGIN),)
        chunks += said
        if not request.system or not self._dialect.system_role:
            drop_first_comma(chunks)
        chunks.append(b"]")
        if request.tools or self._hosted:
            chunks.append(self._offered(request.tools))
        chunks.append(self._tail(request, stream=stream))
        if self._dialect.cache_key and request.conversation_id:
            chunks.append(cache_key(request.conversation_id, extra))
        chunks.append(b"}")
        return b"".join(chunks)

    def _overridden(self, request: ModelRequest, extra: Wire, *, stream: bool) -> bytes:
        """Return a body in which `extra_body` replaces model or messages, or brings tools."""
        rest, whole, added = parted(extra, _WHOLE)
        settings = replace(self.settings(request), extra_body=rest)
        plain = ChatEncoder(self.model, self._dialect, hosted_tools=with_added(self._hosted, added))
        body = plain.body(replace(request, settings=settings), stream=stream)
        return encode({**decode(body), **whole}) if whole else body

    def _head(self, system: str) -> bytes:
        found = self._heads.get(system)
        if found is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            found = b'{"model":' + encode(self.model) + b',"messages":['
            if system and self._dialect.system_role:
                found += encode({"role": "system", "content": system})
            self._heads[system] = found
        return found

    def _offered(self, tools: tuple[ToolSpec, ...]) -> bytes:
        key = tuple(map(id, tools))
        found = self._tools.get(key)
        if found is None:
            if len(self._tools) >= KEPT:
                self._tools.clear()
            wires = [*wire_tools(tools), *self._hosted]
            # The tools are kept beside, so that their identities stay theirs.
            found = self._tools[key] = (tools, b',"tools":' + encode(wires))
        return found[1]

    def _tail(self, request: ModelRequest, *, stream: bool) -> bytes:
        settings, output = request.settings, request.output
        has_tools = bool(request.tools or self._hosted)
        key = (id(settings), id(output), has_tools, stream)
        found = self._tails.get(key)
        if found is None:
            if len(self._tails) >= KEPT:
                self._tails.clear()
            wire = wire_settings(
                self.settings(request),
                self._dialect,
                output=output,
                has_tools=has_tools,
                stream=stream,
            )
            body = b"," + encode(wire)[1:-1] if wire else b""
            found = self._tails[key] = ((settings, output), body)
        return found[1]

    def _messages(self, thread: Thread, system: str) -> Sequence[bytes]:
        """Return the messages' bytes, and keep them in the thread."""
        known, first = thread.encoded.get(self._key), None
        if system and not self._dialect.system_role:
            first = {"role": "user", "content": system}
        if not isinstance(known, _Encoded) or known.first != first:
            known = _Encoded(0, [b""], first, first)
        if known.count != len(thread):
            known = thread.encoded[self._key] = self._extended(known, thread)
        if known.open:
            return [*known.chunks, b"," + encode(known.open)]
        return known.chunks

    def _extended(self, known: _Encoded, thread: Thread) -> _Encoded:
        """Return what is known with the messages of the thread that are new."""
        chunks, last, dialect = list(known.chunks), known.open, self._dialect
        for message in islice(thread, known.count, None):
            ready = None if self._merges else quick(message, dialect)
            if ready is not None:
                chunks.append(ready)
                continue
            wires = wire_messages(message, dialect)
            if self._merges:
                closed, last = self._merged(last, wires, known.first)
                chunks.append(closed)
            else:
                chunks.append(b"".join([b"," + encode(wire) for wire in wires]))
        if len(chunks) > LOOSE:
            old = len(chunks) - LOOSE // 4
            chunks[:old] = [b"".join(chunks[:old])]
        return _Encoded(len(thread), chunks, last, known.first)

    def _merged(
        self, last: Wire | None, wires: list[Wire], first: Wire | None
    ) -> tuple[bytes, Wire | None]:
        """Return the objects that a message closes, and the one that is open after it."""
        closed: list[bytes] = []
        for wire in wires:
            if wire["role"] == "system":
                wire["role"] = "user"
            joins = self._dialect.merge_roles or last is first
            if last and joins and last["role"] == wire["role"] != "tool":
                last = _joined(last, wire)
                continue
            if last:
                closed.append(b"," + encode(last))
            last = wire
        return b"".join(closed), last


def _joined(first: Wire, second: Wire) -> Wire:
    """Return two neighbouring messages of one role as one; a blank line parts their texts."""
    merged = {**first, **second}
    contents = [wire["content"] for wire in (first, second) if wire.get("content")]
    if all(isinstance(content, str) for content in contents):
        merged["content"] = "\n\n".join(contents) if contents else None
    else:
        merged["content"] = [block for content in contents for block in _blocks(content)]
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    if calls:
        merged["tool_calls"] = calls
    return merged


def _blocks(content: object) -> list[Wire]:
    return content if is_array(content) else [{"type": "text", "text": content}]


def drop_first_comma(chunks: list[bytes | memoryview]) -> None:
    """Drop the comma before the first object; the first chunk, the head, has none."""
    for place, chunk in enumerate(chunks):
        if place and chunk:
            chunks[place] = memoryview(chunk)[1:]  # a view: the first chunk may be most of the body
            return


def cache_key(conversation_id: str, extra: Wire | None) -> bytes:
    """Return the field that keeps a conversation near its cache; at most 64 characters of it."""
    if extra and "prompt_cache_key" in extra:
        return b""
    if len(conversation_id) > 64:
        conversation_id = hashlib.sha256(conversation_id.encode()).hexdigest()
    return b',"prompt_cache_key":' + encode(conversation_id)
