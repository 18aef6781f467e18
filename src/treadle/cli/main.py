"""The command table of `treadle`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from typing import Any

from treadle import __version__
from treadle.cli.chat import describe_chat
from treadle.cli.conversations import describe_conversations
from treadle.cli.mcp import describe_mcp
from treadle.cli.models import describe_models
from treadle.cli.options import Command, add_debug, show_help
from treadle.cli.printing import complain
from treadle.cli.resume import describe_resume
from treadle.cli.run import describe_run
from treadle.cli.show import describe_show
from treadle.cli.skills import describe_skills
from treadle.cli.terminal import Terminal, unseen
from treadle.errors import ConfigError, TreadleError

COMMANDS = (
    ("run", "ask an agent one question", describe_run),
    ("chat", "talk with an agent", describe_chat),
    ("resume", "go on with a run that paused, or whose process died", describe_resume),
    (
        "conversations",
        "list, show, fork and delete conversations of a store",
        describe_conversations,
    ),
    ("show", "show what one run said, used and had in its window", describe_show),
    ("mcp", "offer agents and tools to clients of the Model Context Protocol", describe_mcp),
    ("models", "show and fetch the models that run on this machine", describe_models),
    ("skills", "list and check folders of skills", describe_skills),
)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What says that output has nowhere to go."""

EPILOG = """\
Without module:agent, `run`, `chat` and `resume` use a built-in assistant with a calculator, a
clock and files of this folder; it writes and runs commands only after a yes for each. It uses
OpenAI where OPENAI_API_KEY is set, else a small model on this machine.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 ok, 1 failed, 2 wrong usage, 3 a run has paused, 130 interrupted.
    """
    _open_streams()
    if sys.stdout is None:
        print(
            "treadle: standard output is closed; leave it open, or send it to /dev/null.",
            file=sys.stderr,
        )
        return 2
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what cannot be encoded here is no reason to fail
            stream.reconfigure(errors="replace")
    terminal = Terminal(sys.stdin, unseen(sys.stdout), unseen(sys.stderr), os.environ)
    parser = build_parser()
    try:
        options = _parsed(parser, argv)
    except SystemExit as ended:  # argparse has said what is wrong, or shown its help
        code = ended.code if isinstance(ended.code, int) else 2
        return _guarded(_ended(code), _defaults(), terminal)
    return _guarded(options.command or show_help(parser), options, terminal)


def _open_streams() -> None:
    """Put an empty stream in place of a closed one (`<&-`, `2>&-`), which Python has as None."""
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # it takes the free number, so that no socket does
        sys.stdin = StringIO()
    if sys.stderr is None:
        os.open(os.devnull, os.O_WRONLY)
        sys.stderr = StringIO()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="treadle",
        description="Agents that survive: run them, and talk with them.",
        epilog=EPILOG,
        formatter_class=_Wide,
    )
    parser.add_argument("--version", action="version", version=f"treadle {__version__}")
    add_debug(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary, describe in COMMANDS:
        describe(commands.add_parser(name, help=summary))
    return parser


class _Wide(argparse.RawDescriptionHelpFormatter):
    """Has room for the longest command: argparse forgets that commands are indented."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **options)
        self._action_max_length = 4 + max(len(name) for name, _, _ in COMMANDS)


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse; words may stand between options too, which argparse alone does not take.

    What stands after `--` is the question of a command that asks one.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    ends = given.index("--") if "--" in given else len(given)
    options, rest = parser.parse_known_args(given[:ends], _defaults())
    asks = hasattr(options, "after")
    if not asks:
        options, rest = parser.parse_known_args(given, _defaults())
    takes_words = hasattr(options, "words")
    strange = [word for word in rest if not takes_words or (word.startswith("-") and word != "-")]
    if strange:
        parser.error(f"unrecognized arguments: {' '.join(strange)}")
    if takes_words:
        options.words += rest
    if asks:
        options.after = " ".join(given[ends + 1 :])
    return options


def _defaults() -> argparse.Namespace:
    return argparse.Namespace(command=None, debug=False)


def _guarded(command: Command, options: argparse.Namespace, terminal: Terminal) -> int:
    """Run a command; whatever it raises is one line on stderr and an exit code."""
    try:
        code = command(options, terminal)
        terminal.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read the output has enough
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return 130
    except TreadleError as error:
        complain(error, terminal, debug=options.debug)
        return 2 if isinstance(error, ConfigError) else 1
    except Exception as error:  # noqa: BLE001 the border of the program
        if options.debug:
            traceback.print_exc()
        print(f"treadle: {_border_text(error)}", file=terminal.stderr)
        return 1


def _border_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
        _drop_output()
        return f"the output cannot be written: {error.strerror}; send it elsewhere, or make room."
    return f"unforeseen: {type(error).__name__}: {error} (--debug shows more)"


def _drop_output() -> None:
    """Send what is left to nowhere; Python would complain about it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(code: int) -> Command:
    return lambda _options, _terminal: code
