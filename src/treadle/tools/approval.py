"""Whether a call has to wait until somebody has decided on it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from msgspec.json import encode as encode_json

from treadle.control import AskApproval
from treadle.errors import InvalidTool, NotStorable
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.messages import ToolCall
from treadle.open_calls import waiting
from treadle.ports.context import RunContext
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.outcome import MOST_ERROR_BYTES, ToolOutcome, cut, describe, error_result
from treadle.tools.parameters import normalize_schema
from treadle.tools.policy import Rules, Ruling
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.tools.tool import Tool
from treadle.values import clean, json_text

Predicate = Callable[[RunContext[Any], dict[str, Any]], bool | Awaitable[bool]]
NOTHING_HELD: Mapping[str, ApprovalDecided] = MappingProxyType({})
MOST_QUESTIONS = 10
"""How often one call may ask in the middle."""


def digest_of(call: ToolCall, registry: ToolRegistry, rounds: int = 0) -> str:
    """Return what tells this very question from any other, and after the point the definition.

    That is the tool, its arguments, and how often the call has asked in the middle.
    """
    again = f"\0{rounds}" if rounds else ""
    asked = short_hash(f"{call.name}\0{call.raw}{again}".encode(errors="surrogatepass"))
    return f"{asked}.{registry.definition.get(call.name, '')}"


async def needs_approval(tool: Tool, call: ToolCall, ctx: RunContext[Any]) -> str | None:
    """Return why the call has to wait ("" for always), or None when nobody needs to look at it."""
    ruling = await ruling_of(tool, call, ctx)
    return ruling.reason if ruling is not None and ruling.verdict == "ask" else None


async def ruling_of(
    tool: Tool, call: ToolCall, ctx: RunContext[Any], policy: Rules | None = None
) -> Ruling | None:
    """Return what rules, the tool's option or its function say of a call; None when it may run.

    A call whose arguments are no good runs into its error; nobody needs to look at it.
    """
    if tool.approval is False and policy is None:
        return None
    try:
        arguments = parse_arguments(call.raw)
        values = tool.decoder.decode(arguments)
    except ArgumentsInvalid:
        return None
    named = {**arguments, **values}  # the model may know an argument by another name
    if policy is not None:
        ruling = await _judged(policy, call.name, tool, named)
        if ruling is not None:
            return ruling
    if isinstance(tool.approval, Rules):
        return await _judged(tool.approval, call.name, tool, named)
    return await _asked_for(tool.approval, ctx, values)


async def _judged(rules: Rules, name: str, tool: Tool, values: dict[str, Any]) -> Ruling | None:
    """Return what rules say, found out in a thread where that may take long."""
    if not rules.looks:
        return rules.judge(name, tool.parameters, values)
    return await asyncio.to_thread(rules.judge, name, tool.parameters, values)


async def _asked_for(
    approval: bool | Predicate, ctx: RunContext[Any], values: dict[str, Any]
) -> Ruling | None:
    if isinstance(approval, bool):
        return Ruling("ask") if approval else None
    try:
        wanted = approval(ctx, values)
        if inspect.isawaitable(wanted):
            wanted = await wanted
    except Exception as error:  # noqa: BLE001 it is the user's code; when in doubt, ask
        return Ruling("ask", f"The rule for its approval failed: {describe(error)}")
    return Ruling("ask") if wanted else None


class Approvals:
    """What is to become of the calls of one run: by its rules, and by each yes that holds.

    `policy` are the rules for all tools, `held` what somebody has said yes to for the rest of the
    conversation. They are `idle` where every call may run.
    """

    __slots__ = ("_registry", "held", "idle", "policy")

    def __init__(
        self,
        registry: ToolRegistry,
        policy: Rules | None = None,
        held: Mapping[str, ApprovalDecided] = NOTHING_HELD,
    ) -> None:
        self._registry = registry
        self.policy = policy
        self.held = held
        self.idle = policy is None and not registry.asks

    def concern(self, tool: Tool | None) -> bool:
        """Whether there is anything to find out about calls of this tool."""
        return tool is not None and (self.policy is not None or tool.approval is not False)

    async def ruling(self, tool: Tool, call: ToolCall, ctx: RunContext[Any]) -> Ruling | None:
        """Return what is to become of a call, None when it may run and nobody decided that."""
        ruling = await ruling_of(tool, call, ctx, self.policy)
        if ruling is None or ruling.verdict != "ask" or ruling.once is None:
            return ruling
        before = self.held.get(self.held_as(tool, call, ruling))
        if before is None:
            return ruling
        note = f"The yes to call {before.call_id!r} holds."
        return Ruling("allow", rule=ruling.rule, by=before.by, note=note)

    async def refuses_link(
        self, first: ToolCall, link: ToolCall, ctx: RunContext[Any]
    ) -> tuple[ToolOutcome | None, list[ApprovalDecided]]:
        """Return the outcome of a chain whose next link may not run, and what was decided on it."""
        tool = self._registry.get(link.name)
        if tool is None or not self.concern(tool):
            return None, []
        ruling = await self.ruling(tool, link, ctx)
        if ruling is None:
            return None, []
        if ruling.verdict == "ask":
            return refused_link(first, link), []
        decision = [self.decision(link, ruling, ctx.run_id)]
        if ruling.verdict == "allow":
            return None, decision
        result = error_result(first, denied_by_rule(ruling))
        return ToolOutcome(call=first, result=result, stage="approval"), decision

    async def denial(self, tool: Tool, name: str, values: dict[str, Any]) -> str | None:
        """Return the text that refuses a call with these values, None where no rule denies it.

        Rules are about the agent's tools, not about the one that reads long outputs.
        """
        if name not in self._registry:
            return None
        for rules in (self.policy, tool.approval):
            if isinstance(rules, Rules):
                ruling = await _judged(rules, name, tool, values)
                if ruling is not None:
                    return denied_by_rule(ruling) if ruling.verdict == "deny" else None
        return None

    def held_as(self, tool: Tool, call: ToolCall, ruling: Ruling) -> str:
        """Return what a yes to this call holds for, "" when only for the call itself.

        That is the rule, the tool as the model is told of it, and where the rule says so the
        arguments.
        """
        if ruling.once is None:
            return ""
        arguments = parse_arguments(call.raw) if ruling.once == "arguments" else None
        told = [ruling.rule, call.name, tool.description, tool.parameters, arguments]
        return short_hash(encode_json(told, order="sorted"))

    def decision(self, call: ToolCall, ruling: Ruling, run_id: str) -> ApprovalDecided:
        """Return the entry that nobody was asked about a call, because of a rule."""
        return ApprovalDecided(
            run_id=run_id,
            at=datetime.now(UTC),
            call_id=call.id,
            digest=digest_of(call, self._registry),
            verdict="approve" if ruling.verdict == "allow" else "deny",
            reason=clean(ruling.reason),
            by=ruling.by,
            note=ruling.note,
            rule=clean(ruling.rule),
            name=call.name,
        )


def denied_by_rule(ruling: Ruling) -> str:
    """Return the text that tells the model that a rule does not let a call run."""
    why = f" The reason: {ruling.reason}" if ruling.reason else ""
    return f"Not run: a rule does not allow this call.{why}"


def asked_midway(
    question: AskApproval,
    first: ToolCall,
    call: ToolCall,
    ctx: RunContext[Any],
    registry: ToolRegistry,
) -> ToolOutcome:
    """Return the outcome of a call that asks while it runs: it waits, where it may ask at all."""
    if call is not first:
        return refused_link(first, call)
    rounds = len(ctx.answers) + 1
    if rounds > MOST_QUESTIONS:
        return _unasked(call, f"has asked {MOST_QUESTIONS} times; it may not ask again.")
    try:
        schema = None if question.schema is None else normalize_schema(question.schema)
        json_text(schema)
    except (InvalidTool, NotStorable) as error:
        return _unasked(call, f"asked for an answer of a schema that is none: {error}")
    asked = ApprovalAsked(
        run_id=ctx.run_id,
        at=datetime.now(UTC),
        call_id=call.id,
        digest=digest_of(call, registry, rounds),
        reason=cut(clean(str(question.reason)), MOST_ERROR_BYTES),
        midway=True,
        schema=schema,
    )
    return ToolOutcome(call=call, result=waiting(call, midway=True), asked=asked)


def next_question(before: ApprovalAsked | None) -> int:
    """Return the number of what a call asks now, after what it asked `before`."""
    return 1 if before is None else before.question + 1


def refused_link(first: ToolCall, link: ToolCall) -> ToolOutcome:
    """Return the outcome of a chain whose next link would have to wait."""
    text = f"Tool {link.name!r} needs somebody's approval: call it by itself."
    return ToolOutcome(call=first, result=error_result(first, text), stage="approval")


def _unasked(call: ToolCall, why: str) -> ToolOutcome:
    text = f"Tool {call.name!r} {why}"
    return ToolOutcome(call=call, result=error_result(call, text), stage="approval")
