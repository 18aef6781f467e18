"""The seam to where commands run: in a sandbox, or not."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Ending = Literal["exited", "timed_out", "stopped", "not_started"]


class Command(Struct, frozen=True, kw_only=True):
    """One shell command: `sh -c text`, without input.

    `workspace` is the folder that it may change, or only read when that is `read_only`, and
    `folder` where it begins, in or below that; both are absolute and without links. It ends after
    `seconds`. Of its output, both streams in their order, at most `max_output` bytes are kept: the
    head and the tail.
    """

    text: str
    workspace: str
    folder: str
    seconds: float
    max_output: int
    read_only: bool = False


class CommandEnd(Struct, frozen=True, kw_only=True):
    """What came of a command.

    `exit_code` is 128 + n after signal n, as shells tell it, and -1 where there is none. `reason`
    says why a command was `"stopped"` (it used too much of something) or `"not_started"`.
    `seconds` is how long it took, by the wall.
    """

    ending: Ending
    exit_code: int = -1
    output: str = ""
    seconds: float = 0.0
    reason: str = ""


class CommandRunner(Protocol):
    """Runs commands somewhere."""

    async def run(self, command: Command) -> CommandEnd:
        """Run a command; when this returns or is cancelled, no process of it is left.

        It raises nothing of its own: what goes wrong is told in the value.
        """
        ...
