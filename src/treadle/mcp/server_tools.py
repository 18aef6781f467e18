"""A plain tool of a server: each call runs by the rules of tools, outside any run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from treadle.events import Event
from treadle.ids import new_stamp
from treadle.limits import Budget, Limits
from treadle.mcp.server_asking import NotReadable, asking, decision_of
from treadle.mcp.server_progress import Reports
from treadle.mcp.server_wire import Asking, Call, Client, Wire, text_result, tool_result
from treadle.messages import ToolCall
from treadle.ports.approval import Approve, Deny, Edit, PendingCall
from treadle.ports.context import RunContext, RunFacts
from treadle.state.scoped import State
from treadle.tools.approval import needs_approval
from treadle.tools.execute import ToolRunner
from treadle.tools.registry import ToolRegistry

CALL = "call"
"""The ID of the one call there is."""
ASKED = "tool"
"""The state of a call that waits: it has not begun, so there is nothing to remember."""


class Silence:
    """Where the events of a call go that is part of no run."""

    live = False

    def emit(self, kind: type[Event], span_id: str, parent_id: str | None, *fields: Any) -> None:
        """Nobody listens."""


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
        return {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": dict(spec.parameters),
        }

    async def call(self, call: Call, client: Client) -> Wire | Asking:
        """Run the tool; the client hears what it reports."""
        reports = Reports(client)
        facts = self._facts(reports)
        made = ToolCall(id=CALL, name=self.name, raw=json.dumps(call.arguments))
        waiting = await self._waiting(made, facts)
        if waiting is not None:
            allowed = self._decided(call, waiting, made)
            if not isinstance(allowed, ToolCall):
                return allowed
            made = allowed
        runner = ToolRunner(self.registry, facts, Silence(), parent_span="")
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(reports.send_all())
            try:
                outcome = await runner.run_one(made)
            finally:
                telling.cancel()
        await reports.send_waiting()
        return tool_result(outcome.result)

    def _facts(self, reports: Reports) -> RunFacts:
        stamp = new_stamp()
        return RunFacts(
            run_id=f"run_{stamp}",
            conversation_id=f"conv_{stamp}",
            agent=self.server,
            deps=self.deps,
            metadata={},
            budget=Budget(Limits()),
            state=State(),
            report=lambda _id, _tool, progress: reports.add(progress),
        )

    async def _waiting(self, made: ToolCall, facts: RunFacts) -> PendingCall | None:
        """Return the call as one that waits for a decision, None when it may run at once."""
        tool = self.registry.get(self.name)
        if tool is None:
            return None
        ctx: RunContext[Any] = RunContext(facts, call_id=CALL, tool=self.name)
        reason = await needs_approval(tool, made, ctx)
        return None if reason is None else PendingCall(CALL, self.name, made.arguments, reason)

    def _decided(
        self, call: Call, waiting: PendingCall, made: ToolCall
    ) -> ToolCall | Wire | Asking:
        """Return the call that may run, or else its result, or the question about it."""
        left = text_result(
            f"{self.name} did not run: somebody has to approve it first.", is_error=True
        )
        question = asking([waiting], self.server, state=ASKED, otherwise=left)
        answer = call.answers.get(CALL)
        if answer is None:
            return question
        try:
            decision = decision_of(answer, waiting)
        except NotReadable as problem:
            return text_result(f"{self.name} did not run: {problem}", is_error=True)
        match decision:
            case None:
                return left
            case Deny(reason=reason):
                why = f": {reason}" if reason else "."
                return text_result(f"{self.name} did not run: it was denied{why}", is_error=True)
            case Edit(arguments=arguments):
                return ToolCall(
                    id=CALL, name=self.name, raw=json.dumps({**made.arguments, **arguments})
                )
            case Approve():
                return made
