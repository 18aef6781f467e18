"""Options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from treadle.cli.terminal import Terminal

Command = Callable[[argparse.Namespace, Terminal], int]
"""What a command does: it returns the exit code."""


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command that runs an agent takes."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help='model to use, like "openai:gpt-5.2" or "local:" (default: the agent\'s own)',
    )
    parser.add_argument(
        "--max-turns", type=_count, metavar="N", help="how often the model may be asked at most"
    )
    add_debug(parser)


def add_store(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --store."""
    parser.add_argument(
        "--store",
        metavar="URL",
        required=required,
        help='where conversations are kept, like "sqlite:///chat.db" or "file:chats"',
    )


def add_conversation(parser: argparse.ArgumentParser) -> None:
    """Add --store and which conversation of it."""
    add_store(parser)
    parser.add_argument(
        "--conversation",
        metavar="ID",
        help="conversation of the store to go on with; a new ID begins one",
    )


def add_debug(parser: argparse.ArgumentParser) -> None:
    """Add --debug, so that it may stand before or after the command."""
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show tracebacks",
    )


def show_help(parser: argparse.ArgumentParser) -> Command:
    """Return what a command does that has commands below it: it shows its help."""

    def show(_: argparse.Namespace, terminal: Terminal) -> int:
        parser.print_help(terminal.stdout)
        return 0

    return show


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of turns; give 1 or more")
    return number
