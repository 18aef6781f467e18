"""The seam to where replies of models are kept, to be given again."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from treadle.ports.model import ModelReply


class KeptReply(Struct, frozen=True):
    """A reply, and when it was given."""

    at: datetime
    reply: ModelReply


class Replies(Protocol):
    """Keeps replies under keys of 64 hexadecimal digits."""

    async def get(self, key: str) -> KeptReply | None:
        """Return what is kept under a key; what cannot be read is not kept."""
        ...

    async def put(self, key: str, kept: KeptReply) -> None:
        """Keep a reply, in place of one that is there.

        Raises:
            OSError: it cannot be written; the caller goes on without.
        """
        ...
