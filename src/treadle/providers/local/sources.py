"""Where a model file can come from: anything that can write one into a part file."""

from __future__ import annotations

from typing import Protocol

from treadle.errors import ModelFilesError
from treadle.providers.local.part import PartFile


class SourceFailed(ModelFilesError):
    """A source does not have the file, or cannot be reached; another one may."""


class Source(Protocol):
    """One place that model files come from."""

    def write(self, part: PartFile) -> None:
        """Bring `part` to the size of its model. What came is judged by the caller.

        Raises:
            SourceFailed: it cannot; the next source is tried.
            ModelFilesError: nothing can, because the disk is full for example.
        """
        ...

    def forget(self, part: PartFile) -> None:
        """Remove what was kept for the next attempt."""
        ...
