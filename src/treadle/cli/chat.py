"""`treadle chat`: a conversation in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

from treadle import __version__
from treadle.agent.result import RunResult
from treadle.cli.loading import AnyAgent, find_agent
from treadle.cli.options import add_agent_options
from treadle.cli.printing import EventPrinter, complain, usage_in_brief
from treadle.cli.terminal import Terminal, visible
from treadle.cli.watching import watch
from treadle.errors import TreadleError
from treadle.messages import Message
from treadle.models.resolve import resolve_model
from treadle.ports.model import profile_of
from treadle.tools.names import likely
from treadle.tools.registry import ToolRegistry
from treadle.usage import NOTHING

PROMPT = "> "
CONTINUED = ". "
COMMAND = re.compile(r"/[a-z]+")

HELP = """\
/help          show this
/new           forget the conversation and start another
/usage         show what the conversation has used
/model [NAME]  show the model, or go on with another, for example openai:gpt-5.2
/tools         list the agent's tools
/quit          leave (also Ctrl-D)

Ctrl-C stops the answer that is being given. A line that ends in \\ goes on in the next.
"""


def describe_chat(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = "Talk with an agent, or with the built-in assistant, in the terminal."
    parser.epilog = f"Commands in the conversation:\n\n{HELP}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="module:agent",
        help="where the agent is (default: the built-in assistant)",
    )
    add_agent_options(parser)
    parser.set_defaults(command=chat_command)


def chat_command(options: argparse.Namespace, terminal: Terminal) -> int:
    """Talk until the user leaves; return the exit code.

    Raises:
        ConfigError: there is no such agent or model.
    """
    agent = find_agent(
        options.agent, model=options.model, max_turns=options.max_turns, terminal=terminal
    )
    resolve_model(
        agent.model, agent=agent.name
    )  # a wrong name is told now, not at the first question
    with suppress(ImportError):
        import_module("readline")  # gives input() its line editing, where Python was built with it
    return Chat(agent, terminal, debug=options.debug).talk()


class Chat:
    """One conversation: its agent, its history, and what it has used."""

    def __init__(self, agent: AnyAgent, terminal: Terminal, *, debug: bool) -> None:
        self._agent = agent
        self._terminal = terminal
        self._debug = debug
        self._history: Sequence[Message] = ()
        self._used = NOTHING
        self._interactive = terminal.stdin.isatty()
        self._interrupted = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: self._say(HELP.rstrip()),
            "/new": self._begin_anew,
            "/usage": lambda _: self._say(usage_in_brief(self._used)),
            "/model": self._change_model,
            "/tools": self._list_tools,
        }

    def talk(self) -> int:
        """Answer line after line. One event loop serves them all, so that connections survive."""
        if self._interactive:
            self._say(
                f"treadle {__version__}: {self._agent.name} on {self._model_name()}. "
                "/help shows the commands, Ctrl-D leaves."
            )
        with asyncio.Runner() as runner:
            while (line := self._read()) is not None:
                first, _, rest = line.partition(" ")
                if first in ("/quit", "/exit", "/q"):
                    break
                if COMMAND.fullmatch(first):
                    self._obey(first, rest.strip())
                elif line:
                    runner.run(self._ask(line))
        return 130 if self._interrupted else 0

    async def _ask(self, question: str) -> None:
        printer = EventPrinter(self._terminal, notes=self._terminal.stdout)
        try:
            result = await watch(self._agent.start(question, history=self._history), printer.show)
        except TreadleError as error:
            printer.end_line()
            complain(error, self._terminal, debug=self._debug)
            self._keep(error.result)
            return
        self._keep(result)
        printer.finish(result.output)
        if result.stop_reason != "answer":
            reason = f": {visible(result.reason)}" if result.reason else ""
            printer.note(f"[{result.stop_reason}{reason}]")

    def _keep(self, result: object) -> None:
        """Go on from where a run ended, however it ended."""
        if isinstance(result, RunResult):
            self._history = result.messages
            self._used += result.usage

    def _read(self) -> str | None:
        """Return what the user says, or None when they leave."""
        lines: list[str] = []
        while True:
            line = self._read_line(CONTINUED if lines else PROMPT)
            if line is None:
                return None
            if not line.endswith("\\"):
                return "\n".join([*lines, line]).strip()
            lines.append(line[:-1])

    def _read_line(self, prompt: str) -> str | None:
        if not self._interactive:
            line = self._terminal.stdin.readline()
            return line.rstrip("\n") if line else None
        while True:
            try:
                line = input(prompt)
            except EOFError:
                self._say("")
                return None
            except KeyboardInterrupt:
                if self._interrupted:
                    self._say("")
                    return None
                self._interrupted = True
                self._say("\n[press Ctrl-C again, or Ctrl-D, to leave]")
            else:
                self._interrupted = False
                return line

    def _obey(self, command: str, argument: str) -> None:
        obey = self._commands.get(command)
        if obey is not None:
            obey(argument)
            return
        near = likely(command, [*self._commands, "/quit"])
        self._say(
            f"There is no command {command}; {f'did you mean {near}?' if near else 'see /help.'}"
        )

    def _begin_anew(self, _: str) -> None:
        self._history = ()
        self._used = NOTHING
        self._say("[a new conversation]")

    def _change_model(self, name: str) -> None:
        if name:
            try:
                resolve_model(name)
            except TreadleError as error:
                complain(error, self._terminal, debug=self._debug)
                return
            self._agent = self._agent.replace(model=name)
        self._say(self._model_name())

    def _list_tools(self, _: str) -> None:
        specs = ToolRegistry(self._agent.tools).specs
        lines = [f"{spec.name}  {''.join(spec.description.splitlines()[:1])}" for spec in specs]
        self._say("\n".join(lines) or "[the agent has no tools]")

    def _model_name(self) -> str:
        model = self._agent.model
        if isinstance(model, str):
            return model
        profile = profile_of(model)
        return f"{profile.provider}:{profile.name}"

    def _say(self, text: str) -> None:
        print(text, file=self._terminal.stdout, flush=True)
