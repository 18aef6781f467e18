"""An agent as one tool of a server: a call of it is a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from treadle.errors import InvalidInput, InvalidTool, StoreError, TreadleError
from treadle.mcp.server_asking import asking, decisions_of, with_problem
from treadle.mcp.server_progress import Progress, report_of_event
from treadle.mcp.server_wire import (
    Answer,
    Asking,
    Call,
    Client,
    Question,
    Wire,
    result,
    text_result,
)
from treadle.ports.approval import Decisions, PendingCall
from treadle.ports.runnable import Outcome, Runnable, Running
from treadle.ports.store import Store
from treadle.tools.arguments import ArgumentsInvalid
from treadle.tools.names import safe_name
from treadle.tools.outcome import describe
from treadle.tools.schema_check import SchemaDecoder
from treadle.tools.signature import TypeDecoder
from treadle.values import json_text

PARAMETERS: Wire = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "minLength": 1,
            "description": "What to ask or tell it, in words, with all that it needs to know.",
        },
        "conversation": {
            "type": "string",
            "minLength": 1,
            "description": "ID of a conversation: the same again goes on with it, "
            "a new one begins it. Without one it remembers nothing.",
        },
    },
    "required": ["input"],
    "additionalProperties": False,
}
WRAPPED = "result"
"""The key of an output that is no object: the protocol wants one."""
GO_ON = "go_on"
CALLS, PAUSE = "calls", "pause"


@dataclass(frozen=True, kw_only=True)
class OfferedAgent:
    """Offers something that runs. `keeps` is whether the store holds on to every conversation."""

    runnable: Runnable
    store: Store
    keeps: bool
    description: str = ""
    deps: Any = None
    _arguments: SchemaDecoder = field(default_factory=lambda: SchemaDecoder(PARAMETERS))
    _passing: set[str] = field(default_factory=set[str])

    @property
    def name(self) -> str:
        """What clients call it."""
        return safe_name(self.runnable.name)

    def listed(self) -> Wire:
        """Return what clients are told of it."""
        own = self.description or getattr(self.runnable, "description", None)
        told = own or f"Ask the agent {self.runnable.name!r}; it answers when it is done."
        tool: Wire = {"name": self.name, "description": told, "inputSchema": PARAMETERS}
        return tool if self._output is None else tool | {"outputSchema": self._output[0]}

    async def call(self, call: Call, client: Client) -> Wire | Asking:
        """Run the agent, or go on with a run that paused, and return what came of it."""
        try:
            if call.state is not None:
                return await self._go_on(call, client)
            run = self._start(call)
            return self._told(run, await self._ended(run, client))
        except ArgumentsInvalid as error:
            return text_result(str(error), is_error=True)
        except TreadleError as error:
            return text_result(f"{self.name} failed: {describe(error)}", is_error=True)

    @cached_property
    def _output(self) -> tuple[Wire, bool] | None:
        """The schema of a typed output, and whether it is wrapped in an object."""
        kind: Any = getattr(self.runnable, "output_type", str)
        if kind is str:
            return None
        try:
            schema = TypeDecoder(kind).schema
        except TypeError as error:
            raise InvalidTool(f"The output of {self.name!r} has no JSON form: {error}") from error
        if schema.get("type") == "object":
            return schema, False
        inner = {key: value for key, value in schema.items() if key != "$defs"}
        outer: Wire = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED]}
        return outer | ({"$defs": schema["$defs"]} if "$defs" in schema else {}), True

    def _start(self, call: Call) -> Running:
        given = self._arguments.decode(call.arguments)
        conversation: str | None = given.get("conversation")
        run = self.runnable.start(
            given["input"], conversation=conversation, store=self.store, deps=self.deps
        )
        if conversation is None and not self.keeps:
            self._passing.add(run.conversation_id)
        return run

    def _resume(self, run_id: str, decisions: Decisions) -> Running:
        return self.runnable.resume(run_id, decisions=decisions, store=self.store, deps=self.deps)

    async def _ended(self, run: Running, client: Client) -> Outcome:
        """Wait for the end of a run; what nobody will ask for again is not kept in memory."""
        waits = False
        try:
            outcome = await self._followed(run, client)
            waits = outcome.stop_reason == "paused"
            return outcome
        except (InvalidInput, StoreError):  # it was not let go on
            waits = True
            raise
        finally:
            if run.conversation_id in self._passing and not waits:
                self._passing.discard(run.conversation_id)
                with client.shield():
                    await self.store.delete(run.conversation_id)

    async def _followed(self, run: Running, client: Client) -> Outcome:
        """Tell the client what happens until the run ends. When the call is cancelled, so is it."""
        try:
            if client.wants_progress:
                progress = Progress(client)
                async for event in run:
                    report = report_of_event(event)
                    if report is not None:
                        await progress.send(report)
            return await run.result()
        except asyncio.CancelledError:
            with client.shield():
                await run.cancel("The client cancelled the call, or left.")
            raise

    def _told(self, run: Running, outcome: Outcome) -> Wire | Asking:
        """Return the result of a run that has ended, or the questions of one that has paused."""
        meta: Wire = {
            "run_id": run.id,
            "conversation_id": run.conversation_id,
            "stop_reason": outcome.stop_reason,
        }
        if outcome.stop_reason == "paused":
            return self._paused(run.id, outcome, meta)
        if outcome.stop_reason == "answer" or (
            outcome.stop_reason == "limit" and self._output is None
        ):
            return self._answer(outcome.output, meta)
        why = f": {outcome.reason}" if outcome.reason else ""
        so_far = f"\n\nSo far: {outcome.output}" if outcome.output else ""
        text = f"{self.name} stopped without an answer ({outcome.stop_reason}{why}).{so_far}"
        return text_result(text, is_error=True, meta=meta)

    def _answer(self, output: Any, meta: Wire) -> Wire:
        if self._output is None:
            return text_result(str(output), meta=meta)
        value: Any = json.loads(json_text(output)) if not isinstance(output, str) else output
        structured: Wire = {WRAPPED: value} if self._output[1] else value
        content: Wire = {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}
        return result([content], structured=structured, meta=meta)

    def _paused(self, run_id: str, outcome: Outcome, meta: Wire) -> Asking:
        pending = outcome.pending
        otherwise = text_result(_waits(self.name, run_id, outcome), is_error=True, meta=meta)
        if pending:
            return asking(pending, self.name, state=f"{CALLS}:{run_id}", otherwise=otherwise)
        question = Question(
            id=GO_ON,
            message=f"{self.name} has paused: {outcome.reason or 'it waits to go on'}. Go on?",
            schema={"type": "object", "properties": {}},
        )
        return Asking(questions=(question,), state=f"{PAUSE}:{run_id}", otherwise=otherwise)

    async def _go_on(self, call: Call, client: Client) -> Wire | Asking:
        """Go on with the run that waits, as the answers say.

        What the client sends back is looked at as what strangers send.
        """
        kind, _, run_id = (call.state or "").partition(":")
        if kind == PAUSE:
            if call.answers.get(GO_ON, Answer("cancel", {})).action != "accept":
                return text_result(_left(self.name, run_id), is_error=True)
        elif kind != CALLS:
            raise InvalidInput("The state that came with the answers is not one of this server.")
        run = self._resume(run_id, {})  # with nothing decided, it tells what waits
        outcome = await self._ended(run, client)
        told = self._told(run, outcome)
        if kind == PAUSE or not outcome.pending or not isinstance(told, Asking):
            return told
        return await self._decide(call, outcome.pending, told, client)

    async def _decide(
        self, call: Call, pending: Sequence[PendingCall], told: Asking, client: Client
    ) -> Wire | Asking:
        """Let the run go on with what was decided; `told` are the questions as they stand."""
        decisions, problem = decisions_of(call.answers, pending)
        if not decisions:
            dismissed = not problem and all(each.call_id in call.answers for each in pending)
            return told.otherwise if dismissed else with_problem(told, problem)
        run = self._resume(told.state.partition(":")[2], decisions)
        try:
            return self._told(run, await self._ended(run, client))
        except InvalidInput as error:  # an edit that the tool does not take; the call still waits
            return with_problem(told, str(error))


def _waits(name: str, run_id: str, outcome: Outcome) -> str:
    """Say what a run waits for, to a client that cannot ask anybody."""
    if not outcome.pending:
        return f"{name} has paused: {outcome.reason}. Somebody has to resume run {run_id}."
    calls = ", ".join(_shown(call) for call in outcome.pending)
    return (
        f"{name} waits: somebody has to approve {calls}. "
        f"They decide where this server runs, on run {run_id}."
    )


def _shown(call: PendingCall) -> str:
    return f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)[:500]})"


def _left(name: str, run_id: str) -> str:
    return f"{name} has paused, and nobody let it go on. Somebody has to resume run {run_id}."
