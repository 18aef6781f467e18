"""`treadle run`: one question, one answer."""

from __future__ import annotations

import argparse
import asyncio
import re
from typing import TextIO

from treadle.cli.answering import EXITS, Answering, add_form, announce
from treadle.cli.keeping import Keeping, WayBack, find_keeping
from treadle.cli.loading import AnyAgent, find_agent
from treadle.cli.options import add_agent_options, add_conversation
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError

REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")

EPILOG = """\
examples:
  treadle run "What is 23 * 17?"
  treadle run my_agents:writer "A haiku about looms" --stream
  git diff | treadle run "Review this change:" -
  treadle run my_agents:clerk "Refund INV-1" --store sqlite:///chat.db --conversation ann

Without a question, or with -, standard input is read. After -- all is the question, also a word
that looks like an option or an agent: treadle run -- --help me
A run pauses when a tool wants approval; what is in a store can go on: see treadle resume --help
"""


def describe_run(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = "Ask an agent, or the built-in assistant, a question and print its answer."
    parser.epilog = f"{EPILOG}{EXITS}\n"
    parser.usage = 'treadle run [options] [module:agent] "question" [-] [-- question]'
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[module:agent] question",
        help="where the agent is (default: the built-in assistant), and what to ask it",
    )
    add_agent_options(parser)
    add_conversation(parser)
    add_form(parser)
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
    keeping = find_keeping(options.store, agent, conversation=options.conversation)
    announce(agent, terminal)
    answering = Answering(terminal, options, WayBack(keeping, reference, options.model))
    return asyncio.run(_ask(answering, agent, question, keeping, options.conversation))


async def _ask(
    answering: Answering,
    agent: AnyAgent,
    question: str,
    keeping: Keeping | None,
    conversation: str | None,
) -> int:
    store = keeping.store if keeping is not None else None
    try:
        result = await answering.show(
            lambda: agent.start(question, store=store, conversation=conversation)
        )
        return answering.code if result is None else answering.ended(result)
    finally:
        if keeping is not None:
            await keeping.close()


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
