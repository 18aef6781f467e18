"""Sort the calls of a reply: which run now, which wait for somebody, which get their answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from treadle import events
from treadle.agent.approval import pending, still_means
from treadle.agent.standing import Standing
from treadle.agent.work import Work
from treadle.errors import ToolError
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.messages import ToolCall
from treadle.open_calls import interrupted
from treadle.tools.approval import denied_by_rule, digest_of, next_question
from treadle.tools.outcome import ToolOutcome
from treadle.tools.policy import Ruling
from treadle.tools.tool import Tool
from treadle.values import clean

RUN_AGAIN = "It was running when its process died; whether it took effect is unknown. Again?"
EDITED = "\n(Somebody changed the arguments of this call before it ran.)"


class Plan(Struct):
    """What to do with calls now.

    `run` runs, `refuse` has outcomes of calls that do not, `ask` are calls that begin to wait with
    the reason, `audit` is what was decided without asking anybody, `waiting` are the IDs of all
    that wait, `notes` is what the model is told beside a result. `limited` is whether the limit of
    calls kept one from running, `held` how many were set aside in the budget.
    """

    run: list[ToolCall] = []
    refuse: list[ToolOutcome] = []
    ask: list[tuple[ToolCall, Ruling]] = []
    audit: list[ApprovalDecided] = []
    waiting: set[str] = set()
    notes: dict[str, str] = {}
    limited: bool = False
    held: int = 0


async def sort_calls(work: Work, standing: Standing, calls: Sequence[ToolCall]) -> Plan:
    """Return what to do with those of the calls that have no outcome yet."""
    left = work.budget.tool_calls_left()
    if left is None and standing.fresh and _need_nobody(work, calls):
        return Plan(run=list(calls))  # nearly always
    plan = Plan()
    try:
        for call in calls:
            if call.id not in standing.done:
                await _sort(work, standing, call, plan)
    except BaseException:
        give_back(work, plan)
        raise
    return plan


async def _sort(work: Work, standing: Standing, call: ToolCall, plan: Plan) -> None:
    """Sort one call that has no outcome."""
    if standing.cut:
        text = "Not run: your reply was cut off (truncated)."
        plan.refuse.append(work.runner.refuse(call, text, "limit"))
    elif call.id in standing.paused:
        plan.waiting.add(call.id)
    elif call.id in standing.began and call.name in work.setup.registry.delegates:
        _run(plan, call, standing.decided.get(call.id))  # its child run goes on
    elif call.id in standing.unknown:
        _sort_unknown(work, standing, call, plan)
    elif call.id in standing.began or _has_room(work, plan):
        await _sort_known(work, standing, call, plan)
    else:
        plan.limited = True
        limit = work.budget.most_tool_calls()
        text = f"Not run: the limit of {limit} tool calls is used up."
        plan.refuse.append(work.runner.refuse(call, text, "limit"))


def _has_room(work: Work, plan: Plan) -> bool:
    """Set aside one more call, where they are limited; return whether it may run."""
    left = work.budget.tool_calls_left()
    if left is None:
        return True
    if left > 0:
        plan.held += 1
        work.budget.hold_calls(1)
    return left > 0


def give_back(work: Work, plan: Plan, most: int | None = None) -> None:
    """Set aside fewer calls, by default none any more."""
    number = plan.held if most is None else min(most, plan.held)
    if number:
        plan.held -= number
        work.budget.hold_calls(-number)


def _need_nobody(work: Work, calls: Sequence[ToolCall]) -> bool:
    """Whether no call can have to wait for anybody."""
    get, concern = work.offered.get, work.runner.approvals.concern
    if work.runner.approvals.idle:
        return True
    return not any(concern(get(call.name)) for call in calls)


async def _sort_known(work: Work, standing: Standing, call: ToolCall, plan: Plan) -> None:
    """Sort a call that did not begin, or that somebody has decided on."""
    decision, asked = standing.decided.get(call.id), standing.asked.get(call.id)
    tool = work.offered.get(call.name)
    denied = decision is not None and decision.verdict == "deny"
    if asked is not None and not denied and not still_means(asked, call, work.setup.registry):
        standing.decided.pop(call.id, None)
        standing.answers.pop(call.id, None)
        decision = asked = None  # what was decided on is not what would run
    if decision is not None:
        if denied:
            midway = asked is not None and asked.midway
            text = _denied(decision.reason, ran=call.id in standing.began, midway=midway)
            plan.refuse.append(work.runner.refuse(call, text, "approval"))
        else:
            _run(plan, call, decision)
    elif asked is not None:
        plan.waiting.add(call.id)
    elif tool is None or not work.runner.approvals.concern(tool):
        plan.run.append(call)
    else:
        await _sort_new(work, tool, call, plan)


async def _sort_new(work: Work, tool: Tool, call: ToolCall, plan: Plan) -> None:
    """Sort a call that nobody has been asked about."""
    approvals = work.runner.approvals
    ruling = await approvals.ruling(tool, call, work.ctx)
    if ruling is None:
        plan.run.append(call)
    elif ruling.verdict == "ask":
        plan.ask.append((call, ruling))
        plan.waiting.add(call.id)
    else:
        plan.audit.append(approvals.decision(call, ruling, work.start.run_id))
        if ruling.verdict == "allow":
            plan.run.append(call)
        else:
            plan.refuse.append(work.runner.refuse(call, denied_by_rule(ruling), "approval"))


def _denied(reason: str, *, ran: bool, midway: bool) -> str:
    if midway:
        why = f" The reason: {reason}" if reason else ""
        return f"Stopped: it asked for somebody's approval while it ran and did not get it.{why}"
    if ran:  # it was asked whether to run it again
        why = reason or "whether it took effect is unknown."
        return f"The call was interrupted and is not run again. What somebody says of it: {why}"
    why = f" The reason: {reason}" if reason else ""
    return f"Not run: somebody looked at this call and did not approve it.{why}"


def _sort_unknown(work: Work, standing: Standing, call: ToolCall, plan: Plan) -> None:
    """Sort a call that another process began and did not finish.

    What was decided before it began is used up: it was about running once.
    """
    tool = work.offered.get(call.name)
    decision = standing.decided.get(call.id)
    if tool is not None and tool.idempotent:
        _run(plan, call, decision)
    elif tool is not None and tool.on_unknown == "ask":
        plan.waiting.add(call.id)
        if call.id not in standing.asked or decision is not None:
            standing.decided.pop(call.id, None)
            plan.ask.append((call, Ruling("ask", RUN_AGAIN)))
    else:
        outcome = ToolOutcome(call=call, result=interrupted(call), stage="cancelled")
        if tool is not None and tool.on_unknown == "fail":
            outcome = replace(outcome, fatal=ToolError(outcome.result.text))
        plan.refuse.append(outcome)


def _run(plan: Plan, call: ToolCall, decision: ApprovalDecided | None) -> None:
    plan.run.append(call)
    if decision is not None and decision.raw is not None:
        plan.notes[call.id] = EDITED


def asked_of(work: Work, standing: Standing, call: ToolCall, ruling: Ruling) -> ApprovalAsked:
    """Return the entry that a call waits for a decision."""
    tool = work.offered.get(call.name)
    return ApprovalAsked(
        run_id=work.start.run_id,
        at=datetime.now(UTC),
        call_id=call.id,
        digest=digest_of(call, work.setup.registry),
        reason=clean(ruling.reason),
        rule=clean(ruling.rule),
        holds="" if tool is None else work.runner.approvals.held_as(tool, call, ruling),
        question=next_question(standing.asked.get(call.id)),
    )


def take_decisions(work: Work, standing: Standing) -> bool:
    """Take in what was decided while the run was at work; return whether there was anything."""
    opened = work.recorder.view.open if work.recorder is not None else None
    if opened is None:
        return False
    fresh = {k: v for k, v in opened.decided.items() if k not in standing.decided}
    if not fresh:
        return False
    standing.decided.update(fresh)
    standing.answers.update(opened.answers)
    standing.unknown -= fresh.keys()
    standing.calls = opened.calls
    if work.thread and work.thread[-1].role == "assistant":
        work.thread[-1] = opened.reply  # an edit has changed it
    if work.answers is not None:
        work.answers.calls = opened.calls
    for entry in fresh.values():
        tell_decided(work, standing, entry)
    return True


def wake(work: Work, standing: Standing) -> bool:
    """Let child runs go on whose calls were decided on meanwhile; return whether there are any."""
    if work.recorder is None or not standing.paused:
        return False
    before, waits = standing.paused, {each.call_id for each in pending(work.recorder.view)}
    standing.paused = {
        call_id: pause
        for call_id, pause in before.items()
        if {each.call_id for each in pause.pending} <= waits
    }
    return len(standing.paused) < len(before)


def tell_decided(work: Work, standing: Standing, entry: ApprovalDecided) -> None:
    """Emit that somebody has decided on a call."""
    call = next((each for each in standing.calls if each.id == entry.call_id), None)
    if call is not None:
        asked = standing.asked.get(call.id)
        work.tell(
            events.ApprovalDecided,
            *(call.id if asked is None else asked.key, call.name, entry.verdict, call.shown),
            *(entry.reason, entry.by, entry.rule),
        )
