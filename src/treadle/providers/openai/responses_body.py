"""The body of a Responses request, in which each message is encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from treadle.messages import Thread
from treadle.ports.model import DEFAULT_SETTINGS, ModelRequest, ModelSettings, ToolSpec
from treadle.providers._json import decode, encode
from treadle.providers._tools import parted, with_added
from treadle.providers.openai.chat_body import HEADS, KEPT, LOOSE, cache_key, drop_first_comma
from treadle.providers.openai.chat_wire import BEGIN, Wire
from treadle.providers.openai.responses_calls import Calls
from treadle.providers.openai.responses_dialect import ResponsesDialect
from treadle.providers.openai.responses_options import wire_settings, wire_tools
from treadle.providers.openai.responses_quick import quick
from treadle.providers.openai.responses_wire import special_calls, wire_items

_WHOLE = frozenset({"model", "input", "instructions", "tools"})
_CONTINUED = frozenset({"previous_response_id", "conversation", "prompt"})
"""Fields with which the server knows what was said: then there may be no input."""
_NO_TOOLS: tuple[list[Wire], bytes] = ([], b"")


class _Encoded(Struct):
    """What became of the first `count` messages of a thread. Never changed: threads may share it.

    `chunks[0]` is the oldest of them in one piece, every other chunk is one message; each item in
    them has a comma before it. `calls` are those that want a result of their own kind.
    """

    count: int
    chunks: list[bytes]
    calls: Calls


class ResponsesEncoder:
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
        "_tails",
        "_tools",
        "model",
    )

    def __init__(
        self,
        model: str,
        dialect: ResponsesDialect,
        defaults: ModelSettings = DEFAULT_SETTINGS,
        *,
        hosted_tools: Iterable[Wire] = (),
    ) -> None:
        self.model = model
        self._dialect = dialect
        self._defaults = defaults
        self._hosted = [dict(tool) for tool in hosted_tools]
        self._key = f"openai_responses {dialect!r}"
        self._heads: dict[str, bytes] = {}
        self._tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], list[Wire], bytes]] = {}
        self._tails: dict[tuple[int | bool, ...], tuple[object, bytes]] = {}

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        return self._defaults.merged(request.settings)

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body as JSON.

        Raises:
            ConfigError: a setting would change what the model does, and the protocol lacks it.
            InvalidInput: a call of a computer was answered without a screenshot.
        """
        extra = request.settings.extra_body or self._defaults.extra_body
        if extra and not _WHOLE.isdisjoint(extra):
            return self._overridden(request, extra, stream=stream)
        chunks: list[bytes | memoryview] = [self._head(request.system)]
        said = self._messages(request.messages)
        goes_on = any(said) or (extra and not _CONTINUED.isdisjoint(extra))
        chunks += said if goes_on else (b"," + encode(BEGIN),)
        drop_first_comma(chunks)
        chunks.append(b"]")
        tools, offered = self._offered(request.tools)
        if tools:
            chunks.append(offered)
        chunks.append(self._tail(request, tools, stream=stream))
        if self._dialect.cache_key and request.conversation_id:
            chunks.append(cache_key(request.conversation_id, extra))
        chunks.append(b"}")
        return b"".join(chunks)

    def _overridden(self, request: ModelRequest, extra: Wire, *, stream: bool) -> bytes:
        """Return a body in which `extra_body` replaces model or input, or brings tools."""
        rest, whole, added = parted(extra, _WHOLE)
        settings = replace(self.settings(request), extra_body=rest)
        hosted = with_added(self._hosted, added)
        plain = ResponsesEncoder(self.model, self._dialect, hosted_tools=hosted)
        body = plain.body(replace(request, settings=settings), stream=stream)
        return encode({**decode(body), **whole}) if whole else body

    def _head(self, system: str) -> bytes:
        found = self._heads.get(system)
        if found is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            wire = {"model": self.model, "instructions": system}
            if not system:
                del wire["instructions"]
            found = self._heads[system] = encode(wire)[:-1] + b',"input":['
        return found

    def _offered(self, tools: tuple[ToolSpec, ...]) -> tuple[list[Wire], bytes]:
        if not tools and not self._hosted:
            return _NO_TOOLS
        key = tuple(map(id, tools))
        found = self._tools.get(key)
        if found is None:
            if len(self._tools) >= KEPT:
                self._tools.clear()
            wires = [*wire_tools(tools), *self._hosted]
            # The tools are kept beside, so that their identities stay theirs.
            found = self._tools[key] = (tools, wires, b',"tools":' + encode(wires))
        return found[1], found[2]

    def _tail(self, request: ModelRequest, tools: list[Wire], *, stream: bool) -> bytes:
        settings, output = request.settings, request.output
        key = (id(settings), id(output), id(tools), stream)
        found = self._tails.get(key)
        if found is None:
            if len(self._tails) >= KEPT:
                self._tails.clear()
            wire = wire_settings(
                self.settings(request), self._dialect, output=output, tools=tools, stream=stream
            )
            body = b"," + encode(wire)[1:-1] if wire else b""
            found = self._tails[key] = ((settings, output, tools), body)
        return found[1]

    def _messages(self, thread: Thread) -> list[bytes]:
        """Return the messages' bytes, and keep them in the thread."""
        known = thread.encoded.get(self._key)
        if not isinstance(known, _Encoded):
            known = _Encoded(0, [b""], {})
        if known.count != len(thread):
            known = thread.encoded[self._key] = self._extended(known, thread)
        return known.chunks

    def _extended(self, known: _Encoded, thread: Thread) -> _Encoded:
        """Return what is known with the messages of the thread that are new."""
        chunks, calls, dialect = list(known.chunks), known.calls, self._dialect
        for message in islice(thread, known.count, None):
            ready = quick(message, calls)
            if ready is None:
                special = special_calls(message, dialect)
                calls = {**calls, **special} if special else calls
                items = wire_items(message, dialect, calls)
                ready = b"".join([b"," + encode(item) for item in items])
            chunks.append(ready)
        if len(chunks) > LOOSE:
            old = len(chunks) - LOOSE // 4
            chunks[:old] = [b"".join(chunks[:old])]
        return _Encoded(len(thread), chunks, calls)
