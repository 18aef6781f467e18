"""`treadle run`: one question, one answer."""

from __future__ import annotations

import argparse
import asyncio
import re
from typing import TextIO

from treadle.agent.result import AnyResult
from treadle.cli.loading import LOCAL_MODEL, AnyAgent, find_agent
from treadle.cli.options import add_agent_options
from treadle.cli.printing import EventPrinter, complain
from treadle.cli.records import event_record, result_record
from treadle.cli.terminal import Terminal
from treadle.cli.watching import watch
from treadle.errors import ConfigError, TreadleError
from treadle.events import AnyEvent, StopReason
from treadle.models.resolve import resolve_model

REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")

EXIT_CODES: dict[StopReason, int] = {
    "answer": 0,
    "limit": 0,  # there is an answer all the same
    "paused": 0,
    "cancelled": 130,
    "budget": 1,
    "deadline": 1,
    "loop": 1,
    "failed": 1,
}

EPILOG = """\
examples:
  treadle run "What is 23 * 17?"
  treadle run my_agents:writer "A haiku about looms" --stream
  git diff | treadle run "Review this change:" -

Without a question, or with -, standard input is read. After -- all is the question, also a word
that looks like an option or an agent: treadle run -- --help me
Exit codes: 0 answered, 1 the run failed, 2 wrong usage, 130 interrupted.
"""


def describe_run(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = "Ask an agent, or the built-in assistant, a question and print its answer."
    parser.epilog = EPILOG
    parser.usage = 'treadle run [options] [module:agent] "question" [-] [-- question]'
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[module:agent] question",
        help="where the agent is (default: the built-in assistant), and what to ask it",
    )
    add_agent_options(parser)
    parser.add_argument(
        "--stream", action="store_true", help="print text as it comes, and tool calls on stderr"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; with --stream one for each event, a line each",
    )
    parser.set_defaults(command=run_command, after="")


def run_command(options: argparse.Namespace, terminal: Terminal) -> int:
    """Ask and print; return the exit code.

    Raises:
        ConfigError: there is no question, agent or model.
    """
    reference, question = question_of(options.words, terminal.stdin, after=options.after)
    try:
        agent = find_agent(
            reference, model=options.model, max_turns=options.max_turns, terminal=terminal
        )
    except ConfigError as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and options.words == [reference]:
            raise ConfigError(f"{error} {_asked_as_it_is(reference)}") from error
        raise
    _announce(agent, terminal)
    answering = Answering(
        terminal, streams=options.stream, as_json=options.json, debug=options.debug
    )
    return asyncio.run(answering.ask(agent, question))


def question_of(words: list[str], stdin: TextIO, *, after: str = "") -> tuple[str | None, str]:
    """Return the agent's reference, if there is one, and the question.

    `after` is what stood after `--`: the question as it is.

    Raises:
        ConfigError: there is no question, or more than one.
    """
    if after.strip():
        if len(words) > 1:
            raise ConfigError(f"{words[1]!r} is one word too many: the question stands after --.")
        return (words[0] if words else None), after.strip()
    reads = words[-1:] == ["-"]
    rest = words[:-1] if reads else list(words)
    if len(rest) > 2:
        raise ConfigError(f"{rest[2]!r} is one word too many; put the question in quotes.")
    reference = None
    if len(rest) == 2 or (rest and REFERENCE.fullmatch(rest[0])):
        reference = rest.pop(0)
    if reads or not (rest or stdin.isatty()):
        rest.append(stdin.read())
    question = "\n\n".join(rest).strip()
    if not question:
        words_of_agent = f"{reference} " if reference else ""
        hint = f" {_asked_as_it_is(reference)}" if reference else ""
        raise ConfigError(
            "There is no question; write it in quotes: "
            f'treadle run {words_of_agent}"What is 2 + 2?"{hint}'
        )
    return reference, question


def _asked_as_it_is(word: str | None) -> str:
    return f"If {word!r} is the question, write: treadle run -- {word}"


def _announce(agent: AnyAgent, terminal: Terminal) -> None:
    """Say to who watches why nothing happens: a local model takes seconds to load."""
    model = agent.model
    if isinstance(model, str) and model.startswith(LOCAL_MODEL) and terminal.stderr.isatty():
        resolve_model(model, agent=agent.name)  # a wrong name is told, and nothing is loaded
        print("loading the model ...", file=terminal.stderr, flush=True)


class Answering:
    """Prints a run in the form that was asked for."""

    def __init__(self, terminal: Terminal, *, streams: bool, as_json: bool, debug: bool) -> None:
        self._terminal = terminal
        self._streams = streams
        self._as_json = as_json
        self._debug = debug
        self._printer = EventPrinter(terminal, notes=terminal.stderr)

    async def ask(self, agent: AnyAgent, question: str) -> int:
        """Run the agent and return the exit code."""
        run = agent.start(question)
        try:
            result = await watch(run, self._show)
        except TreadleError as error:
            self._failed(error)
            return 1
        self._ended(result)
        return EXIT_CODES[result.stop_reason]

    def _show(self, event: AnyEvent) -> None:
        if not self._streams:
            return
        if self._as_json:
            print(event_record(event), file=self._terminal.stdout, flush=True)
        else:
            self._printer.show(event)

    def _ended(self, result: AnyResult) -> None:
        if self._as_json:
            if not self._streams:
                print(result_record(result, None), file=self._terminal.stdout)
        else:
            self._printer.finish(result.output)
        if result.stop_reason != "answer":
            self._printer.note(f"treadle: the run stopped ({result.stop_reason}). {result.reason}")

    def _failed(self, error: TreadleError) -> None:
        self._printer.end_line()
        if self._as_json and not self._streams:
            print(result_record(error.result, error), file=self._terminal.stdout)
        complain(error, self._terminal, debug=self._debug)
