"""What a server and its clients say to each other, in the protocol's own JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol
from urllib.parse import quote

from msgspec import Struct

from treadle.messages import Audio, File, Image, Text, ToolResult

Wire = dict[str, Any]
"""A JSON object of the protocol, under the protocol's names."""
ResultPart = Text | Image | Audio | File

INVALID_PARAMS = -32602
NOT_FOUND = -32002


class Refused(Exception):
    """A request that is answered with an error of the protocol, not with a result."""

    def __init__(self, text: str, code: int = INVALID_PARAMS) -> None:
        super().__init__(text)
        self.code = code


class Question(Struct, frozen=True, kw_only=True):
    """What somebody at the client is asked: `schema` is the form to fill in."""

    id: str
    message: str
    schema: Wire


class Answer(Struct, frozen=True):
    """What they did with it: "cancel" is neither a yes nor a no."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any]


class Asking(Struct, frozen=True, kw_only=True):
    """A call that cannot go on without answers.

    Made again with them and with `state`, it goes on. `otherwise` is its result when nobody can
    be asked.
    """

    questions: tuple[Question, ...]
    state: str
    otherwise: Wire


class Call(Struct, frozen=True, kw_only=True):
    """One call of something that is offered. `answers` are to its questions, by their IDs."""

    name: str
    arguments: Wire
    state: str | None = None
    answers: Mapping[str, Answer] = {}


class Client(Protocol):
    """Who made a call."""

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told how far the call is."""
        ...

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        """Tell how far the call is; nothing happens unless the client wants to know."""
        ...

    def shield(self) -> AbstractContextManager[object]:
        """Return what keeps the end of a cancelled call from being cancelled, too."""
        ...


class Offer(Protocol):
    """What is served: the answers to a client's requests."""

    @property
    def name(self) -> str:
        """What the server is called."""
        ...

    @property
    def instructions(self) -> str | None:
        """What a client's model is told of it as a whole."""
        ...

    @property
    def methods(self) -> Sequence[str]:
        """The requests that it answers."""
        ...

    async def answer(self, method: str, params: Wire, client: Client) -> Wire | Asking:
        """Answer one request.

        Raises:
            Refused: with an error of the protocol.
        """
        ...


def text_result(text: str, *, is_error: bool = False, meta: Wire | None = None) -> Wire:
    """Return the result of a call that is one text."""
    return result([{"type": "text", "text": text}], is_error=is_error, meta=meta)


def result(
    content: list[Wire],
    *,
    is_error: bool = False,
    structured: Wire | None = None,
    meta: Wire | None = None,
) -> Wire:
    """Return the result of a call. `meta` is for programs, under `treadle/` names."""
    made: Wire = {"content": content, "isError": is_error}
    if structured is not None:
        made["structuredContent"] = structured
    if meta:
        made["_meta"] = {f"treadle/{name}": value for name, value in meta.items()}
    return made


def tool_result(given: ToolResult) -> Wire:
    """Return what a tool gave as the result of a call.

    An object that the text tells as a whole is there as a structure, too.
    """
    content = [content_of(part) for part in given.parts]
    structured = None
    if len(given.parts) == 1 and isinstance(given.packed, dict) and not given.is_error:
        structured = json_object(given.text)
    return result(content, is_error=given.is_error, structured=structured)


def json_object(text: str) -> Wire | None:
    """Return the object that a text is the JSON of, None when it is not (because it was cut)."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] its values are JSON


def content_of(part: ResultPart) -> Wire:
    """Return a part as the protocol has it: bytes are sent, addresses are links."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url is not None:
        return _typed({"type": "resource_link", "uri": part.url, "name": _name(part)}, part)
    if isinstance(part, Image | Audio):
        kind, usual = ("image", "image/png") if isinstance(part, Image) else ("audio", "audio/wav")
        return {"type": kind, "data": part.base64, "mimeType": part.media_type or usual}
    if part.file_id is not None and part.content is None:
        return {"type": "text", "text": f"[file {part.file_id} at the model's provider]"}
    return {"type": "resource", "resource": contents(_uri(part), part)}


def contents(uri: str, part: ResultPart) -> Wire:
    """Return what is at an address: text as it is, all else as base64."""
    if isinstance(part, Text):
        return {"uri": uri, "text": part.text, "mimeType": "text/plain"}
    given = part.content or b""
    media_type = part.media_type or "application/octet-stream"
    if media_type.startswith("text/") or media_type == "application/json":
        try:
            return {"uri": uri, "text": given.decode(), "mimeType": media_type}
        except UnicodeDecodeError:
            pass
    return {"uri": uri, "blob": part.base64, "mimeType": media_type}


def joined(parts: Iterable[ResultPart]) -> str:
    """Return the texts of parts."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def _typed(link: Wire, part: Image | Audio | File) -> Wire:
    return link | ({"mimeType": part.media_type} if part.media_type else {})


def _name(part: Image | Audio | File) -> str:
    named = part.name if isinstance(part, File) else None
    return named or (part.url or "").rstrip("/").rpartition("/")[2] or "file"


def _uri(part: File) -> str:
    name = part.name or "file"
    return name if "://" in name else f"file:///{quote(name.lstrip('/'))}"
