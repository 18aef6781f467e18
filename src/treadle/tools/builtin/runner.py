"""From what a caller says about the sandbox to where commands run."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Literal

from treadle.errors import ConfigError
from treadle.ports.command_runner import Command, CommandEnd, CommandRunner
from treadle.tools.builtin.command import Unconfined
from treadle.values.logs import logger

GROUP = "treadle.sandboxes"
DEFAULT = "default"

Where = CommandRunner | Literal["auto"] | None
"""A sandbox, "auto" for one with its defaults, or None for no sandbox."""

log = logger(__name__)


def as_runner(sandbox: Where) -> CommandRunner:
    """Return where commands run.

    Raises:
        ConfigError: it is none of the three.
    """
    if sandbox is None:
        return Unconfined()
    if sandbox == "auto":
        return LogsFirstFailure(_installed())
    if not callable(getattr(sandbox, "run", None)) or isinstance(sandbox, type):
        raise ConfigError(
            f"sandbox={sandbox!r}: give a Sandbox(), "
            'None for commands without a sandbox, or "auto".'
        )
    return sandbox


class LogsFirstFailure:
    """A sandbox that nobody has asked for: where it does not work, the log says what to do.

    It says so once; the model is told each time.
    """

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self._warned = False

    async def run(self, command: Command) -> CommandEnd:
        """Run a command in the sandbox."""
        end = await self._runner.run(command)
        if end.ending == "not_started" and not self._warned:
            self._warned = True
            log.warning(
                "A command did not run, because its sandbox could not be set up: %s. "
                "Install bubblewrap, or pass sandbox=None to run commands without a sandbox.",
                end.reason,
            )
        return end


def _installed() -> CommandRunner:
    for entry in entry_points(group=GROUP, name=DEFAULT):
        runner: CommandRunner = entry.load()()
        return runner
    raise ConfigError(
        f"No sandbox is installed under the entry point {GROUP!r}; install treadle again, "
        "or pass sandbox=None to run commands without a sandbox."
    )
