"""The think tool: a thought that stays in the context."""

from __future__ import annotations

from treadle.tools.tool import Tool, tool


def think_tool() -> Tool:
    """Return the tool `think`: it gives the thought back and changes nothing."""

    def think(thought: str) -> str:
        """Think about something before you go on. Nothing happens; the thought stays in view.

        Args:
            thought: What you think.
        """
        return thought

    return tool(isolation="inline", parallel=True)(think)
