"""Carry one run out for a command: print it in the form that was asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from treadle.agent.result import AnyResult
from treadle.agent.run import Run
from treadle.cli.keeping import WayBack
from treadle.cli.loading import LOCAL_MODEL, AnyAgent, single
from treadle.cli.printing import EventPrinter, complain
from treadle.cli.records import event_record, result_record
from treadle.cli.terminal import Terminal, visible
from treadle.cli.transcript import waiting_lines
from treadle.cli.watching import watch
from treadle.errors import DefinitionChanged, InvalidInput, TreadleError
from treadle.events import AnyEvent, StopReason
from treadle.models.resolve import resolve_model

PAUSED = 3
EXIT_CODES: dict[StopReason, int] = {
    "answer": 0,
    "limit": 0,  # there is an answer all the same
    "paused": PAUSED,
    "cancelled": 130,
    "budget": 1,
    "deadline": 1,
    "loop": 1,
    "failed": 1,
}
EXITS = "Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 paused, 130 interrupted."


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add how an answer is printed."""
    parser.add_argument(
        "--stream", action="store_true", help="print text as it comes, and tool calls on stderr"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; with --stream one for each event, a line each",
    )


def announce(agent: AnyAgent, terminal: Terminal) -> None:
    """Say to who watches why nothing happens: a local model takes seconds to load."""
    one = single(agent)
    model = None if one is None else one.model
    if isinstance(model, str) and model.startswith(LOCAL_MODEL) and terminal.stderr.isatty():
        resolve_model(model, agent=agent.name)  # a wrong name is told, and nothing is loaded
        print("loading the model ...", file=terminal.stderr, flush=True)


class Answering:
    """Prints runs in the form that was asked for. `way_back` leads to one that has paused."""

    def __init__(self, terminal: Terminal, options: argparse.Namespace, way_back: WayBack) -> None:
        self._terminal = terminal
        self._streams: bool = options.stream
        self._as_json: bool = options.json
        self._debug: bool = options.debug
        self._way_back = way_back
        self._printer = EventPrinter(terminal, notes=terminal.stderr)
        self.code = 1

    async def show(self, start: Callable[[], Run[Any]]) -> AnyResult | None:
        """Start a run, show what happens and return its result.

        When it fails that is told, `code` is the exit code, and the answer is None.
        """
        run = start()
        try:
            return await watch(run, self._show)
        except TreadleError as error:
            self._failed(error)
            return None

    def ended(self, result: AnyResult) -> int:
        """Print what a run came to and return the exit code."""
        paused = result.stop_reason == "paused"
        if self._as_json:
            if not self._streams:
                print(result_record(result, None), file=self._terminal.stdout)
        elif paused and self._streams:
            self._printer.end_line()  # its text was shown as it came
        else:
            self._printer.finish(result.output)
        if paused:
            self._tell_pause(result)
        elif result.stop_reason != "answer":
            self._note(f"treadle: the run stopped ({result.stop_reason}). {result.reason}")
        return EXIT_CODES[result.stop_reason]

    def _show(self, event: AnyEvent) -> None:
        if not self._streams:
            return
        if self._as_json:
            print(event_record(event), file=self._terminal.stdout, flush=True)
        else:
            self._printer.show(event)

    def _tell_pause(self, result: AnyResult) -> None:
        self._note(f"treadle: the run is paused. {result.reason}")
        lines = how_to_go_on(self._way_back, result.run_id, decides=bool(result.pending))
        for line in [*waiting_lines(result.pending), *lines]:
            self._note(line)

    def _note(self, text: str) -> None:
        self._printer.note(visible(text).rstrip())

    def _failed(self, error: TreadleError) -> None:
        self._printer.end_line()
        if self._as_json and not self._streams:
            print(result_record(error.result, error), file=self._terminal.stdout)
        complain(error, self._terminal, debug=self._debug)
        if isinstance(error, DefinitionChanged):
            self._note("On this command line that is the option --accept-changes.")
        self.code = 2 if isinstance(error, InvalidInput) else 1


def how_to_go_on(way_back: WayBack, run_id: str, *, decides: bool) -> list[str]:
    """Return lines that say how a paused run is resumed, or why it cannot be."""
    command = way_back.command(run_id)
    if command is None and way_back.keeping is None:
        return ["It cannot go on, because nothing is stored: begin with --store URL next time."]
    if command is None:
        return ["It cannot go on elsewhere: a store in memory ends with this command."]
    lines = [f"To go on: {command}"]
    if decides:
        lines.append(
            "On a terminal that asks for decisions; else add --approve-all, or --approve CALL, "
            "--edit CALL=JSON, --deny CALL=REASON."
        )
    return lines
