"""What is said: messages and their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import wraps
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json

from treadle.errors import InvalidInput
from treadle.values import Plain, clean, pack, register, unpack
from treadle.values.media import Media
from treadle.values.secret import know_all_in, without_secrets

Role = Literal["system", "user", "assistant", "tool"]
Detail = Literal["auto", "low", "high", "original"]

Opaque = dict[str, Any]
"""What one provider wants back unchanged: JSON values under the provider's own names, inside a
dict keyed by protocol (``{"openai_chat": {...}}``), so that no other provider is ever sent it."""


class Citation(Struct, frozen=True, omit_defaults=True, gc=False):
    """A source that a model names for what it says.

    `text` is what it cites of the source, where the provider tells. `start` and `end` are where
    the text part that carries the citation relies on it, in characters.
    """

    url: str | None = None
    title: str | None = None
    text: str | None = None
    start: int | None = None
    end: int | None = None


class Text(Struct, frozen=True, tag="text", omit_defaults=True, gc=False):
    """Plain text, and the sources that a model named for it."""

    text: str
    provider: Opaque | None = None
    citations: tuple[Citation, ...] = ()


class Image(Media, frozen=True, tag="image", omit_defaults=True, gc=False):
    """A picture. `detail` is how closely the model should look, where the provider has that."""

    detail: Detail | None = None
    provider: Opaque | None = None


class Audio(Media, frozen=True, tag="audio", omit_defaults=True, gc=False):
    """Sound; `transcript` is its text where the provider gave one."""

    transcript: str | None = None
    provider: Opaque | None = None

    @property
    def format(self) -> str:
        """The short name of the encoding, "wav" or "mp3" for example."""
        short = (self.media_type or "").partition("/")[2].partition(";")[0].removeprefix("x-")
        return {"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav"}.get(short, short)


class File(Media, frozen=True, tag="file", omit_defaults=True, gc=False):
    """A document. `file_id` names one already uploaded to the provider instead of bytes or URL."""

    name: str | None = None
    file_id: str | None = None
    provider: Opaque | None = None


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True, gc=False):
    """What a model thought. Only the provider that wrote it ever gets it back, unchanged.

    `signature` and `redacted` are that provider's opaque proofs.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    provider: Opaque | None = None


class ToolCall(Struct, frozen=True, tag="tool_call", omit_defaults=True, gc=False):
    """A request to run a tool.

    `id` is unique in the conversation, `provider_id` is what the provider called it. `raw` is
    the arguments' JSON text exactly as the model wrote it, so that it goes back byte for byte.
    `secret` are the names of arguments that its tool marks as secret: wherever such a call is
    read, the process knows their values, and no log, trace or error shows them.
    """

    id: str
    name: str
    raw: str = "{}"
    provider_id: str | None = None
    provider: Opaque | None = None
    secret: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.secret:
            know_all_in([self.arguments.get(name) for name in self.secret])

    @classmethod
    def of(
        cls,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        id: str = "call_1",
        secret: tuple[str, ...] = (),
    ) -> ToolCall:
        """Build a call from a dict of arguments."""
        return cls(id=id, name=name, raw=encode_json(arguments or {}).decode(), secret=secret)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments decoded; {} when they are blank, null or not a JSON object."""
        try:
            return decode_json(self.raw, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return {}

    @property
    def shown(self) -> dict[str, Any]:
        """The arguments as people may see them: "***" for those that are secret."""
        return without_secrets(self.arguments, self.secret)


class Artefact(Struct, frozen=True, gc=False):
    """A tool's output that was too long for the model, kept whole with its conversation.

    `digest` is its SHA-256 in hex, `size` its bytes as UTF-8.
    """

    digest: str
    size: int
    lines: int

    @property
    def id(self) -> str:
        """What the model calls it."""
        return f"out_{self.digest[:12]}"


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True, gc=False):
    """The answer to one tool call.

    `parts` is what the model reads. `packed` is the tool's own value when it is more than text,
    in the lossless plain form of `treadle.values`; `value` gives it back. `synthetic` marks a
    result that no tool produced, because its call was interrupted. With an `artefact` the text is
    only the ends of what the tool returned, and `value` is that text.
    """

    call_id: str
    name: str
    parts: tuple[Text | Image | Audio | File, ...] = ()
    is_error: bool = False
    packed: Plain | UnsetType = UNSET
    synthetic: bool = False
    provider: Opaque | None = None
    artefact: Artefact | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join([part.text for part in self.parts if type(part) is Text])

    @property
    def value(self) -> Any:
        """What the tool returned, in its own type; its text when it returned text.

        Raises:
            UnknownType: the value's class is not registered in this process.
        """
        return self.text if self.packed is UNSET else unpack(self.packed)


class Hosted(Struct, frozen=True, tag="hosted", omit_defaults=True, gc=False):
    """A step of a tool that the provider itself ran: its call, its result, or both.

    `name` is that tool, "web_search" for example. The step is in `provider`, as the provider told
    of it; only that provider gets it back.
    """

    name: str
    provider: Opaque


Part = Text | Image | Audio | File | Reasoning | ToolCall | ToolResult | Hosted
UserPart = Text | Image | Audio | File
for _kind in (Text, Image, Audio, File):
    register(_kind, name=f"treadle.{_kind.__name__}")  # so that state may hold them, and outputs


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing said by one side.

    All calls of one model reply are parts of one message, and their results are the parts of one
    `tool` message right after it, in the same order. `provider` is opaque, as on parts.
    `incomplete` marks a reply that was cut off: what was seen of it, never an answer. `advice`
    marks a user message that no user said: middleware or the loop tells the model something.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    provider: Opaque | None = None
    incomplete: bool = False
    advice: bool = False

    @classmethod
    def system(cls, text: str) -> Message:
        """Build a system message."""
        return cls("system", (Text(clean(text)),))

    @classmethod
    def user(cls, *content: str | UserPart) -> Message:
        """Build a user message from texts and media; empty texts are left out."""
        return cls("user", as_parts(content))

    @classmethod
    def assistant(cls, *content: str | Part) -> Message:
        """Build an assistant message from texts and parts; empty texts are left out."""
        parts = (Text(clean(item)) if isinstance(item, str) else item for item in content)
        return cls("assistant", tuple(part for part in parts if not _is_empty(part)))

    @property
    def text(self) -> str:
        """The text parts, joined; reasoning and tool traffic are not text."""
        if len(self.parts) == 1 and isinstance(only := self.parts[0], Text):
            return only.text
        return "".join([part.text for part in self.parts if type(part) is Text])

    @property
    def reasoning(self) -> str:
        """The reasoning parts, joined."""
        return "".join(part.text for part in self.parts if type(part) is Reasoning)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in this message, in order."""
        return tuple([part for part in self.parts if type(part) is ToolCall])

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources named for the text, in order; each says where in its own text part."""
        return tuple(each for part in self.parts if type(part) is Text for each in part.citations)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results in this message, in order."""
        return tuple([part for part in self.parts if type(part) is ToolResult])

    @property
    def has_media(self) -> bool:
        """Whether any part is an image, sound or file."""
        return any(isinstance(part, Image | Audio | File) for part in self.parts)


class Thread(list[Message]):
    """A list of messages that remembers how codecs have encoded them.

    `encoded` belongs to the codecs: each keeps what it made of the first messages under its own
    key, so that continuing from `RunResult.messages` costs only what is new. Adding at the end
    keeps it; every other change to the list forgets it, and is remembered as `changed`.
    """

    __slots__ = ("changed", "encoded")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self.changed = isinstance(messages, Thread) and messages.changed
        self.encoded: dict[object, Any] = (
            dict(messages.encoded) if isinstance(messages, Thread) else {}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Thread, (list(self),)


def _forgetting(name: str) -> Any:
    """Return a method of `list` that forgets how the messages were encoded."""
    method = getattr(list, name)

    @wraps(method)
    def changed(self: Thread, *arguments: Any, **options: Any) -> Any:
        self.encoded, self.changed = {}, True
        return method(self, *arguments, **options)

    return changed


for _name in (
    *("__setitem__", "__delitem__", "__imul__"),
    *("insert", "pop", "remove", "clear", "reverse", "sort"),
):
    setattr(Thread, _name, _forgetting(_name))


def as_parts(content: str | UserPart | Iterable[str | UserPart]) -> tuple[UserPart, ...]:
    """Turn what users pass as input into parts; empty texts are left out, text is cleaned.

    Callers are not all typed, so what they pass is looked at.

    Raises:
        InvalidInput: an item is neither text nor a part that a user can send.
    """
    if isinstance(content, str):
        return (Text(clean(content)),) if content else ()
    items = (content,) if isinstance(content, Text | Image | Audio | File) else content
    if not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"The input is text, a part, or a list of both; got {content!r:.60}.")
    parts: list[UserPart] = []
    for item in items:
        part = Text(clean(item)) if isinstance(item, str) else item
        if not isinstance(part, UserPart):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                "Input items are str, Text, Image, Audio or File, "
                f"got {type(item).__name__}: {str(item)[:60]!r}."
            )
        if not _is_empty(part):
            parts.append(part)
    return tuple(parts)


def with_value(call_id: str, name: str, value: object, text: str) -> ToolResult:
    """Build a result whose typed value comes back equal; `text` is what the model reads.

    Raises:
        NotStorable: the value cannot be packed.
    """
    return ToolResult(
        call_id, name, (Text(text),) if text else (), packed=pack(value, f"result of {name!r}")
    )


def texts(messages: Sequence[Message]) -> list[str]:
    """Return each message's text, for prints and assertions."""
    return [message.text for message in messages]


def _is_empty(part: Part) -> bool:
    return type(part) is Text and not part.text
