"""Drop the oldest turns: nothing stands in their place, and no model is asked."""

from __future__ import annotations

from treadle.compaction.strategy import Ask, Gone
from treadle.compaction.turns import Kind


class DropOldest:
    """The older half of the tool traffic goes, then more until it fits."""

    name = "drop_oldest"
    keep_recent = 0
    protect: tuple[Kind, ...] = ("user", "final", "skills")
    share = 0.5

    async def note(self, gone: Gone, ask: Ask) -> None:
        """Return nothing: nothing stands in place of `gone`."""
