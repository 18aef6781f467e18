"""The body of a Messages request, in which each message is encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from treadle.messages import Opaque, Thread
from treadle.ports.model import (
    DEFAULT_SETTINGS,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    PromptCache,
    ToolSpec,
)
from treadle.providers._json import decode, encode, object_schema
from treadle.providers._tools import parted, with_added
from treadle.providers.anthropic.blocks import Wire, sent_name
from treadle.providers.anthropic.claude import Claude
from treadle.providers.anthropic.dialect import PROTOCOL, MessagesDialect
from treadle.providers.anthropic.options import asked_in_words, sent_schema, wire_options
from treadle.providers.anthropic.turns import MARK, Turns, ended, extended
from treadle.values import is_object

KEPT = 256
"""So many encoded sets of tools, and of settings, are kept."""
HEADS = 32
"""So many encoded system prompts are kept; they may be long."""
_WHOLE = frozenset({"model", "messages", "tools", "system"})
_SHORT = b',"cache_control":{"type":"ephemeral"}'
_LONG = b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
_USER_TURN = b',{"role":"user"'


class AnthropicTool(ToolSpec, frozen=True):
    """A tool with fields of this protocol's own: `strict`, a cache mark, or a tool of the server's.

    `provider` is as on parts: what has a ``"type"`` is sent as it stands, other fields are added.
    """

    provider: Opaque | None = None


class MessagesEncoder:
    """Makes request bodies for one model on one server.

    What was made of a thread's messages is kept in `Thread.encoded`, so a turn costs what is new
    in it; tools and settings are kept here by identity. `hosted_tools` are offered with every
    request: tools that the server runs itself, as it wants to be told of them.

    Parts of the prompt are marked for the server's cache as `ModelSettings.prompt_cache` says: the
    end of the tools, of the system prompt, of the user's last turn and of the one before. Unset, it
    is "short" for requests with tools or earlier replies, which are likely to be continued soon.
    Where somebody has marked a part by hand, there are no other marks.
    """

    __slots__ = (
        "_defaults",
        "_dialect",
        "_heads",
        "_hosted",
        "_key",
        "_model",
        "_tails",
        "_tools",
        "model",
    )

    def __init__(
        self,
        model: str,
        traits: Claude,
        dialect: MessagesDialect,
        *,
        defaults: ModelSettings = DEFAULT_SETTINGS,
        hosted_tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.model = model
        self._model = traits
        self._dialect = dialect
        self._defaults = defaults
        self._hosted = [dict(tool) for tool in hosted_tools]
        self._key = f"{PROTOCOL} {dialect!r}"
        self._heads: dict[tuple[str, bytes], bytes] = {}
        self._tools: dict[tuple[int | bytes, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}
        self._tails: dict[tuple[int | bool, ...], tuple[object, bytes]] = {}

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        return self._defaults.merged(request.settings)

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body as JSON.

        Raises:
            ConfigError: a setting that the model refuses and that cannot be left out.
        """
        settings = self.settings(request)
        extra = settings.extra_body
        if extra and not _WHOLE.isdisjoint(extra):
            return self._overridden(request, settings, extra, stream=stream)
        turns = ended(self._turns(request.messages), prefill=self._model.prefill)
        tail = self._tail(request, settings, stream=stream)
        tools = self._offered(request.tools, b"") or self._unused(turns)
        is_marked = turns.marks or MARK in (extra or ()) or self._has_mark(request.tools)
        mark = b"" if is_marked else self._mark(settings.prompt_cache, turns, tools)
        chunks: list[bytes | memoryview] = [
            self._head(self._system(request), mark),
            self._offered(request.tools, mark) or tools,
            b',"messages":[',
            *_listed(turns, mark),
            b"]",
            tail,
        ]
        if turns.container and (turns.results or turns.paused) and "container" not in (extra or ()):
            chunks.append(b',"container":' + encode(turns.container))
        chunks.append(b"}")
        return b"".join(chunks)

    def needs_files(self, request: ModelRequest) -> bool:
        """Whether a message names a file that was uploaded before."""
        return self._turns(request.messages).files

    def _overridden(
        self, request: ModelRequest, settings: ModelSettings, extra: Wire, *, stream: bool
    ) -> bytes:
        """Return a body in which `extra_body` replaces model or prompt, or brings tools.

        Who replaces sets the cache marks, too.
        """
        rest, whole, added = parted(extra, _WHOLE)
        hosted = with_added(self._hosted, added)
        cache = settings.prompt_cache or ("off" if whole else None)
        plain = MessagesEncoder(self.model, self._model, self._dialect, hosted_tools=hosted)
        asked = replace(request, settings=replace(settings, extra_body=rest, prompt_cache=cache))
        body = plain.body(asked, stream=stream)
        if not whole:
            return body
        wire: Wire = decode(body) | whole
        if not wire.get("tools"):  # an empty list takes the stand-ins away, and so the choice
            wire = {name: value for name, value in wire.items() if name not in _OF_TOOLS}
        return encode({name: value for name, value in wire.items() if value is not None})

    def _turns(self, thread: Thread) -> Turns:
        """Return the messages as turns, and keep them in the thread."""
        known = thread.encoded.get(self._key)
        if not isinstance(known, Turns):
            known = Turns()
        if known.count != len(thread):
            new = islice(thread, known.count, None)
            known = thread.encoded[self._key] = extended(known, new, self._dialect)
        return known

    def _system(self, request: ModelRequest) -> str:
        """Return the system prompt, which also asks for a schema that the server cannot hold."""
        output = request.output
        if output is None or sent_schema(output, self._model) is not None:
            return request.system
        words = asked_in_words(output)
        return f"{request.system}\n\n{words}" if request.system.strip() else words

    def _head(self, system: str, mark: bytes) -> bytes:
        found = self._heads.get((system, mark))
        if found is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            found = b'{"model":' + encode(self.model)
            if system.strip():
                text = encode(system)
                block = b'[{"type":"text","text":' + text + mark + b"}]" if mark else text
                found += b',"system":' + block
            self._heads[system, mark] = found
        return found

    def _offered(self, tools: tuple[ToolSpec, ...], mark: bytes) -> bytes:
        """Return the tools; the last one that is not loaded later gets the mark."""
        key = (mark, *map(id, tools))
        found = self._tools.get(key)
        if found is None:
            if len(self._tools) >= KEPT:
                self._tools.clear()
            wires = [*map(wire_tool, tools), *self._hosted]
            if mark:
                place = next((n for n in range(len(wires))[::-1] if _is_loaded(wires[n])), None)
                if place is not None:
                    wires[place] = {**wires[place], **decode(b"{" + mark[1:] + b"}")}
            body = b',"tools":' + encode(wires) if wires else b""
            # The tools are kept beside, so that their identities stay theirs.
            found = self._tools[key] = (tools, body)
        return found[1]

    def _unused(self, turns: Turns) -> bytes:
        """Return stand-ins for tools that were called before and are not offered any more.

        The server wants every tool of the conversation to be defined, also when none may be used.
        """
        if not turns.called:
            return b""
        wires = [
            {"name": sent_name(name), "input_schema": {"type": "object"}}
            for name in sorted(turns.called)
        ]
        return b',"tools":' + encode(wires) + b',"tool_choice":{"type":"none"}'

    def _tail(self, request: ModelRequest, settings: ModelSettings, *, stream: bool) -> bytes:
        given, output = request.settings, request.output
        has_tools = bool(request.tools or self._hosted)
        key = (id(given), id(output), has_tools, stream)
        found = self._tails.get(key)
        if found is None:
            if len(self._tails) >= KEPT:
                self._tails.clear()
            body = self._fields(settings, output, has_tools=has_tools, stream=stream)
            found = self._tails[key] = ((given, output), body)
        return found[1]

    def _fields(
        self, settings: ModelSettings, output: OutputSchema | None, *, has_tools: bool, stream: bool
    ) -> bytes:
        wire = wire_options(
            settings, self._model, output=output, has_tools=has_tools, stream=stream
        )
        extra = {k: v for k, v in (settings.extra_body or {}).items() if k != "stream"}
        wire = joined(wire, extra)
        return b"," + encode(wire)[1:-1] if wire else b""

    def _has_mark(self, tools: tuple[ToolSpec, ...]) -> bool:
        """Whether somebody has marked a tool."""
        own = [tool.provider for tool in tools if isinstance(tool, AnthropicTool) and tool.provider]
        wires = [*(provider.get(PROTOCOL) for provider in own), *self._hosted]
        return any(is_object(wire) and wire.get(MARK) is not None for wire in wires)

    def _mark(self, cache: PromptCache | None, turns: Turns, tools: bytes) -> bytes:
        """Return the mark that four places of the request get, as many as there may be."""
        if cache is None and self._dialect.marks and (tools or turns.has_replies):
            return _SHORT
        return {"short": _SHORT, "long": _LONG}.get(cache or "", b"")


_OF_TOOLS = frozenset({"tools", "tool_choice"})


def wire_tool(tool: ToolSpec) -> Wire:
    """Return a tool as it is offered."""
    kept: Wire = {}
    if isinstance(tool, AnthropicTool) and tool.provider:
        kept = dict(tool.provider.get(PROTOCOL) or {})
    if kept.get("type", "custom") != "custom":
        return kept
    schema, words = object_schema(tool.parameters)
    description = "\n\n".join(text for text in (tool.description, words) if text)
    wire: Wire = {"name": tool.name, "description": description, "input_schema": schema}
    if not description:
        del wire["description"]
    return wire | kept


def joined(wire: Wire, extra: Wire) -> Wire:
    """Return fields with others laid over them; objects are merged, None takes a field away."""
    merged = dict(wire)
    for name, value in extra.items():
        known = merged.get(name)
        if name == "output_config" and is_object(known) and is_object(value):
            value = {**known, **value}
        merged[name] = value
    return {name: value for name, value in merged.items() if value is not None}


def _is_loaded(tool: Wire) -> bool:
    return not tool.get("defer_loading") and MARK not in tool


def _listed(turns: Turns, mark: bytes) -> list[bytes | memoryview]:
    """Return the turns, with the mark on the user's last one and the one before."""
    listed: list[bytes] = list(turns.closed)
    if turns.side:
        listed.append(turns.last)
    if mark:
        asked = (n for n in range(len(listed) - 1, 0, -1) if listed[n].startswith(_USER_TURN))
        for place in islice(asked, 2):
            listed[place] = b"".join((listed[place][:-3], mark, b"}]}"))
    first = 0 if listed[0] else 1
    # A view without the comma: the first piece may be most of the body.
    return [memoryview(listed[first])[1:], *listed[first + 1 :]]
