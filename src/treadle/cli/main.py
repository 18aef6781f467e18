"""The command table of `treadle`."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper

from treadle import __version__
from treadle.cli.chat import describe_chat

# MODELSfrom treadle.cli.models import add_models
from treadle.cli.models import describe_models
from treadle.cli.options import Command, add_debug
from treadle.cli.printing import complain
from treadle.cli.run import describe_run
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError, TreadleError

COMMANDS = (
    ("run", "ask an agent one question", describe_run),
    ("chat", "talk with an agent", describe_chat),
    ("models", "show and fetch the models that run on this machine", describe_models),
)

EPILOG = """\
Without module:agent, `run` and `chat` use a built-in assistant with a calculator, a clock and
files of this folder; it writes and runs commands only after a yes for each. It uses OpenAI where
OPENAI_API_KEY is set, else a small model on this machine.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 ok, 1 failed, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what cannot be encoded here is no reason to fail
            stream.reconfigure(errors="replace")
    terminal = Terminal(sys.stdin, sys.stdout, sys.stderr, os.environ)
    parser = build_parser()
    try:
        options = _parsed(parser, argv)
    except SystemExit as ended:  # argparse has said what is wrong, or shown its help
        return ended.code if isinstance(ended.code, int) else 2
    if options.command is None:
        parser.print_help()
        return 0
    return _guarded(options.command, options, terminal)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="treadle",
        description="Agents that survive: run them, and talk with them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"treadle {__version__}")
    add_debug(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary, describe in COMMANDS:
        describe(commands.add_parser(name, help=summary))
    return parser


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse; words may stand between options too, which argparse alone does not take."""
    options, rest = parser.parse_known_args(argv, argparse.Namespace(command=None, debug=False))
    ends = rest.index("--") if "--" in rest else len(rest)
    strange = [word for word in rest[:ends] if word.startswith("-") and word != "-"]
    if strange or (rest and not hasattr(options, "words")):
        parser.error(f"unrecognized arguments: {' '.join(strange or rest)}")
    if rest:
        options.words += rest[:ends] + rest[ends + 1 :]
    return options


def _guarded(command: Command, options: argparse.Namespace, terminal: Terminal) -> int:
    """Run a command; whatever it raises is one line on stderr and an exit code."""
    try:
        code = command(options, terminal)
        terminal.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has enough. Python would complain about it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except TreadleError as error:
        complain(error, terminal, debug=options.debug)
        return 2 if isinstance(error, ConfigError) else 1
    except Exception as error:  # noqa: BLE001 the border of the program
        if options.debug:
            traceback.print_exc()
        name = type(error).__name__
        print(f"treadle: unforeseen: {name}: {error} (--debug shows more)", file=terminal.stderr)
        return 1
