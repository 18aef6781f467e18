"""`treadle chat`: a conversation in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from treadle import __version__
from treadle.agent.approval import pending
from treadle.agent.result import AnyResult
from treadle.agent.run import Run
from treadle.cli.answering import PAUSED, how_to_go_on
from treadle.cli.deciding import Deciding, accepted
from treadle.cli.keeping import WayBack, find_keeping
from treadle.cli.loading import AnyAgent, find_agent, single
from treadle.cli.options import add_agent_options, add_conversation
from treadle.cli.printing import EventPrinter, complain, usage_in_brief
from treadle.cli.prompt import Prompt
from treadle.cli.talk import PassingTalk, StoredTalk, Talk
from treadle.cli.terminal import Terminal, visible
from treadle.cli.transcript import Transcript, last_exchanges, waiting_lines
from treadle.cli.watching import watch
from treadle.errors import ConfigError, TreadleError
from treadle.ids import check_id
from treadle.models.resolve import resolve_model
from treadle.ports.approval import Decisions, PendingCall
from treadle.ports.model import profile_of
from treadle.run_record import RunRecord
from treadle.tools.names import likely
from treadle.tools.registry import ToolRegistry

LAST_EXCHANGES = 3  # of a stored conversation, when it goes on
LAST_MESSAGES = 20
COMMAND = re.compile(r"/[a-z]+")

HELP = """\
/help          show this
/new           leave the conversation and start another
/conversation  show the conversation's ID and where it is stored
/fork          copy the stored conversation and go on in the copy
/resume        go on with the last run, if it paused or was stopped
/usage         show what the conversation has used
/model [NAME]  show the model, or go on with another, for example openai:gpt-5.2
/tools         list the agent's tools
/quit          leave (also Ctrl-D)

Ctrl-C stops the answer that is being given. A line that ends in \\ goes on in the next.
"""

EPILOG = f"""\
With --store the conversation is kept as it happens, and goes on later with --conversation:

  treadle chat my_agents:clerk --store sqlite:///chat.db --conversation ann

When a tool wants approval you are asked; what you put off waits in the store.

Commands in the conversation:

{HELP}
Exit codes: 0 left, 1 failed, 2 wrong usage, 3 paused, with nobody to ask, 130 left by Ctrl-C.
"""


def describe_chat(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = "Talk with an agent, or with the built-in assistant, in the terminal."
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="module:agent",
        help="where the agent is (default: the built-in assistant)",
    )
    add_agent_options(parser)
    add_conversation(parser)
    parser.set_defaults(command=chat_command)


def chat_command(options: argparse.Namespace, terminal: Terminal) -> int:
    """Talk until the user leaves; return the exit code.

    Raises:
        ConfigError: there is no such agent, model or store.
    """
    agent = find_agent(
        options.agent, model=options.model, max_turns=options.max_turns, terminal=terminal
    )
    one = single(agent)
    if one is not None:
        resolve_model(one.model, agent=one.name)  # a wrong name is told now, not at a question
    keeping = find_keeping(options.store, agent, conversation=options.conversation)
    if options.conversation is not None:
        check_id(options.conversation, "conversation")
    talk = PassingTalk() if keeping is None else StoredTalk(keeping, options.conversation)
    with suppress(ImportError):
        import_module("readline")  # gives input() its line editing, where Python was built with it
    way_back = WayBack(keeping, options.agent, options.model)
    return Chat(agent, terminal, talk, way_back, debug=options.debug).talk()


class Chat:
    """One conversation in the terminal: its lines, its commands, and the runs that answer."""

    def __init__(
        self, agent: AnyAgent, terminal: Terminal, talk: Talk, way_back: WayBack, *, debug: bool
    ) -> None:
        self._agent = agent
        self._terminal = terminal
        self._talk = talk
        self._way_back = way_back
        self._debug = debug
        self._deciding = Deciding(terminal, agent)
        self._runner = asyncio.Runner()
        self._interactive = terminal.stdin.isatty()
        self._prompt = Prompt(terminal)
        self._waits = False
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: self._say(HELP.rstrip()),
            "/new": self._begin_anew,
            "/usage": lambda _: self._say(usage_in_brief(self._runner.run(self._talk.used()))),
            "/model": self._change_model,
            "/tools": self._list_tools,
            "/conversation": lambda _: self._say(f"[{self._runner.run(self._talk.place())}]"),
            "/fork": self._fork,
            "/resume": self._resume_last,
        }

    def talk(self) -> int:
        """Answer line after line. One event loop serves them all, so that connections survive."""
        if self._interactive:
            self._say(
                f"treadle {__version__}: {self._agent.name} on {self._model_name()}. "
                "/help shows the commands, Ctrl-D leaves."
            )
        with self._runner:
            try:
                self._pick_up()
                self._take_lines()
                self._say_where()
            finally:
                self._runner.run(self._talk.close())
        if self._waits and not self._interactive:
            return PAUSED
        return 130 if self._prompt.interrupted else 0

    def _take_lines(self) -> None:
        """Answer what is said. From a pipe nothing is asked while calls wait for a decision."""
        while self._interactive or not self._waits:
            line = self._prompt.read()
            if line is None:
                break
            first, _, rest = line.partition(" ")
            if first in ("/quit", "/exit", "/q"):
                break
            if COMMAND.fullmatch(first):
                self._obey(first, rest.strip())
            elif line:
                self._carry_out(partial(self._talk.start, self._agent, line))

    def _say_where(self) -> None:
        """Tell who leaves how to come back."""
        talk = self._talk
        if not self._interactive or not isinstance(talk, StoredTalk) or talk.id is None:
            return
        command = self._way_back.chat(talk.id)
        if command is not None:
            self._say(f"[go on later: {visible(command)}]")

    def _pick_up(self) -> None:
        """Show where a stored conversation stands, and go on with a run that was left there."""
        talk = self._talk
        if not isinstance(talk, StoredTalk) or talk.id is None:
            return
        view = self._runner.run(talk.view())
        if view is None:
            if self._interactive:
                self._say(f"[a new conversation: {visible(talk.id)}]")
            return
        said = f"{len(view.messages)} message{'' if len(view.messages) == 1 else 's'}"
        shown = last_exchanges(view.messages, exchanges=LAST_EXCHANGES, most=LAST_MESSAGES)
        which = ", the last of them:" if len(shown) < len(view.messages) else ""
        self._say(f"[conversation {visible(talk.id)} goes on after {said}{which}]")
        Transcript(self._terminal).show(shown, waiting=pending(view))
        last = view.last_run
        if last is not None and last.status in ("running", "paused"):
            self._offer(last, pending(view))

    def _offer(self, run: RunRecord, waiting: Sequence[PendingCall]) -> None:
        """Go on with a run that was left unfinished, if the user wants that."""
        how = "paused" if run.status == "paused" else "unfinished"
        why = f": {visible(run.reason)}" if run.reason else ""
        self._say(f"[run {visible(run.run_id)} was left {how}{why}]")
        if not self._terminal.can_ask:
            self._tell_way_back(run.run_id, waiting)
            return
        try:
            typed = self._terminal.ask("Go on with it? [Y/n] ")
        except KeyboardInterrupt:
            self._say("")
            typed = None
        if typed is not None and typed.lower() in ("", "y", "yes"):
            self._resume(run.run_id, waiting)
        else:
            self._tell_way_back(run.run_id, waiting)

    def _resume_last(self, _: str) -> None:
        view = self._runner.run(self._talk.view()) if isinstance(self._talk, StoredTalk) else None
        last = view.last_run if view is not None else None
        if view is None or last is None or last.status == "answered":
            self._say("[there is nothing to resume]")
            return
        self._deciding = Deciding(self._terminal, self._agent)  # it asks about all again
        self._resume(last.run_id, pending(view))

    def _resume(self, run_id: str, waiting: Sequence[PendingCall]) -> None:
        decisions = self._decide(waiting)
        if waiting and not decisions:
            self._tell_way_back(run_id, waiting)
        else:
            self._carry_out(partial(self._start_again, run_id, decisions))

    def _start_again(self, run_id: str, decisions: Decisions) -> Run[Any]:
        on_change = accepted(self._terminal, accept=False)
        if isinstance(self._talk, PassingTalk):
            raise ConfigError("Nothing is stored, so nothing can be resumed.")
        return self._talk.resume(self._agent, run_id, decisions, on_change)

    def _carry_out(self, start: Callable[[], Run[Any]]) -> None:
        """Show a run to its end; where it pauses for decisions, ask for them and go on."""
        self._waits = False
        result = self._runner.run(self._show(start))
        while result is not None and result.stop_reason == "paused":
            stored = isinstance(self._talk, StoredTalk)
            decisions: Decisions = self._decide(result.pending) if stored else {}
            if not decisions:
                self._say(f"[paused: {visible(result.reason)}]")
                self._tell_way_back(result.run_id, result.pending)
                return
            result = self._runner.run(
                self._show(partial(self._start_again, result.run_id, decisions))
            )

    def _decide(self, waiting: Sequence[PendingCall]) -> Decisions:
        """Return what the user decides about calls; nothing after Ctrl-C."""
        try:
            return self._deciding.ask(waiting)
        except KeyboardInterrupt:
            self._say("")
            return {}

    async def _show(self, start: Callable[[], Run[Any]]) -> AnyResult | None:
        """Start a run, show what happens, and return its result, None when it failed."""
        printer = EventPrinter(self._terminal, notes=self._terminal.stdout)
        try:
            result = await watch(start(), printer.show)
        except TreadleError as error:
            printer.end_line()
            complain(error, self._terminal, debug=self._debug)
            self._talk.keep(error.result)
            return None
        self._talk.keep(result)
        if result.stop_reason == "paused":
            printer.end_line()
            return result
        printer.finish(result.output)
        if result.stop_reason != "answer":
            reason = f": {visible(result.reason)}" if result.reason else ""
            printer.note(f"[{result.stop_reason}{reason}]")
        return result

    def _tell_way_back(self, run_id: str, waiting: Sequence[PendingCall]) -> None:
        """Say how a run goes on that was left as it is."""
        self._waits = bool(waiting) and self._way_back.keeping is not None
        command = self._way_back.command(run_id)
        if self._interactive:
            if self._way_back.keeping is not None:
                self._say("[/resume goes on with it; whatever else you ask takes its place]")
            if command is not None:
                self._say(f"[later: {visible(command)}]")
            return
        lines = how_to_go_on(self._way_back, run_id, decides=bool(waiting))
        for line in [*waiting_lines(waiting), *lines]:
            print(visible(line), file=self._terminal.stderr, flush=True)

    def _obey(self, command: str, argument: str) -> None:
        obey = self._commands.get(command)
        if obey is not None:
            try:
                obey(argument)
            except TreadleError as error:
                complain(error, self._terminal, debug=self._debug)
            return
        near = likely(command, [*self._commands, "/quit"])
        self._say(
            f"There is no command {command}; {f'did you mean {near}?' if near else 'see /help.'}"
        )

    def _begin_anew(self, _: str) -> None:
        self._talk.begin_anew()
        self._waits = False
        self._say("[a new conversation]")

    def _fork(self, _: str) -> None:
        if isinstance(self._talk, PassingTalk):
            self._say(f"[{self._runner.run(self._talk.place())}]")
            return
        parent = self._runner.run(self._talk.fork())
        self._waits = False  # in the copy the run is over
        self._say(f"[now in {self._talk.id}, a fork of {visible(parent)}]")

    def _change_model(self, name: str) -> None:
        if name:
            resolve_model(name)
            agent = single(self._agent)
            if agent is None:
                raise ConfigError(f"{self._agent.name} is made of several agents with own models.")
            self._agent = agent.replace(model=name)
            self._way_back = replace(self._way_back, model=name)
        self._say(self._model_name())

    def _list_tools(self, _: str) -> None:
        agent = single(self._agent)
        specs = ToolRegistry(() if agent is None else agent.tools).specs
        lines = [f"{spec.name}  {''.join(spec.description.splitlines()[:1])}" for spec in specs]
        self._say("\n".join(lines) or "[the agent has no tools]")

    def _model_name(self) -> str:
        agent = single(self._agent)
        if agent is None:
            return "several agents"
        model = agent.model
        if isinstance(model, str):
            return model
        profile = profile_of(model)
        return f"{profile.provider}:{profile.name}"

    def _say(self, text: str) -> None:
        print(text, file=self._terminal.stdout, flush=True)
