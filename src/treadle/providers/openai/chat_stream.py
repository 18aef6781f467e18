"""A streamed Chat Completions reply, folded chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.errors import IncompleteReply, ModelError
from treadle.messages import Part, Text
from treadle.ports.model import ModelDelta, ModelReply, ReasoningPiece, TextPiece
from treadle.providers._failure import Asked, bad_reply, complaint_in, typed_error
from treadle.providers._json import cleaned, encode
from treadle.providers.openai.chat_objects import (
    INEXACT,
    NUL,
    WireCall,
    WireFunction,
    WireMessage,
    WireReply,
    WireUsage,
    decode_exactly,
    decode_loosely,
)
from treadle.providers.openai.chat_reply import (
    ReplyParts,
    assembled,
    block_text,
    content_parts,
    details_text,
    message_provider,
    read_call,
    reasoning_part,
    usage_of,
)
from treadle.providers.openai.chat_wire import Wire
from treadle.values import clean

_DONE = b"[DONE]"


class ChatFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when a finish reason or ``[DONE]`` came; `done` says that ``[DONE]`` did.
    """

    __slots__ = (
        "_asked",
        "_blocks",
        "_calls",
        "_details",
        "_fields",
        "_finish",
        "_half",
        "_host",
        "_id",
        "_loose",
        "_model",
        "_refusal",
        "_started",
        "_text",
        "_thought",
        "_usage",
        "done",
    )

    def __init__(self, host: str, asked: Asked) -> None:
        self._host = host
        self._asked = asked
        self._text: list[str] = []
        self._thought: list[str] = []
        self._thought_field = "reasoning"
        self._refusal: list[str] = []
        self._details: list[Wire] = []
        self._blocks: list[Any] = []
        self._calls = CallFold()
        self._fields: Wire = {}
        self._finish: str | None = None
        self._usage: WireUsage | None = None
        self._id: str | None = None
        self._model: str | None = None
        self._half = ""
        self._loose = False
        self._started = False
        self.done = False
