"""A conversation as turns: what follows each other from one side is one message there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec
from msgspec import Struct

from treadle.messages import Message, Part, ToolCall, ToolResult
from treadle.providers._json import decode, encode
from treadle.providers.anthropic.blocks import (
    Wire,
    assistant_blocks,
    blocks_in,
    encoded,
    kept_for,
    result_blocks,
    sent_name,
    text_block,
    user_blocks,
)
from treadle.providers.anthropic.dialect import HOST, PAUSED, PROTOCOL, MessagesDialect
from treadle.values import is_object

LOOSE = 64
"""So many turns are kept apart before the older ones become one piece."""
MARK = "cache_control"
"""The field of whatever is marked for the cache."""
BEGIN = "(The conversation begins here.)"
"""What the user says where a conversation begins with the assistant."""
GO_ON = "Go on."
"""What the user says where it ends with the assistant, and the model wants a question."""

_USER = b',{"role":"user","content":['
_ASSISTANT = b',{"role":"assistant","content":['
_END = b"]}"
_NOTHING: tuple[bytes, ...] = (b"",)


class Turns(Struct, frozen=True):
    """What became of the first `count` messages of a thread. Never changed: threads may share it.

    `closed[0]` is the oldest turns in one piece, every other item is one turn, each with a comma
    before it. `results` and `blocks` are those of the last turn, whose side is `side`: results come
    first. `marks` counts the cache marks in all turns, `called` are the names of called tools,
    `paused` and `container` are of the last reply, `files` says whether uploaded files are named.
    """

    count: int = 0
    closed: tuple[bytes, ...] = _NOTHING
    side: str = ""
    results: tuple[bytes, ...] = ()
    blocks: tuple[bytes, ...] = ()
    marks: int = 0
    called: frozenset[str] = frozenset()
    paused: bool = False
    container: str = ""
    files: bool = False

    @property
    def has_replies(self) -> bool:
        """Whether the assistant has said something already."""
        return self.closed != _NOTHING or self.side == "assistant"

    @property
    def last(self) -> bytes:
        """The last turn, as far as it came."""
        begin = _USER if self.side == "user" else _ASSISTANT
        return begin + b",".join((*self.results, *self.blocks)) + _END


def extended(known: Turns, messages: Iterable[Message], dialect: MessagesDialect) -> Turns:
    """Return the turns with more messages in them."""
    draft = _Draft(known)
    for message in messages:
        draft.add(message, dialect)
    return draft.turns()


def ended(turns: Turns, *, prefill: bool) -> Turns:
    """Return the turns so that the model may speak next.

    There is at least one; what the assistant said last stands at the end only where it goes on
    with that.
    """
    if not turns.side and turns.closed == _NOTHING:
        return msgspec.structs.replace(turns, side="user", blocks=(encode(text_block(BEGIN)),))
    if turns.side != "assistant" or turns.paused:
        return turns
    if prefill:
        return msgspec.structs.replace(turns, blocks=_stripped(turns.blocks))
    return msgspec.structs.replace(
        turns,
        closed=(*turns.closed, turns.last),
        side="user",
        results=(),
        blocks=(encode(text_block(GO_ON)),),
    )


class _Draft:
    """Turns that are being made."""

    __slots__ = (
        "blocks",
        "called",
        "closed",
        "container",
        "count",
        "files",
        "marks",
        "paused",
        "results",
        "side",
    )

    def __init__(self, known: Turns) -> None:
        self.count = known.count
        self.closed = list(known.closed)
        self.side = known.side
        self.results = list(known.results)
        self.blocks = list(known.blocks)
        self.marks = known.marks
        self.called = known.called
        self.paused = known.paused
        self.container = known.container
        self.files = known.files

    def turns(self) -> Turns:
        closed = self.closed
        if len(closed) > LOOSE:
            old = len(closed) - LOOSE // 4
            closed = [b"".join(closed[:old]), *closed[old:]]
        return Turns(
            count=self.count,
            closed=tuple(closed),
            side=self.side,
            results=tuple(self.results),
            blocks=tuple(self.blocks),
            marks=self.marks,
            called=self.called,
            paused=self.paused,
            container=self.container,
            files=self.files,
        )

    def add(self, message: Message, dialect: MessagesDialect) -> None:
        """Take one message."""
        self.count += 1
        match message.role:
            case "user":
                self._say("user", self._made(message.parts, dialect))
            case "system":
                self._instruct(message, dialect)
            case "assistant":
                self._answer(message, dialect)
            case "tool":
                self._show(message, dialect)
            case _:
                assert_never(message.role)

    def _made(self, parts: Iterable[Part], dialect: MessagesDialect) -> list[Wire]:
        return [block for part in parts for block in user_blocks(part, dialect)]

    def _say(self, side: str, blocks: list[Wire], results: list[Wire] | None = None) -> None:
        if not blocks and not results:
            return
        if side != self.side:
            self._close()
            if side == "assistant" and len(self.closed) == 1 and not self.closed[0]:
                self.closed.append(_USER + encode(text_block(BEGIN)) + _END)
            self.side = side
        self.results += map(self._encoded, results or ())
        self.blocks += map(self._encoded, blocks)

    def _encoded(self, block: Wire) -> bytes:
        for each in blocks_in(block):
            self.marks += each.get(MARK) is not None
            self.files = self.files or "file_id" in each
        return encoded(block)

    def _close(self) -> None:
        if self.side:
            begin = _USER if self.side == "user" else _ASSISTANT
            self.closed.append(begin + b",".join((*self.results, *self.blocks)) + _END)
        self.side, self.results, self.blocks = "", [], []

    def _answer(self, message: Message, dialect: MessagesDialect) -> None:
        whole = not message.incomplete
        blocks = [
            block
            for part in message.parts
            for block in assistant_blocks(part, dialect, whole=whole)
        ]
        names = {sent_name(part.name) for part in message.parts if type(part) is ToolCall}
        self.called = self.called | names if names else self.called
        self._say("assistant", blocks)
        opaque = _opaque(message, dialect)
        self.paused = opaque.get(PAUSED) is True
        container = opaque.get("container")
        self.container = container if isinstance(container, str) else ""

    def _show(self, message: Message, dialect: MessagesDialect) -> None:
        results: list[Wire] = []
        shown: list[Wire] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                result, beside = result_blocks(part, dialect)
                results.append(result)
                shown += beside
        self._say("user", shown, results)

    def _instruct(self, message: Message, dialect: MessagesDialect) -> None:
        """Take a system message: a turn of its own where the server sent or took it as one."""
        kept = kept_for(message.provider, dialect) or {}
        if kept.get("role") != "system":
            self._say("user", self._made(message.parts, dialect))
            return
        self._close()
        content = b",".join(map(self._encoded, self._made(message.parts, dialect)))
        rest = {name: value for name, value in kept.items() if name != "role"}
        fields = b"," + encode(rest)[1:-1] if rest else b""
        said = b',"content":[' + content + b"]" if content else b""
        self.closed.append(b',{"role":"system"' + said + fields + b"}")


def _opaque(message: Message, dialect: MessagesDialect) -> Wire:
    """Return a message's opaque data with our own marks in it."""
    found: object = message.provider.get(PROTOCOL) if message.provider else None
    if not is_object(found) or found.get(HOST, dialect.origin) != dialect.origin:
        return {}
    return found


def _stripped(blocks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return what the assistant began without white space at its end, which is refused."""
    last: Wire = decode(blocks[-1]) if blocks else {}
    text = last.get("text")
    if last.get("type") != "text" or not isinstance(text, str) or text == text.rstrip():
        return blocks
    return (*blocks[:-1], encode({**last, "text": text.rstrip()}))
