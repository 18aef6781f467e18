"""The loop: ask the model, run the tools it calls, ask again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

from msgspec.structs import replace

from treadle.agent.act import Actor
from treadle.agent.calls import Answers
from treadle.agent.close_out import CloseOut, was_told
from treadle.agent.ending import Ending
from treadle.agent.final import Final
from treadle.agent.fitting import Fitting
from treadle.agent.output import OUTPUT_TOOL
from treadle.agent.work import Work
from treadle.errors import (
    ContextOverflow,
    ContextTooSmall,
    IncompleteReply,
    LimitReached,
    OutputInvalid,
)
from treadle.messages import Message, Thread, ToolCall
from treadle.ports.model import ModelReply, ModelRequest, ModelSettings
from treadle.prompts.lists import numbered_list

GO_ON = "Go on."
MOST_BLANKS = 2
MOST_CUTS = 2


class Loop:
    """The turns of one run of one agent."""

    def __init__(self, work: Work) -> None:
        self._work = work
        told = work.start.resumption is not None and was_told(work)
        self._close_out = CloseOut(work, told=told)
        self._actor = Actor(work, self._close_out)
        self._final = Final(work, self._actor)
        self._fitting: Fitting | None = None
        if work.setup.compaction is not None:
            self._fitting = Fitting(work, work.setup.compaction)
        self._blanks = 0
        self._cuts = 0
        setup = work.setup
        self._first, self._later = _settings(setup.settings, by_tool=work.answers_by_tool)
        by_schema = setup.output is not None and not work.answers_by_tool
        self._output = setup.output.output_schema if setup.output and by_schema else None

    async def run(self) -> Ending:
        """Take turns until the run ends, and return how."""
        work = self._work
        if work.start.resumption is not None:
            self._actor.repeats.recall(work.thread, work.budget.turns)
            ending = await self._go_on()
            if ending is not None:
                return ending
        while work.budget.turns_left():
            if work.inbox.waiting:
                await work.mail.take(work.thread)
                self._actor.repeats.forget()
            if self._close_out.must_answer():
                return await self._forced_answer()
            ending = await self._turn()
            if ending is not None:
                return ending
        return await self._at_limit("max_turns")

    async def _go_on(self) -> Ending | None:
        """Do what a resumed run has to do before its next turn."""
        work = self._work
        if work.standing is not None:
            return await self._acted(*await self._actor.go_on(work.standing))
        if work.thread and work.thread[-1].role == "assistant" and not work.inbox.waiting:
            await work.add(Message.user(GO_ON))
        return None

    async def _turn(self) -> Ending | None:
        """Take one turn; None means that the run goes on."""
        work = self._work
        reply, calls = await self._ask_fitting(self._request)
        if reply.finish_reason == "length":
            return await self._cut_off(reply, calls)
        self._cuts = 0
        if calls:
            return await self._acted(*await self._actor.act(reply, calls))
        if reply.finish_reason == "pause":
            work.asker.finished(work.budget.turns, reply, final=False)
            await work.say(reply)
            return None
        if not reply.message.text and self._blanks < MOST_BLANKS:
            self._blanks += 1
            work.asker.finished(work.budget.turns, reply, final=False)
            await work.say(replace(reply, message=Message("assistant")))
            return None  # a blank reply is no answer: its cost is kept, and the model asked again
        return await self._final.answer(reply, "answer")

    async def _acted(self, ending: Ending | None, limited: bool) -> Ending | None:
        """Return how the run ends after a reply's calls, None when it goes on."""
        if ending is None:
            return await self._at_limit("max_tool_calls") if limited else None
        if ending.stop_reason == "answer":
            if self._work.background is not None:
                await self._work.background.finish()
            if ending.hands_over:
                return ending  # messages that wait are for whoever comes next
            if self._final.goes_on:
                return None
        return await self._final.before(ending)

    async def _ask_fitting(
        self, make: Callable[[], ModelRequest]
    ) -> tuple[ModelReply, tuple[ToolCall, ...]]:
        """Ask for what `make` makes of the history, which is made to fit where it is too long."""
        fitting = self._fitting
        if fitting is None:
            return await self._ask(make())
        request = await fitting.fit(make)
        try:
            reply, calls = await self._ask(request)
        except ContextTooSmall:
            raise
        except ContextOverflow as error:
            reply, calls = await self._ask(await fitting.overflowed(make, error))
        fitting.learn(reply)
        return reply, calls

    async def _ask(self, request: ModelRequest) -> tuple[ModelReply, tuple[ToolCall, ...]]:
        """Return the model's reply, its message as the history keeps it, and its calls."""
        work = self._work
        budget = work.budget
        if work.recorder is not None:
            work.recorder.ledger.check()
        budget.count_turn()
        try:
            reply = await work.asker.ask(request, budget.turns, work.seconds_left())
            if work.interrupted:  # the model swallowed it
                raise asyncio.CancelledError
        except BaseException:
            budget.count_turn(-1)  # turns are replies
            raise
        self._close_out.last = reply.usage
        message, calls = work.ids.take_in(reply.message, work.offered.secrets)
        return (reply if message is reply.message else replace(reply, message=message)), calls

    def _request(self) -> ModelRequest:
        work = self._work
        if work.shelf.known and not work.reads:
            work.offer_reading()
        if work.withheld and work.setup.skills is not None:
            work.offer_skills(work.setup.skills)
        return ModelRequest(
            messages=work.thread,
            system=work.system,
            tools=work.specs,
            settings=self._later if work.budget.turns else self._first,
            output=self._output,
            conversation_id=work.start.conversation_id,
        )

    async def _cut_off(self, reply: ModelReply, calls: tuple[ToolCall, ...]) -> None:
        """A reply that hit the output limit is no answer, and its calls do not run."""
        work = self._work
        self._cuts += 1
        work.asker.finished(work.budget.turns, reply, final=False)
        if not calls or self._cuts > MOST_CUTS:
            work.asker.partial = [reply.message.text]
            raise IncompleteReply(
                "The reply was cut off at the output limit; raise "
                "ModelSettings(max_output_tokens=...) or ask for less at once.",
                provider=work.setup.profile.provider,
                model=reply.model or work.setup.profile.name,
                partial=reply.message.text,
            )
        await work.say(reply, Answers(calls))
        tokens = reply.usage.output_tokens
        text = f"Not run: your reply was cut off (truncated) at {tokens} tokens. Send less at once."
        for call in calls:
            await work.answer(work.runner.refuse(call, text, "limit"))
        work.close_answers()

    async def _at_limit(self, which: Literal["max_turns", "max_tool_calls"]) -> Ending:
        calls, budget = which == "max_tool_calls", self._work.budget
        most = budget.most_tool_calls() if calls else budget.most_turns()
        text = f"The run reached {which}={most}."
        match self._work.setup.on_limit:
            case "error":
                raise LimitReached(
                    f"{text} Raise the limit, or set on_limit to 'answer' or 'pause'."
                )
            case "pause":
                return Ending(stop_reason="paused", reason=text)
            case "answer":
                return await self._forced_answer()

    def _last_request(self, text: str) -> ModelRequest:
        """Return the request for an answer without tools, after this text."""
        work = self._work
        by_tool = work.answers_by_tool
        messages = Thread(work.thread)
        messages.append(Message.user(text))
        settings = replace(
            work.setup.settings,
            tool_choice=OUTPUT_TOOL if by_tool else None,
            parallel_tool_calls=None,
        )
        tools = work.specs[-1:] if by_tool else ()
        return replace(self._request(), messages=messages, tools=tools, settings=settings)

    async def _forced_answer(self) -> Ending:
        """Ask once more, without tools; the instruction for it is not kept."""
        work = self._work
        text = "You cannot use tools any more. Give your final answer now, from what you know."
        listed = numbered_list(work.start.requirements)
        if listed:
            text = f"{text}\nThe answer must meet these requirements:\n{listed}"
        by_tool = work.answers_by_tool
        reply, calls = await self._ask_fitting(partial(self._last_request, text))
        if reply.finish_reason == "length":
            self._cuts = MOST_CUTS
            await self._cut_off(reply, calls)
        if by_tool and calls:
            ending, _ = await self._actor.act(reply, calls)
            if ending is None:
                raise OutputInvalid("The model gave no valid output when it had to answer.")
            ending.stop_reason = "limit"
            return await self._final.before(ending)
        plain = tuple(part for part in reply.message.parts if not isinstance(part, ToolCall))
        ending = await self._final.answer(
            replace(reply, message=replace(reply.message, parts=plain)), "limit"
        )
        return ending or Ending(stop_reason="limit")


def _settings(settings: ModelSettings, *, by_tool: bool) -> tuple[ModelSettings, ModelSettings]:
    """Return the settings of the first call and of all later ones: a tool is forced only once."""
    later = settings if settings.tool_choice is None else replace(settings, tool_choice=None)
    if by_tool:
        later = replace(later, tool_choice="required")
    return (later if settings.tool_choice is None else settings), later
