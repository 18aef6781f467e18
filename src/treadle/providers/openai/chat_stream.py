"""A streamed Chat Completions reply, folded chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from treadle.errors import BadReply
from treadle.ports.model import ModelDelta, ModelReply, ReasoningPiece, TextPiece
from treadle.providers._counts import tokens
from treadle.providers._failure import (
    NO_HEADERS,
    Asked,
    bad_reply,
    complaint_in,
    incomplete_reply,
    typed_error,
)
from treadle.providers._json import cleaned
from treadle.providers.openai.chat_calls import CallFold
from treadle.providers.openai.chat_objects import (
    INEXACT,
    WireCall,
    WireMessage,
    WireReply,
    WireUsage,
    clean_message,
    decode_exactly,
    decode_loosely,
    decode_text,
    is_exact,
)
from treadle.providers.openai.chat_reply import (
    assembled,
    block_text,
    read_message,
    usage_of,
)
from treadle.providers.openai.chat_thoughts import ThoughtFold, continued
from treadle.values import clean, is_object

_DONE = b"[DONE]"
_LISTS = ("annotations", "images", "executed_tools")
_RARE = (*_LISTS, "refusal", "reasoning_details", "function_call", "extra_content", "audio")


class ChatFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when a finish reason or ``[DONE]`` came; `done` says that ``[DONE]`` did, and
    `spoke` that any chunk did. `headers` are the answer's, for error messages.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_calls",
        "_finish",
        "_half",
        "_headers",
        "_host",
        "_id",
        "_loose",
        "_message",
        "_model",
        "_plain",
        "_text",
        "_thoughts",
        "_usage",
        "done",
        "spoke",
    )

    def __init__(self, host: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self._host = host
        self._asked = asked
        self._headers = headers
        self._text: list[str] = []
        self._thoughts = ThoughtFold()
        self._calls = CallFold()
        self._message = WireMessage()  # everything that is not text, reasoning or calls
        self._finish: str | None = None
        self._usage: WireUsage | None = None
        self._id: str | None = None
        self._model: str | None = None
        self._half = ""
        self._loose = False
        self._plain = False
        self._began = False  # a chunk with a choice came
        self.spoke = False
        self.done = False

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def is_whole(self) -> bool:
        """Whether the server said that the reply is complete."""
        return self.done or self._finish is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Return what the chunks in `payloads` add.

        Raises:
            ModelError: one of them is an error, typed as that error is.
            BadReply: one is no chunk at all.
        """
        deltas: list[ModelDelta] = []
        said = self._text
        for payload in payloads:
            if self._plain:  # the last chunk was nothing but text: this one may be, too
                try:
                    choices = decode_text(payload).choices
                except INEXACT:
                    self._plain = False
                else:
                    text = choices[0].delta.content if len(choices) == 1 else "\0"
                    if "\0" not in text:
                        if text:
                            said.append(text)
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
            Overloaded: the server broke the reply off.
        """
        message = self._whole_message()
        empty = message == WireMessage()
        if not self.is_whole or (empty and self._finish is None):
            what = "The reply is empty" if empty else "The reply ended too early"
            raise incomplete_reply(what, self._asked, self.partial)
        return assembled(
            read_message(message, self._host),
            finish=self._finish,
            usage=usage_of(self._usage),
            asked=self._asked,
            response_id=self._id,
            model=self._model,
        )

    def _fold(self, payload: bytes, deltas: list[ModelDelta]) -> None:
        """Take a chunk that may say anything."""
        chunk = self._chunk(payload)
        if chunk is None:
            return
        self.spoke = True
        if not self._began or chunk.usage is not None or chunk.error is not None or chunk.x_groq:
            self._note(chunk)
        for choice in chunk.choices or ():
            if choice.finish_reason:
                self._finish = choice.finish_reason
            delta = choice.delta or choice.message
            if delta is not None and not choice.index:  # only the first of several answers
                self._take(delta, deltas)
            if choice.usage is not None or choice.error is not None:
                self._note(WireReply(usage=choice.usage, error=choice.error))

    def _chunk(self, payload: bytes) -> WireReply | None:
        """Return the chunk, None for the end mark and for nothing."""
        try:
            chunk = decode_exactly(payload)
        except INEXACT:
            stripped = payload.strip()
            self.done = self.done or stripped == _DONE
            if not stripped or stripped == _DONE:
                return None
            return self._inexact(payload)
        return chunk if is_exact(payload) else self._inexact(payload)

    def _inexact(self, payload: bytes) -> WireReply:
        self._loose = True
        try:
            return decode_loosely(payload)
        except ValueError as error:
            why = f"an event: {error}"
            problem = bad_reply(payload, self._asked, why, headers=self._headers)
            problem.partial = self.partial
            raise problem from error

    def _note(self, chunk: WireReply) -> None:
        """Take what a chunk says beside its deltas; the last usage counts, for it is a total."""
        if chunk.error:
            complaint = complaint_in({"error": cleaned(chunk.error)})
            raise typed_error(complaint, self._asked, partial=self.partial)
        usage = chunk.usage or (chunk.x_groq and chunk.x_groq.usage)
        if usage and (tokens(usage.prompt_tokens) or tokens(usage.completion_tokens)):
            self._usage = usage
        self._id = self._id or chunk.id
        self._model = self._model or chunk.model
        self._began = self._began or bool(chunk.choices)

    def _take(self, delta: WireMessage, deltas: list[ModelDelta]) -> None:
        text = delta.content
        if isinstance(text, list):
            self._take_blocks(text, deltas)
        elif text:
            self._plain = not self._loose
            self._say(text, deltas)
        if delta.tool_calls is not None:
            self._calls.add(delta.tool_calls)
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._think(thought, "reasoning" if delta.reasoning else "reasoning_content", deltas)
        if any(getattr(delta, name) for name in _RARE):
            self._take_rest(delta, deltas)

    def _say(self, text: str, deltas: list[ModelDelta]) -> None:
        if self._loose:  # then it may hold half of a surrogate pair, and the next piece the other
            text = self._half + text
            self._half = text[-1:] if "\ud800" <= text[-1] <= "\udbff" else ""
            text = clean(text[:-1] if self._half else text)
            if not text:
                return
        self._text.append(text)
        deltas.append(TextPiece(text))

    def _think(self, text: str, place: str, deltas: list[ModelDelta]) -> None:
        text = clean(text) if self._loose else text
        self._thoughts.add(text, place)
        deltas.append(ReasoningPiece(text))

    def _take_blocks(self, blocks: list[Any], deltas: list[ModelDelta]) -> None:
        """Take pieces of a content array: text, and Mistral's thinking."""
        for block in blocks:
            if not is_object(block):
                continue
            text = block.get("text")
            thought = block_text(block.get("thinking"))
            if thought:
                self._think(thought, "block", deltas)
            elif isinstance(text, str) and text:
                self._say(text, deltas)

    def _take_rest(self, delta: WireMessage, deltas: list[ModelDelta]) -> None:
        """Take what is rare."""
        whole = self._message
        if delta.refusal:
            whole.refusal = (whole.refusal or "") + delta.refusal
            deltas.append(TextPiece(clean(delta.refusal)))
        if delta.function_call:
            self._calls.add([WireCall(index=-1, function=delta.function_call)])
        if delta.reasoning_details:
            words = self._thoughts.add_details(delta)
            if words:
                self._think(words, "details", deltas)
        for name in _LISTS:
            items = getattr(delta, name)
            if items:
                setattr(whole, name, [*(getattr(whole, name) or ()), *items])
        if delta.extra_content:
            whole.extra_content = {**(whole.extra_content or {}), **delta.extra_content}
        if delta.audio:
            whole.audio = continued(whole.audio or {}, delta.audio, ("data", "transcript"))

    def _whole_message(self) -> WireMessage:
        """Return what all chunks together say, as one message."""
        message = self._message
        message.content = (self.partial + (clean(self._half) if self._half else "")) or None
        self._thoughts.fill(message)
        message.tool_calls = self._calls.calls() or None
        return clean_message(message) if self._loose else message
