"""Decisions on calls that wait: as options of a command, and asked for on a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import Any

from treadle.agent.options import OnChange
from treadle.cli.loading import AnyAgent, single
from treadle.cli.printing import call_in_full
from treadle.cli.terminal import Terminal, visible
from treadle.errors import ConfigError
from treadle.ports.approval import Approve, Decision, Deny, Edit, PendingCall
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments, show_parameters
from treadle.tools.registry import ToolRegistry
from treadle.tools.schema_check import SchemaDecoder

QUESTION = "[a]pprove, [e]dit, [d]eny or [l]ater? "
ANSWERS = {
    "a": "approve",
    "approve": "approve",
    "y": "approve",
    "yes": "approve",
    "e": "edit",
    "edit": "edit",
    "d": "deny",
    "deny": "deny",
    "n": "deny",
    "no": "deny",
    "l": "later",
    "later": "later",
}


def add_decisions(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide on calls."""
    group = parser.add_argument_group(
        "decisions", "what becomes of calls that wait; without these, a terminal asks"
    )
    group.add_argument(
        "--approve", metavar="CALL", action="append", default=[], help="let this call run"
    )
    group.add_argument("--approve-all", action="store_true", help="let all calls run that wait now")
    group.add_argument(
        "--deny",
        metavar="CALL[=REASON]",
        action="append",
        default=[],
        help="do not let this call run, and tell the model why",
    )
    group.add_argument(
        "--edit",
        metavar="CALL=JSON",
        action="append",
        default=[],
        help="let it run with these arguments in place of the model's; others stay",
    )


def given_decisions(options: argparse.Namespace) -> dict[str, Decision]:
    """Return what the options decide, `--approve-all` left out.

    Raises:
        ConfigError: an edit is no JSON object, or a call is decided on twice.
    """
    given: list[tuple[str, Decision]] = [(call_id, Approve()) for call_id in options.approve]
    for text in options.deny:
        call_id, _, reason = text.partition("=")
        given.append((call_id, Deny(reason)))
    given += [_edit_of(text) for text in options.edit]
    decisions: dict[str, Decision] = {}
    for call_id, decision in given:
        if call_id in decisions:
            raise ConfigError(f"Call {call_id!r} is decided on twice; say one thing about it.")
        decisions[call_id] = decision
    return decisions


def _edit_of(text: str) -> tuple[str, Decision]:
    call_id, equals, written = text.partition("=")
    try:
        if not equals or not written.strip():
            raise ArgumentsInvalid("there are no arguments")
        return call_id, Edit(parse_arguments(written))
    except ArgumentsInvalid as error:
        raise ConfigError(
            f"--edit {text!r} cannot be used: {error} Write the call, = and a JSON object, "
            f"for example --edit '{call_id}={{\"amount\": 5}}'"
        ) from error


def accepted(terminal: Terminal, *, accept: bool) -> OnChange:
    """Return what to do about an agent that is not what it was: ask where somebody can be asked."""
    if accept:
        return "accept"
    if not terminal.can_ask:
        return "refuse"

    async def ask(changes: Sequence[str]) -> bool:
        told = visible("; ".join(changes))
        return await terminal.confirm(
            f"The agent is not what it was when the run began: {told}\nGo on all the same?"
        )

    return ask


class Deciding:
    """Asks somebody at a terminal about calls that wait.

    Calls that were put off are remembered, so that nobody is asked again and again.
    """

    def __init__(self, terminal: Terminal, agent: AnyAgent) -> None:
        self._terminal = terminal
        one = single(agent)
        self._registry = ToolRegistry(() if one is None else one.tools)
        self._put_off: set[str] = set()

    def ask(self, calls: Sequence[PendingCall], known: Collection[str] = ()) -> dict[str, Decision]:
        """Return decisions on those calls that somebody wants to decide on now.

        Calls that were put off before, or whose decision is `known`, are not asked about. Ctrl-C
        raises `KeyboardInterrupt`, with nothing decided.
        """
        open_calls = [c for c in calls if c.call_id not in known and c.call_id not in self._put_off]
        if not self._terminal.can_ask:
            return {}
        decisions: dict[str, Decision] = {}
        for place, call in enumerate(open_calls, 1):
            many = f" ({place} of {len(open_calls)})" if len(open_calls) > 1 else ""
            decision = self._ask_about(call, many)
            if decision is None:
                self._put_off.add(call.call_id)
            else:
                decisions[call.call_id] = decision
        return decisions

    def _ask_about(self, call: PendingCall, many: str) -> Decision | None:
        """Return the decision on one call, None for later."""
        reason = f"\n{visible(call.reason)}" if call.reason else ""
        if call.schema is not None:
            reason += f"\nIt wants an answer: {visible(show_parameters(call.schema))}"
        self._say(
            f"Call {visible(call.call_id)} waits for a decision{many}. "
            f"{call_in_full(call.name, call.arguments)}{reason}"
        )
        while True:
            typed = self._terminal.ask(QUESTION)
            match "later" if typed is None else ANSWERS.get(typed.lower()):
                case "approve":
                    if self._fits(call, {}):
                        return Approve()
                case "deny":
                    return Deny(self._terminal.ask("Why? (the model is told; may be empty) ") or "")
                case "edit":
                    if (edit := self._ask_for_edit(call)) is not None:
                        return edit
                case "later":
                    return None
                case _:
                    self._say("Type a, e, d or l; Ctrl-C decides nothing.")

    def _ask_for_edit(self, call: PendingCall) -> Edit | None:
        what = "Arguments to change" if call.schema is None else "The answer"
        typed = self._terminal.ask(f'{what}, like {{"name": "value"}} (empty: none): ')
        if not typed:
            return None
        try:
            changes = parse_arguments(typed)
        except ArgumentsInvalid as error:
            self._say(visible(str(error)))
            return None
        return Edit(changes) if self._fits(call, changes) else None

    def _fits(self, call: PendingCall, given: dict[str, Any]) -> bool:
        """Whether the call may run with this; what is wrong with it is said."""
        tool = self._registry.get(call.name)
        try:
            if call.schema is not None:
                SchemaDecoder(call.schema).decode(given)
            elif tool is not None and given:
                tool.decoder.decode({**call.arguments, **given})
        except ArgumentsInvalid as error:
            self._say(visible(str(error)))
            return False
        return True

    def _say(self, text: str) -> None:
        print(text, file=self._terminal.stderr, flush=True)
