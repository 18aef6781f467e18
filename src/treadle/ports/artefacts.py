"""The seam to a conversation's artefacts: tool output that was too long for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from treadle.messages import Artefact


class Artefacts(Protocol):
    """The artefacts of one conversation, as its run keeps and reads them."""

    @property
    def known(self) -> Mapping[str, Artefact]:
        """All of them, by ID."""
        ...

    def most(self, max_output: int) -> int:
        """Return how many bytes of a result the model gets, of so many that its tool allows."""
        ...

    async def keep(self, content: bytes, lines: int) -> Artefact:
        """Keep a text (UTF-8) whole, and return what is known of it. Raises what the store does."""
        ...

    async def read(self, id: str) -> bytes:
        """Return a text, as UTF-8.

        Raises:
            ToolError: there is no such artefact in this conversation.
            StoreError: it cannot be had.
        """
        ...
