"""A streamed Chat Completions reply, folded chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from treadle.errors import BadReply, IncompleteReply
from treadle.ports.model import ModelDelta, ModelReply, ReasoningPiece, TextPiece
from treadle.providers._failure import Asked, bad_reply, complaint_in, typed_error
from treadle.providers._json import is_object
from treadle.providers.openai.chat_calls import CallFold
from treadle.providers.openai.chat_objects import (
    INEXACT,
    NUL,
    WireCall,
    WireMessage,
    WireReply,
    WireUsage,
    clean_message,
    decode_exactly,
    decode_loosely,
)
from treadle.providers.openai.chat_reply import (
    assembled,
    block_text,
    details_text,
    read_message,
    usage_of,
)
from treadle.values import clean

_DONE = b"[DONE]"


class ChatFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when a finish reason or ``[DONE]`` came; `done` says that ``[DONE]`` did, and
    `began` that any chunk did.
    """

    __slots__ = (
        "_asked",
        "_calls",
        "_details",
        "_finish",
        "_half",
        "_host",
        "_id",
        "_loose",
        "_message",
        "_model",
        "_text",
        "_thought",
        "_thought_place",
        "_usage",
        "began",
        "done",
    )

    def __init__(self, host: str, asked: Asked) -> None:
        self._host = host
        self._asked = asked
        self._text: list[str] = []
        self._thought: list[str] = []
        self._thought_place = ""  # a field's name, or "block" for blocks of the content
        self._details: dict[object, dict[str, Any]] = {}
        self._calls = CallFold()
        self._message = WireMessage()  # everything that is not text, reasoning or calls
        self._finish: str | None = None
        self._usage: WireUsage | None = None
        self._id: str | None = None
        self._model: str | None = None
        self._half = ""
        self._loose = False
        self.began = False
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
        text_parts = self._text
        for payload in payloads:
            try:
                chunk = decode_exactly(payload)
            except INEXACT:
                chunk = self._inexact(payload)
                if chunk is None:
                    continue
            if self._loose or NUL in payload:
                self._loose = True
            choices = chunk.choices
            if chunk.error is not None or chunk.usage is not None or not choices or not self.began:
                self._note(chunk)
                if not choices:
                    continue
            for choice in choices:
                if choice.index:  # there is only one answer
                    continue
                if choice.finish_reason:
                    self._finish = choice.finish_reason
                delta = choice.delta or choice.message
                if delta is None:
                    continue
                text = delta.content
                if type(text) is str:
                    if self._loose:
                        text = self._joined(text)
                    if text:
                        text_parts.append(text)
                        deltas.append(TextPiece(text))
                elif text:
                    self._add_blocks(text, deltas)
                if delta.tool_calls:
                    self._calls.add(delta.tool_calls)
                self._add_rest(delta, deltas)
        return deltas
