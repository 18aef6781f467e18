"""`treadle models`: the models that run on this machine."""

from __future__ import annotations

import argparse

from treadle.cli.options import add_debug, show_help
from treadle.cli.terminal import Terminal
from treadle.errors import ModelFilesError
from treadle.providers.local.progress import TerminalProgress
from treadle.providers.local.weights import Listed, find, listed, pull

PREFIX = "local:"


def describe_models(parser: argparse.ArgumentParser) -> None:
    """Describe the command and those below it."""
    parser.description = "Show, fetch and find the models that run on this machine."
    add_debug(parser)
    parser.set_defaults(command=show_help(parser))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    shown = below.add_parser("list", help="show the known models, and which of them are here")
    shown.set_defaults(command=list_models)
    pulled = below.add_parser("pull", help="fetch a model, unless it is here, and print its path")
    pulled.set_defaults(command=pull_model)
    found = below.add_parser("path", help="print the path of a model that is here")
    found.set_defaults(command=print_path)
    for each in (shown, pulled, found):
        add_debug(each)
    for each in (pulled, found):
        each.add_argument(
            "name",
            nargs="?",
            default="",
            help="as `treadle models list` shows it (default: its first)",
        )


def list_models(_: argparse.Namespace, terminal: Terminal) -> int:
    """Print each known model: where it is, how large, and what it is good for."""
    models = listed()
    widest = max(len(PREFIX + each.name) for each in models)
    for each in models:
        print(_described(each, widest), file=terminal.stdout)
    return 0


def pull_model(options: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch a model and print its path.

    Raises:
        UnknownModel: no model has this name.
        ModelFilesError: it could not be had.
    """
    progress = TerminalProgress(terminal.stderr)
    try:
        path = pull(_name(options), progress)
    except KeyboardInterrupt:
        progress.close()
        print("treadle: stopped; pull again to go on from here.", file=terminal.stderr)
        raise
    finally:
        progress.close()
    print(path, file=terminal.stdout)
    return 0


def print_path(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print where a model is.

    Raises:
        UnknownModel: no model has this name.
        ModelFilesError: it is not here.
    """
    name = _name(options)
    path = find(name)
    if path is None:
        command = f"treadle models pull {name}".rstrip()
        raise ModelFilesError(f"The model is not on this machine; fetch it with: {command}")
    print(path, file=terminal.stdout)
    return 0


def _name(options: argparse.Namespace) -> str:
    given: str = options.name
    return given.removeprefix(PREFIX)


def _described(model: Listed, widest: int) -> str:
    place = model.path or f"not here; fetch it with: treadle models pull {model.name}"
    return (
        f"{PREFIX + model.name:{widest}}  {model.size / 1e6:4.0f} MB  {model.licence}\n"
        f"    {model.about}\n"
        f"    {place}"
    )
