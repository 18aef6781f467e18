"""`treadle resume`: go on with a run that paused, failed, was stopped, or whose process died."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from treadle.agent.approval import pending
from treadle.agent.conversation import Conversation
from treadle.agent.options import OnChange
from treadle.agent.owner import is_dead
from treadle.agent.run import Run
from treadle.cli.answering import EXITS, PAUSED, Answering, add_form, announce, how_to_go_on
from treadle.cli.deciding import Deciding, accepted, add_decisions, given_decisions
from treadle.cli.keeping import EXAMPLE, Keeping, WayBack, find_keeping, open_existing
from treadle.cli.loading import AnyAgent, find_agent
from treadle.cli.options import add_agent_options, add_store
from treadle.cli.terminal import Terminal, visible
from treadle.errors import ConfigError
from treadle.ids import check_id
from treadle.ports.approval import Approve, Decision, PendingCall

EPILOG = f"""\
examples:
  treadle resume run_01 --store sqlite:///chat.db
  treadle resume run_01 my_agents:clerk --store sqlite:///chat.db --approve call_1
  treadle resume run_01 my_agents:clerk --store file:chats --edit 'call_1={{"amount": 5}}' --json

Name the agent that began the run. No model call and no tool call that finished is repeated; a run
that has answered gives its answer again. Calls that nobody decides on go on waiting.
{EXITS}
"""


def describe_resume(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Go on with a run of a store: one that paused, failed or was stopped, or whose process "
        "died. On a terminal it asks about each call that waits for a decision."
    )
    parser.epilog = EPILOG
    parser.usage = "treadle resume [options] RUN_ID [module:agent] --store URL"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RUN_ID [module:agent]",
        help="the run, and where its agent is (default: the built-in assistant)",
    )
    add_agent_options(parser)
    add_store(parser)
    add_form(parser)
    parser.add_argument(
        "--accept-changes",
        action="store_true",
        help="go on although the agent's tools or output are not what they were",
    )
    add_decisions(parser)
    parser.set_defaults(command=resume_command)


def resume_command(options: argparse.Namespace, terminal: Terminal) -> int:
    """Resume and print; return the exit code.

    Raises:
        ConfigError: there is no such agent, model or store, or a decision cannot be read.
        StoreError: there is no such run.
    """
    run_id, reference = _run_of(options.words)
    decisions = given_decisions(options)
    agent = find_agent(
        reference, model=options.model, max_turns=options.max_turns, terminal=terminal
    )
    keeping = (
        open_existing(options.store) if options.store is not None else find_keeping(None, agent)
    )
    if keeping is None:
        raise ConfigError(f"Say which store the run is in, for example {EXAMPLE}")
    resuming = Resuming(agent, keeping, terminal, options, reference)
    with asyncio.Runner() as runner:
        try:
            return resuming.go(runner, run_id, decisions)
        finally:
            runner.run(keeping.close())


def _run_of(words: Sequence[str]) -> tuple[str, str | None]:
    if not words:
        raise ConfigError(
            "Say which run to go on with; treadle conversations list shows the newest of each "
            "conversation."
        )
    if len(words) > 2:
        raise ConfigError(f"{words[2]!r} is one word too many: give the run, then its agent.")
    if ":" in words[0] and len(words) == 2 and ":" not in words[1]:
        raise ConfigError(f"The run comes first: treadle resume {words[1]} {words[0]}")
    return check_id(words[0], "run"), (words[1] if len(words) == 2 else None)


class Resuming:
    """Goes on with one run, and asks about its calls where there is somebody to ask."""

    def __init__(
        self,
        agent: AnyAgent,
        keeping: Keeping,
        terminal: Terminal,
        options: argparse.Namespace,
        reference: str | None,
    ) -> None:
        self._agent = agent
        self._keeping = keeping
        self._terminal = terminal
        self._approves_all: bool = options.approve_all
        self._on_change: OnChange = accepted(terminal, accept=options.accept_changes)
        self._way_back = WayBack(keeping, reference, options.model)
        self._answering = Answering(terminal, options, self._way_back)

    def go(self, runner: asyncio.Runner, run_id: str, decisions: dict[str, Decision]) -> int:
        """Go on until the run ends, or nobody decides on what it waits for."""
        waiting = runner.run(self._look(run_id))
        announce(self._agent, self._terminal)
        deciding = Deciding(self._terminal, self._agent)
        if self._approves_all:
            decisions = {**{call.call_id: Approve() for call in waiting}, **decisions}
        if decisions.keys() <= {call.call_id for call in waiting}:
            asked = _ask(deciding, waiting, decisions)
            if asked is None:
                return self._left_paused(run_id)
            decisions |= asked
        while True:
            result = runner.run(self._answering.show(partial(self._start, run_id, decisions)))
            if result is None:
                return self._answering.code
            decisions = _ask(deciding, result.pending) or {}
            if not decisions:
                return self._answering.ended(result)

    def _start(self, run_id: str, decisions: dict[str, Decision]) -> Run[Any]:
        return self._agent.resume(
            run_id, store=self._keeping.store, decisions=decisions, on_change=self._on_change
        )

    async def _look(self, run_id: str) -> Sequence[PendingCall]:
        """Return the calls of the run that wait, and say what its user should know before."""
        store = self._keeping.store
        conversation = await Conversation.open(await store.find(run_id), store=store)
        view = await conversation.view()
        record, head = view.runs.get(run_id), conversation.head
        if record is not None and record.status == "answered":
            self._say(f"treadle: run {run_id} has answered already; this is its answer.")
        owner = head.owner if head.run_id == run_id and head.status == "running" else None
        if owner is not None and not await asyncio.to_thread(is_dead, owner):
            self._say(f"treadle: run {run_id} is at work elsewhere; waiting until it lets go.")
        last = view.last_run
        return pending(view) if last is not None and last.run_id == run_id else []

    def _left_paused(self, run_id: str) -> int:
        self._say("\ntreadle: nothing was decided; the run is as it was.")
        for line in how_to_go_on(self._way_back, run_id, decides=True):
            self._say(line)
        return PAUSED

    def _say(self, text: str) -> None:
        print(visible(text), file=self._terminal.stderr, flush=True)


def _ask(
    deciding: Deciding, calls: Sequence[PendingCall], known: Collection[str] = ()
) -> dict[str, Decision] | None:
    """Return what somebody decides, None after Ctrl-C."""
    try:
        return deciding.ask(calls, known)
    except KeyboardInterrupt:
        return None
