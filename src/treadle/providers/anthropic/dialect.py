"""The habits of one server that speaks Messages, known by its host."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.providers._address import host_of

PROTOCOL = "anthropic"
"""The key under which messages and parts carry what this protocol wants back unchanged."""
READ_ONLY = f"{PROTOCOL}.read"
"""The key for what a reply told beside its message, which no server wants back."""
HOST = "@host"
"""In opaque data: whose it is; only they get it back."""
PAUSED = "@paused"
"""In a message's opaque data: its turn goes on, nothing is put after it."""
VENDOR = "anthropic"
"""Whose opaque data it is that Anthropic's models wrote, on whatever platform they ran."""

VENDOR_HOST = "api.anthropic.com"
_PLATFORMS = (".amazonaws.com", ".googleapis.com", ".services.ai.azure.com", ".api.aws")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesDialect:
    """What one server wants, where servers differ.

    `origin` is whose signatures and hosted tools it knows: Anthropic's, or its own. `marks` says
    whether parts of a prompt are marked for its cache without being asked to, `listed` that this is
    Anthropic's own server, where its list prices hold.
    """

    provider: str = VENDOR
    origin: str = VENDOR
    marks: bool = True
    listed: bool = False
    vision: bool = True


def dialect_of(url: str) -> MessagesDialect:
    """Return the habits of the server at `url`.

    Raises:
        ConfigError: `url` is no http or https address.
    """
    host = host_of(url)
    name = host.partition(":")[0]
    if name == VENDOR_HOST:
        return MessagesDialect(listed=True)
    if name.endswith((".anthropic.com", *_PLATFORMS)):
        return MessagesDialect()
    return MessagesDialect(provider=host, origin=host, marks=False)
