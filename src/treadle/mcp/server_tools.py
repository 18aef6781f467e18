"""A plain tool of a server: each call runs by the rules of tools, outside any run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.events import Event
from treadle.ids import new_stamp
from treadle.limits import Budget, Limits
from treadle.mcp.server_asking import NotReadable, asking, decision_of, with_problem
from treadle.mcp.server_progress import Reports
from treadle.mcp.server_wire import Asking, Call, Client, Refused, Wire, text_result, tool_result
from treadle.messages import ToolCall
from treadle.ports.approval import Approve, Decision, Deny, Edit, PendingCall
from treadle.ports.context import RunContext, RunFacts
from treadle.state.scoped import State
from treadle.tools.approval import needs_approval
from treadle.tools.execute import ToolRunner
from treadle.tools.outcome import ToolOutcome
from treadle.tools.registry import ToolRegistry

CALL = "call"
"""The ID of the one call there is."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Silence:
    """Where the events of a call go that is part of no run."""

    live = False

    def emit(self, kind: type[Event], span_id: str, parent_id: str | None, *fields: Any) -> None:
        """Nobody listens."""


class Standing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a call has come that asks: all that there is to it, since it is kept by the client.

    `asked` is what it waits for, `answers` what it has been told while it ran.
    """

    arguments: dict[str, Any]
    approved: bool = False
    answers: tuple[dict[str, Any], ...] = ()
    asked: PendingCall | None = None

    def after(self, decision: Approve | Edit) -> Standing:
        """Return how it stands after a yes."""
        wants_answer = self.asked is not None and self.asked.schema is not None
        given = decision.arguments if isinstance(decision, Edit) else {}
        arguments = self.arguments if wants_answer else {**self.arguments, **given}
        answers = (*self.answers, given if wants_answer else {}) if self.approved else ()
        return Standing(arguments=arguments, approved=True, answers=answers)


@dataclass(frozen=True, kw_only=True)
class OfferedTool:
    """Offers a tool of `registry`, whose others a chain of calls may go on to."""

    name: str
    registry: ToolRegistry
    server: str
    deps: Any = None

    def listed(self) -> Wire:
        """Return what clients are told of it."""
        spec = next(each for each in self.registry.specs if each.name == self.name)
        schema = dict(spec.parameters)
        if "$defs" in schema:  # what references mean depends on the dialect
            schema = {"$schema": DIALECT, **schema}
        return {"name": spec.name, "description": spec.description, "inputSchema": schema}

    async def call(self, call: Call, client: Client) -> Wire | Asking:
        """Run the tool; the client hears what it reports, and answers what it asks."""
        standing = _read(call)
        if standing.asked is not None:
            found = self._after(standing, standing.asked, call)
            if not isinstance(found, Standing):
                return found
            standing = found
        made = ToolCall(id=CALL, name=self.name, raw=json.dumps(standing.arguments))
        if not standing.approved:
            waiting = await self._waiting(made)
            if waiting is not None:
                return self._ask(replace(standing, asked=waiting), waiting)
        outcome = await run_apart(
            self.registry, made, self.server, client, answers=standing.answers, deps=self.deps
        )
        if outcome.asked is None:
            return tool_result(outcome.result)
        reason, schema = outcome.asked.reason, outcome.asked.schema
        waiting = PendingCall(CALL, self.name, standing.arguments, reason, schema)
        return self._ask(replace(standing, approved=True, asked=waiting), waiting)

    def _after(
        self, standing: Standing, waiting: PendingCall, call: Call
    ) -> Standing | Wire | Asking:
        """Return how a call stands with its answer, or its result, or the question once more."""
        question = self._ask(standing, waiting)
        try:
            decision = _decision(call, waiting)
        except NotReadable as problem:
            return with_problem(question, str(problem))
        match decision:
            case None:
                return question.otherwise
            case Deny(reason=reason):
                why = f": {reason}" if reason else "."
                return text_result(f"{self.name} did not run: it was denied{why}", is_error=True)
            case _:
                return standing.after(decision)

    def _ask(self, standing: Standing, waiting: PendingCall) -> Asking:
        why = f" {waiting.reason}" if waiting.reason else ""
        left = text_result(
            f"{self.name} waits: somebody at the client has to decide on it.{why}", is_error=True
        )
        state = msgspec.json.encode(standing).decode()
        return asking([waiting], self.server, state=state, otherwise=left)

    async def _waiting(self, made: ToolCall) -> PendingCall | None:
        """Return the call as one that waits for a decision, None when it may run at once."""
        tool = self.registry.get(self.name)
        if tool is None:
            return None
        facts = _facts(self.server, self.deps, lambda _: None)
        ctx: RunContext[Any] = RunContext(facts, call_id=CALL, tool=self.name)
        reason = await needs_approval(tool, made, ctx)
        return None if reason is None else PendingCall(CALL, self.name, made.arguments, reason)


async def run_apart(
    registry: ToolRegistry,
    made: ToolCall,
    server: str,
    client: Client,
    *,
    answers: tuple[dict[str, Any], ...] = (),
    deps: Any = None,
) -> ToolOutcome:
    """Run a call that is part of no run; the client hears what it reports."""
    reports = Reports(client)
    runner = ToolRunner(registry, _facts(server, deps, reports.add), Silence(), parent_span="")
    runner.answers[made.id] = answers
    async with asyncio.TaskGroup() as group:
        group.create_task(reports.send_all())
        try:
            return await runner.run_one(made)
        finally:
            reports.end()


def _facts(server: str, deps: Any, report: Callable[[Any], None]) -> RunFacts:
    stamp = new_stamp()
    return RunFacts(
        run_id=f"run_{stamp}",
        conversation_id=f"conv_{stamp}",
        agent=server,
        deps=deps,
        metadata={},
        budget=Budget(Limits()),
        state=State(),
        report=lambda _call, _tool, progress: report(progress),
    )


def _decision(call: Call, waiting: PendingCall) -> Decision | None:
    answer = call.answers.get(CALL)
    if answer is None:
        raise NotReadable("There was no answer.")
    return decision_of(answer, waiting)


def _read(call: Call) -> Standing:
    """Return how a call stands; what the client kept is looked at as what strangers send."""
    if call.state is None:
        return Standing(arguments=call.arguments)
    try:
        return msgspec.json.decode(call.state, type=Standing)
    except msgspec.DecodeError as error:
        raise Refused("The state that came with the answers is not one of this server.") from error
