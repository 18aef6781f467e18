"""What a tool may ask of the loop, as typed values that no text can forge."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Next(Struct, frozen=True):
    """Run another tool with these arguments, without asking the model in between.

    `output` is this tool's own result, kept in `RunResult.tool_results`; the model sees only
    the last result of the chain. A chain has at most 10 links.
    """

    tool: str
    arguments: dict[str, Any] = {}
    output: Any = ""


class Interrupt(Struct, frozen=True):
    """Pause the run after this batch of calls is stored.

    `output` is the call's result for the model; without one it is the reason.
    """

    reason: str
    output: Any = None


class Finish(Struct, frozen=True):
    """End the run with this output, once the batch is stored and no other call of it failed."""

    output: Any


Control = Next | Interrupt | Finish
