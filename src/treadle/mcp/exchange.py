"""What passes between a connection and the SDK: calls at work, and the server's own questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

Protocol = Literal["auto", "handshake"]
"""The newest protocol that both sides know, or the newest that begins with a handshake."""
Action = Literal["accept", "decline", "cancel"]
Asking = Callable[["Question"], Awaitable["tuple[Action, dict[str, Any] | None]"]]
"""Answers a server's question: what becomes of it, and the values where it is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a server wants to know from a person, in the middle of a call.

    The answer is an object of `schema` (a flat JSON Schema object); or, where there is a `url`, a
    yes once the person has been there. `server` is who asks.
    """

    server: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


@dataclass(slots=True, eq=False)
class Exchange:
    """One request to a server: the headers that go with it, and who answers its questions."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ask: Asking | None = None
    request_ids: list[str | int] = field(default_factory=list["str | int"])


CURRENT: ContextVar[Exchange | None] = ContextVar("treadle_mcp_exchange", default=None)
"""The request that this task makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Whom the SDK tells what a server sends by itself.

    `elicit` answers a question: what becomes of it, and the values where it is accepted. `changed`
    hears which list is not what it was, `logged` what the server wants logged.
    """

    elicit: Callable[[dict[str, Any]], Awaitable[tuple[Action, dict[str, Any] | None]]]
    changed: Callable[[str], None]
    logged: Callable[[str], None]
