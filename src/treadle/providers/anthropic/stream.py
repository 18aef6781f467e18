"""A streamed Messages reply, folded event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from treadle.errors import BadReply, IncompleteReply
from treadle.ports.model import ModelDelta, ModelReply, ReasoningPiece, TextPiece
from treadle.providers._failure import (
    NO_HEADERS,
    Asked,
    bad_reply,
    incomplete_reply,
    typed_error,
)
from treadle.providers._json import cleaned
from treadle.providers.anthropic.objects import (
    INEXACT,
    TextDelta,
    ThinkingDelta,
    Wire,
    WireBlock,
    WireMessage,
    decode_delta,
    decode_event,
    read_message,
    read_usage,
    take_end,
    text_in,
)
from treadle.providers.anthropic.reply import assembled, complaint_from
from treadle.values import clean, is_array, is_object

_DONE = b"[DONE]"
_WORDS = {"text": "text", "thinking": "thinking"}
"""The blocks that are made of words, and the field that holds these."""


class MessagesFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when a stop reason or ``message_stop`` came; `done` says that the latter did,
    and `spoke` that any event did. `headers` are the answer's, for error messages.
    """

    __slots__ = (
        "_asked",
        "_at",
        "_blocks",
        "_by_index",
        "_headers",
        "_message",
        "_origin",
        "_pieces",
        "done",
        "spoke",
    )

    def __init__(self, origin: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self._origin = origin
        self._asked = asked
        self._headers = headers
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._at = -1  # the index of the block of text that came last, and its pieces
        self._pieces: list[str] = []
        self._message = WireMessage()  # everything that is not content
        self.spoke = False
        self.done = False

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(block.said for block in self._blocks if block.kind == "text")

    @property
    def is_whole(self) -> bool:
        """Whether the server said that the reply is complete."""
        return self.done or self._message.stop_reason is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Return what the events in `payloads` add.

        Raises:
            ModelError: one of them is an error, typed as that error is.
            BadReply: one is no event at all.
        """
        deltas: list[ModelDelta] = []
        for payload in payloads:
            try:
                event = decode_delta(payload)
            except INEXACT:
                self._take(payload, deltas)
                continue
            delta = event.delta
            if isinstance(delta, TextDelta):
                text = delta.text
                if event.index == self._at and "\0" not in text:
                    if text:
                        self._pieces.append(text)
                        deltas.append(TextPiece(text))
                    continue
                self._say(event.index, text, deltas)
            elif isinstance(delta, ThinkingDelta):
                self._think(event.index, delta.thinking, deltas)
            else:
                self._find(event.index, "tool_use").inputs.append(delta.partial_json)
        return deltas

    def feed_last(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Like `feed` for an event whose end never came: it may be half of one."""
        with suppress(BadReply):
            return self.feed(payloads)
        return []

    def finish(self) -> ModelReply:
        """Return the reply, once the stream has ended.

        Raises:
            IncompleteReply: it ended too early, or was empty; trying again may help.
        """
        message = self._message
        empty = not self._blocks and message.stop_reason is None
        if not self.is_whole or empty:
            raise self.incomplete("The reply is empty" if empty else "The reply ended too early")
        message.blocks = [block.whole() for block in self._blocks]
        return assembled(message, self._origin, self._asked)

    def incomplete(self, what: str) -> IncompleteReply:
        """Return the error for a reply that is not whole."""
        return incomplete_reply(what, self._asked, self.partial)

    def _take(self, payload: bytes, deltas: list[ModelDelta]) -> None:
        """Take an event that may say anything; one of a type that we do not know says nothing."""
        if payload.strip() == _DONE:
            self.done = True
            return
        try:
            event = decode_event(payload)
        except ValueError as error:
            why = f"an event: {error}"
            problem = bad_reply(payload, self._asked, why, headers=self._headers)
            problem.partial = self.partial
            raise problem from error
        if event is None:
            return
        if event.get("type") == "error" or event.get("error"):
            complaint = complaint_from(cleaned(event))
            raise typed_error(complaint, self._asked, headers=self._headers, partial=self.partial)
        self.spoke = True
        self._fold(event, deltas)

    def _fold(self, event: Wire, deltas: list[ModelDelta]) -> None:
        match event.get("type"):
            case "message_start":
                self._begin(event.get("message"), deltas)
            case "message":
                self._begin(event, deltas)
            case "content_block_start" if is_object(block := event.get("content_block")):
                self._open(event.get("index"), block, deltas)
            case "content_block_delta" if is_object(delta := event.get("delta")):
                self._change(event.get("index"), delta, deltas)
            case "message_delta":
                self._end(event)
            case "message_stop":
                self.done = True
            case _:
                pass

    def _begin(self, wire: object, deltas: list[ModelDelta]) -> None:
        if not is_object(wire):
            return
        try:
            self._message = read_message(cleaned(wire))
        except ValueError:  # it has no content yet, whatever stands there
            self._message = read_message(cleaned({**wire, "content": None}))
        for block in self._message.blocks:
            self._open(None, block.fields, deltas)

    def _end(self, event: Wire) -> None:
        message = self._message
        delta = event.get("delta")
        if is_object(delta):
            take_end(message, delta)
        take_end(message, {k: v for k, v in event.items() if k != "delta"})
        message.usage = read_usage(event.get("usage"), message.usage)

    def _open(self, index: object, fields: Wire, deltas: list[ModelDelta]) -> _Block:
        """Begin a block; what its beginning says already is said."""
        block = _Block(fields)
        self._blocks.append(block)
        self._at = -1
        if isinstance(index, int):
            self._by_index[index] = block
        begun = text_in(fields, _WORDS.get(block.kind, ""))
        if begun:
            fields[_WORDS[block.kind]] = ""
            self._utter(block, begun, deltas)
        elif block.kind == "text" and isinstance(index, int):
            self._at, self._pieces = index, block.pieces
        return block

    def _find(self, index: object, kind: str) -> _Block:
        """Return the block that a delta adds to; a server may forget to begin it, or its index."""
        block = self._by_index.get(index) if isinstance(index, int) else None
        if block is None and not isinstance(index, int) and self._blocks:
            block = self._blocks[-1]
        if block is None or (block.kind != kind and (kind in _WORDS or block.kind in _WORDS)):
            return self._open(index, {"type": kind}, [])
        return block

    def _say(self, index: object, text: str, deltas: list[ModelDelta]) -> None:
        block = self._find(index, "text")
        self._utter(block, text, deltas)
        if isinstance(index, int) and not block.half:
            self._at, self._pieces = index, block.pieces
        else:
            self._at = -1

    def _think(self, index: object, text: str, deltas: list[ModelDelta]) -> None:
        self._utter(self._find(index, "thinking"), text, deltas)

    def _utter(self, block: _Block, text: str, deltas: list[ModelDelta]) -> None:
        whole = block.take(text)
        if whole:
            deltas.append(TextPiece(whole) if block.kind == "text" else ReasoningPiece(whole))

    def _change(self, index: object, delta: Wire, deltas: list[ModelDelta]) -> None:
        """Take a delta that is rare, or not quite as documented."""
        match delta.get("type"):
            case "text_delta":
                self._say(index, text_in(delta, "text") or "", deltas)
            case "thinking_delta":
                self._think(index, text_in(delta, "thinking") or "", deltas)
            case "input_json_delta":
                self._find(index, "tool_use").inputs.append(text_in(delta, "partial_json") or "")
            case "signature_delta":
                self._find(index, "thinking").fields["signature"] = delta.get("signature")
            case "citations_delta":
                self._find(index, "text").cite(delta.get("citation"))
            case _:
                if self._blocks:
                    self._find(index, self._blocks[-1].kind).merge(delta)


class _Block:
    """One content block that is coming in."""

    __slots__ = ("fields", "half", "inputs", "kind", "pieces")

    def __init__(self, fields: Wire) -> None:
        self.fields = fields
        self.kind = text_in(fields, "type") or ""
        self.pieces: list[str] = []
        self.inputs: list[str] = []
        self.half = ""

    @property
    def said(self) -> str:
        """The words so far."""
        return "".join(self.pieces)

    def take(self, text: str) -> str:
        """Return what more words say, without half of a character whose other half may follow."""
        text = self.half + text
        self.half = text[-1:] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        text = clean(text[:-1] if self.half else text)
        if text:
            self.pieces.append(text)
        return text

    def cite(self, citation: object) -> None:
        """Add a source."""
        known: object = self.fields.get("citations")
        if is_object(citation):
            self.fields["citations"] = [*(known if is_array(known) else ()), citation]

    def merge(self, delta: Wire) -> None:
        """Add to the fields that a delta names: texts grow, all else is replaced."""
        for name, value in delta.items():
            known = self.fields.get(name)
            if name == "type" or value is None:
                continue
            joins = isinstance(known, str) and isinstance(value, str)
            self.fields[name] = f"{known}{value}" if joins else value

    def whole(self) -> WireBlock:
        """Return the block, once nothing more comes."""
        fields: Wire = cleaned(self.fields)
        if self.kind in _WORDS:
            fields[_WORDS[self.kind]] = self.said + (clean(self.half) if self.half else "")
        return WireBlock(fields, clean("".join(self.inputs)) if any(self.inputs) else None)
