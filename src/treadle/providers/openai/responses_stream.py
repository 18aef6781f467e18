"""A streamed Responses reply, folded event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from treadle.errors import BadReply, ModelError
from treadle.ports.model import ModelDelta, ModelReply, ReasoningPiece, TextPiece
from treadle.providers._failure import (
    NO_HEADERS,
    Asked,
    bad_reply,
    complaint_in,
    incomplete_reply,
    typed_error,
)
from treadle.providers.openai.responses_objects import (
    INEXACT,
    Wire,
    WireEvent,
    WireResponse,
    decode_event,
    decode_fields,
    decode_loosely,
    decode_text,
    is_exact,
    objects_in,
)
from treadle.providers.openai.responses_pieces import PLACES, ItemFold, Place, texts_of
from treadle.providers.openai.responses_reply import assembled, problem_of
from treadle.values import clean

_DONE = b"[DONE]"
_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


class ResponsesFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when the server said that it is completed or incomplete, or sent ``[DONE]``;
    `done` says that, and `spoke` that any event came. `headers` are the answer's, for error
    messages.
    """

    __slots__ = (
        "_asked",
        "_at",
        "_ended",
        "_half",
        "_headers",
        "_host",
        "_items",
        "_loose",
        "_open",
        "_plain",
        "_response",
        "_text",
        "_thinking",
        "done",
        "spoke",
    )

    def __init__(self, host: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self._host = host
        self._asked = asked
        self._headers = headers
        self._text: list[str] = []
        self._items = ItemFold()
        self._response = WireResponse()
        self._open: list[str] = []  # the pieces of the text that came last
        self._at = (-1, -1)  # its place
        self._thinking: int | str | None = None  # the item of the reasoning that came last
        self._half = ""
        self._ended = False
        self._loose = False
        self._plain = False
        self.spoke = False
        self.done = False

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def is_whole(self) -> bool:
        """Whether the server said that the reply is complete."""
        return self.done

    def feed(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Return what the events in `payloads` add.

        Raises:
            ModelError: one of them is an error, typed as that error is.
            BadReply: one is no event at all.
        """
        deltas: list[ModelDelta] = []
        said = self._text
        for payload in payloads:
            if self._plain:  # the last event was nothing but text: this one may be, too
                try:
                    event = decode_text(payload)
                except INEXACT:
                    self._plain = False
                else:
                    text = event.delta
                    if (event.output_index, event.content_index) == self._at and "\0" not in text:
                        if text:
                            said.append(text)
                            self._open.append(text)
                            deltas.append(TextPiece(text))
                        continue
            self._fold(payload, deltas)
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
        known, told = self._items.items(), objects_in(self._response.output)
        if not self.done or not (self._ended or known):
            empty = not self._text and not known
            what = "The reply is empty" if empty else "The reply ended too early"
            raise incomplete_reply(what, self._asked, self.partial)
        if not self._ended:
            self._response.status = None  # that of the beginning says nothing
        best = told if len(told) >= len(known) else known
        reply = assembled(best, self._response, self._host, self._asked)
        if self._text and not reply.message.text:  # the last event left out what came before
            return assembled(known, self._response, self._host, self._asked)
        return reply

    def _fold(self, payload: bytes, deltas: list[ModelDelta]) -> None:
        """Take an event that may say anything."""
        event = self._event(payload)
        if event is None:
            return
        self.spoke = True
        kind = event.type
        if kind == "error" or event.error:
            raise self._failed(payload)
        name, _, step = kind.rpartition(".")
        place = PLACES.get(name)
        if event.response is not None:
            self._note(event.response, deltas, ends=kind in _ENDS)
        elif kind == "response.output_item.added":
            self._items.begin(event)
        elif kind == "response.output_item.done":
            self._end_item(event, deltas)
        elif kind == "response.output_text.annotation.added":
            self._items.annotate(event)
        elif place and step == "delta":
            self._take(event, place, event.delta, deltas)
        elif place and step == "done" and not self._items.pieces(event, place):
            self._take(event, place, getattr(event, place[3]), deltas)

    def _event(self, payload: bytes) -> WireEvent | None:
        """Return the event, None for the end mark and for nothing."""
        try:
            event = decode_event(payload)
        except INEXACT:
            stripped = payload.strip()
            self.done = self.done or stripped == _DONE
            if not stripped or stripped == _DONE:
                return None
            return self._inexact(payload)
        return event if is_exact(payload) else self._inexact(payload)

    def _inexact(self, payload: bytes) -> WireEvent:
        self._loose, self._plain = True, False
        try:
            return decode_loosely(payload)
        except ValueError as error:
            why = f"an event: {error}"
            problem = bad_reply(payload, self._asked, why, headers=self._headers)
            problem.partial = self.partial
            raise problem from error

    def _failed(self, payload: bytes) -> ModelError:
        """Return the error that an event tells of, in itself or in an object."""
        fields = decode_fields(payload)
        inner = fields.get("error")
        complaint = complaint_in({"error": inner or {**fields, "type": None}})
        return typed_error(complaint, self._asked, partial=self.partial)

    def _note(self, response: WireResponse, deltas: list[ModelDelta], *, ends: bool) -> None:
        """Take what the server says of the whole reply; the last word counts."""
        problem = problem_of(response, self._asked, self.partial)
        if problem:
            raise problem
        self._response = response
        if not ends:
            return
        self.done = self._ended = True
        if not self._text:
            for item in objects_in(response.output):
                self._say_whole(item, deltas)

    def _end_item(self, event: WireEvent, deltas: list[ModelDelta]) -> None:
        """Take a finished item; what it says without having said it in pieces is one piece."""
        item = event.item or {}
        if not self._items.has_pieces(event):
            self._say_whole(item, deltas)
        self._items.end(event)

    def _say_whole(self, item: Wire, deltas: list[ModelDelta]) -> None:
        text = texts_of(item)
        if text:
            self._text.append(text)
            deltas.append(TextPiece(text))

    def _take(
        self, event: WireEvent, place: Place, delta: object, deltas: list[ModelDelta]
    ) -> None:
        """Take a piece of anything that grows."""
        if not isinstance(delta, str) or not delta:
            return
        pieces = self._items.pieces(event, place)
        kind = place[0]
        if kind == "message":
            self._say(event, place, delta, pieces, deltas)
        elif kind == "reasoning":
            self._think(event, delta, pieces, deltas)
        else:
            pieces.append(clean(delta) if self._loose else delta)

    def _say(
        self,
        event: WireEvent,
        place: Place,
        text: str,
        pieces: list[str],
        deltas: list[ModelDelta],
    ) -> None:
        if self._loose:  # then it may hold half of a surrogate pair, and the next piece the other
            text = self._half + text
            self._half = text[-1:] if "\ud800" <= text[-1] <= "\udbff" else ""
            text = clean(text[:-1] if self._half else text)
            if not text:
                return
        elif place[3] == "text" and event.output_index is not None:
            self._plain = True
            self._open = pieces
            self._at = (event.output_index, event.content_index or 0)
        pieces.append(text)
        self._text.append(text)
        deltas.append(TextPiece(text))

    def _think(
        self, event: WireEvent, text: str, pieces: list[str], deltas: list[ModelDelta]
    ) -> None:
        """Take reasoning; a blank line parts the paragraphs of an item, as in the whole reply."""
        text = clean(text) if self._loose else text
        item = event.item_id if event.output_index is None else event.output_index
        begins = not pieces and item is not None and item == self._thinking
        self._thinking = item
        pieces.append(text)
        deltas.append(ReasoningPiece(f"\n\n{text}" if begins else text))
