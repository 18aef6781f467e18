"""How a swarm works: one member after another, until one answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from msgspec import UNSET, Struct, convert, to_builtins
from msgspec.structs import replace

from treadle.agent.ending import NO_OUTPUT, Ending
from treadle.agent.history import own_history
from treadle.agent.result import AnyResult
from treadle.agent.stage import Stage
from treadle.agent.steps import Step, StepEnd
from treadle.control import Handoff
from treadle.errors import LimitReached, RunFailed, TreadleError
from treadle.events import HandedOff
from treadle.ids import new_span_id
from treadle.journal import StepEnded
from treadle.messages import Message, Thread
from treadle.ports.children import Delegate, label_of
from treadle.usage import NOTHING, Usage
from treadle.values import unpack
from treadle.workflows.handoff import Member, Promotion, promote, told_by
from treadle.workflows.swarm_result import SwarmResult, SwarmStep

History = Literal["fresh", "full"] | Callable[[Sequence[Message]], Sequence[Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Who begins, how often the conversation is handed over, and what goes along."""

    entry: str
    starts_at_last: bool
    most: int
    fails: bool
    promotes: Promotion
    history: History


class Stint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the journal keeps of one member's work.

    `handed` is whether it ended by a handoff, with this `message`. `ends` is how the run ends after
    it, if it does, and `why`: a handoff is not carried out then. `heard` is how much the run had
    been told by then, `news` whether anything came up in it: something the user said, or a result
    of a tool.
    """

    handed: bool = False
    message: str = ""
    ends: Literal["answer", "limit", "loop"] | None = None
    why: str = ""
    heard: int = 0
    news: bool = False
    turns: int = 0
    seconds: float = 0.0
    usage: Usage = NOTHING

    @property
    def stopped(self) -> bool:
        """Whether it ended by a handoff that was not carried out."""
        return self.handed and self.ends is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a member begins: with what it is told, after a history; or with that of the flow."""

    label: str
    said: Message | None = None
    history: Thread | None = None

    @property
    def inherits(self) -> bool:
        """Whether it goes on with the history of the flow."""
        return self.said is None


class Swarming:
    """The flow of a swarm with this `team`."""

    def __init__(self, team: Mapping[str, Member], rules: Rules) -> None:
        self.team = team
        self.rules = rules

    @property
    def delegates(self) -> Mapping[str, Delegate]:
        """The members, by name."""
        return {name: member.delegate for name, member in self.team.items()}

    def definition(self, above: tuple[object, ...]) -> dict[str, str]:
        """Return what the members are made of, and who may turn to whom."""
        found: dict[str, str] = {}
        for name, member in self.team.items():
            found[f"member {name}"] = ""
            found |= {f"handoff from {name} to {other}": "" for other in member.targets}
            found |= {f"consult of {other} by {name}": "" for other in member.asks}
            if not any(member.base is each for each in above):
                parts = member.base.definition_under(above)
                found |= {f"{thing} of {name}": digest for thing, digest in parts.items()}
        return found

    def extras(self, stage: Stage) -> tuple[type[SwarmResult[Any]], dict[str, Any]]:
        """Return who was at work, and what each did."""
        steps = [self._told_of(stage, place) for place in range(len(stage.steps))]
        chain = [label_of(each.step) for each in stage.steps]
        last = _stint(stage.steps[-1]) if stage.steps else Stint()
        if not stage.steps or (stage.steps[-1].to and not last.stopped):
            chain.append(self._next(stage))
        kept = [name for place, name in enumerate(chain) if not place or chain[place - 1] != name]
        return SwarmResult, {"agent": kept[-1], "handoff_chain": kept, "steps": steps}

    async def run(self, stage: Stage) -> Ending:
        """Let one member after another work, until one answers."""
        ending = _ending_of(stage)
        while ending is None:
            opening = self._opening(stage)
            member = self._member(stage, opening.label)
            step = stage.begin(opening.label)
            try:
                result = await stage.run(
                    step,
                    member.delegate,
                    opening.said,
                    history=opening.history,
                    inherits=opening.inherits,
                    requirements=stage.work.start.requirements,
                )
            except TreadleError as error:
                if error.result is not None:
                    stage.work.thread = error.result.messages
                raise
            ending = self._after(stage, step, member, result)
        return ending

    def _after(self, stage: Stage, step: Step, member: Member, result: AnyResult) -> Ending | None:
        """Return how the run ends after a member's work, None when another one goes on."""
        output = result.output
        if isinstance(output, Handoff):
            return self._hand_over(stage, step, member, result, output)
        if result.stop_reason not in ("answer", "limit"):
            stage.work.thread = result.messages
            return Ending(stop_reason=result.stop_reason, reason=result.reason)
        goes_on = stage.waiting and result.stop_reason == "answer"
        stint = _stint_of(stage, member, result)
        if not goes_on:
            stint = replace(stint, ends=result.stop_reason, why=result.reason)
        to = label_of(step.name) if goes_on else ""
        came = StepEnd(output=output, to=to, data=to_builtins(stint))
        stage.end(step, came, adopts=result.messages)
        if goes_on:
            return None
        return Ending(stop_reason=result.stop_reason, output=output, reason=result.reason)

    def _hand_over(
        self, stage: Stage, step: Step, member: Member, result: AnyResult, handoff: Handoff
    ) -> Ending | None:
        """End a step with a handoff, unless there were too many, or they go round in circles."""
        source, target, rules = label_of(step.name), handoff.agent, self.rules
        if stage.work.renamed.get(target, target) not in member.targets:
            raise RunFailed(f"{member.name} cannot hand the conversation over to {target!r:.60}.")
        stint = _stint_of(stage, member, result, handoff)
        before = [(each, _stint(each)) for each in stage.steps]
        made = sum(each.handed and not each.stopped for _, each in before)
        pairs = [(label_of(each.step), each.to, kept.news) for each, kept in before]
        round_and_round = _goes_round([*pairs, (source, target, stint.news)])
        reason = "" if made < rules.most else f"The run reached max_handoffs={rules.most}."
        if round_and_round:
            reason = f"{source} and others hand the conversation over in circles."
        elif reason and rules.fails:  # the step stays open: a resume with more may carry it out
            stage.work.thread = result.messages
            raise LimitReached(f"{reason} Raise it, or set on_limit to 'stop'.")
        if reason:
            stint = replace(stint, ends="loop" if round_and_round else "limit", why=reason)
        came = StepEnd(
            output=_last_words(result.messages),
            to=target,
            data=to_builtins(stint),
            writes=() if reason else promote(stage.state, member.name, rules.promotes),
        )
        stage.end(step, came, adopts=result.messages)
        if not reason:
            stage.tell(HandedOff, new_span_id(), None, source, target, handoff.message)
            return None
        return Ending(stop_reason="loop" if round_and_round else "limit", reason=reason)

    def _opening(self, stage: Stage) -> Opening:
        """Return which member is next, or goes on, and with what."""
        label = self._next(stage)
        if stage.open or not stage.steps or stage.input is None or self.rules.history == "full":
            return Opening(label=label)
        last = stage.steps[-1]
        stint = _stint(last)
        if not stint.handed or stint.stopped:  # more was said since
            return Opening(label=label)
        source = label_of(last.step)
        if self.rules.history == "fresh":
            said = _request(stage, len(stage.steps) - 1)
            return Opening(label=label, said=said)
        chosen = cast(Callable[..., Sequence[Message]], self.rules.history)(stage.work.thread)
        history, _ = own_history(chosen)
        return Opening(label=label, said=told_by(source, stint.message), history=history)

    def _next(self, stage: Stage) -> str:
        """Return the label of who is next, or goes on."""
        if stage.open:
            return stage.open[0]
        if not stage.steps:
            return self._first(stage)
        last = stage.steps[-1]
        if _stint(last).ends is not None:  # more was said since
            return label_of(last.step)
        return stage.work.renamed.get(last.to, last.to)

    def _first(self, stage: Stage) -> str:
        """Return who begins: the entry, or who was in charge at the end of the run before."""
        before = _before(stage) if self.rules.starts_at_last else None
        if before is None:
            return self.rules.entry
        name = label_of(before.step)
        if before.to and not _stint(before).stopped:
            name = before.to
        return name if name in self.team else self.rules.entry

    def _member(self, stage: Stage, label: str) -> Member:
        name = stage.work.renamed.get(label, label)
        member = self.team.get(name)
        if member is None:
            known = ", ".join(self.team)
            raise RunFailed(
                f"{name!r:.60} was at work and is no member any more; there are {known}."
            )
        return member

    def _told_of(self, stage: Stage, place: int) -> SwarmStep:
        """Return what the result tells of a step."""
        ended = stage.steps[place]
        stint = _stint(ended)
        asked = "" if stage.input is None else stage.input.text
        before = _stint(stage.steps[place - 1]) if place else Stint()
        if before.handed and not before.stopped:
            asked = self._asked(stage, place)
        return SwarmStep(
            agent=label_of(ended.step),
            input=asked,
            output=None if ended.output is UNSET else unpack(ended.output),
            handed_to=ended.to if stint.handed else None,
            reason=stint.message,
            usage=stint.usage,
            turns=stint.turns,
            tool_calls=stint.usage.tool_calls,
            seconds=stint.seconds,
        )

    def _asked(self, stage: Stage, place: int) -> str:
        if self.rules.history == "fresh" and stage.input is not None:
            return _request(stage, place - 1).text
        return _stint(stage.steps[place - 1]).message


def _ending_of(stage: Stage) -> Ending | None:
    """Return how the run ends where that was decided before its process died; it may hear more."""
    if not stage.steps or stage.waiting:
        return None
    last = stage.steps[-1]
    stint = _stint(last)
    if stage.open or stint.ends is None:
        return None
    output = NO_OUTPUT if stint.handed or last.output is UNSET else unpack(last.output)
    return Ending(stop_reason=stint.ends, output=output, reason=stint.why)


def _request(stage: Stage, place: int) -> Message:
    """Return what is told to who takes over after the step at this place."""
    last = stage.steps[place]
    stint = _stint(last)
    said = [] if stage.input is None else [stage.input]
    return told_by(
        label_of(last.step), stint.message, *said, *stage.work.inbox.heard[: stint.heard]
    )


def _before(stage: Stage) -> StepEnded | None:
    """Return the last step of the run before this one in the conversation."""
    if stage.path or stage.recorder is None:
        return None
    record = stage.recorder.ledger.record
    return None if record is None else record.before


def _stint_of(
    stage: Stage, member: Member, result: AnyResult, handoff: Handoff | None = None
) -> Stint:
    heard = len(stage.work.inbox.heard)
    before = _stint(stage.steps[-1]).heard if stage.steps else 0
    learnt = (not each.is_error and each.name not in member.signals for each in result.tool_results)
    return Stint(
        handed=handoff is not None,
        message="" if handoff is None else handoff.message,
        heard=heard,
        news=heard > before or any(learnt),
        turns=result.turns,
        seconds=result.seconds,
        usage=result.usage,
    )


def _stint(ended: StepEnded) -> Stint:
    return convert(ended.data or {}, Stint)


def _goes_round(handoffs: Sequence[tuple[str, str, bool]]) -> bool:
    """Whether the last two handoffs, from and to, were made before, and nothing came up since."""
    since: list[tuple[str, str]] = []
    for source, target, news in reversed(handoffs):
        if news:
            break
        since.append((source, target))
    return len(since) > 2 and since[0] in since[1:] and since[1] in since[2:]


def _last_words(messages: Sequence[Message]) -> str:
    """Return what a member said when it handed over."""
    return next((each.text for each in reversed(messages) if each.role == "assistant"), "")
