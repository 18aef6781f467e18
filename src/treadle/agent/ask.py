"""Ask the model once: reserve, stream, try again when a failure passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from treadle.agent.bus import Bus
from treadle.agent.output import PartialOutput
from treadle.agent.reserve import reserve
from treadle.agent.setup import RunSetup
from treadle.errors import BadReply, ConfigError, ContentFiltered, IncompleteReply, ModelError
from treadle.events import (
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    OutputDelta,
    ReasoningDelta,
    TextDelta,
)
from treadle.ids import new_span_id
from treadle.limits import Budget
from treadle.ports.context import RunContext
from treadle.ports.model import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    ReasoningPiece,
    Restart,
    TextPiece,
)
from treadle.usage import Usage

FAILED_ATTEMPT = Usage(requests=1)


class BudgetSpent(Exception):
    """The next call could exceed the budget, so it is not made."""


class Asker:
    """Asks one run's model. `partial` is the text that was seen and is not in the history yet."""

    __slots__ = (
        "_attempt",
        "_budget",
        "_bus",
        "_ctx",
        "_parent_span",
        "_setup",
        "_span",
        "_started",
        "partial",
    )

    def __init__(
        self, setup: RunSetup, bus: Bus, budget: Budget, ctx: RunContext, *, parent_span: str
    ) -> None:
        self._setup = setup
        self._bus = bus
        self._budget = budget
        self._ctx = ctx
        self._parent_span = parent_span
        self._span = ""
        self._started = 0.0
        self._attempt = 1
        self.partial: list[str] = []

    async def ask(self, request: ModelRequest, turn: int, seconds_left: float | None) -> ModelReply:
        """Return the model's reply to `request`.

        Raises:
            BudgetSpent: the call could exceed the budget.
            ContentFiltered: the model refused, or a filter did.
            ModelError: all attempts failed, or one that no repetition helps.
        """
        self.partial = []
        setup = self._setup
        if self._bus.live:
            self._span = new_span_id()
        self._started = time.perf_counter()
        for before_model in setup.hooks.before_model:
            answer: object = await before_model(self._ctx, request)
            if isinstance(answer, ModelReply):
                return await self._after(answer)
            if isinstance(answer, ModelRequest):
                request = answer
            elif answer is not None:
                raise _junk("before_model", answer, "a ModelRequest, a ModelReply or None")
        try:
            if self._budget.counts_spending:
                reply = await self._reserved(request, turn, seconds_left)
            else:
                reply = await self._attempts(request, turn, seconds_left)
        except ModelError as error:
            self.finished(turn, None, final=False, error=str(error))
            raise
        return await self._after(reply) if setup.hooks.after_model else self._checked(reply)

    def finished(
        self, turn: int, reply: ModelReply | None, *, final: bool, error: str | None = None
    ) -> None:
        """Tell watchers that the turn's model call is over."""
        if self._bus.live:
            self._bus.emit(
                ModelFinished,
                self._span,
                self._parent_span,
                turn,
                final,
                reply.finish_reason if reply else "error",
                reply.usage if reply else Usage(),
                time.perf_counter() - self._started,
                error,
            )

    async def _reserved(
        self, request: ModelRequest, turn: int, seconds_left: float | None
    ) -> ModelReply:
        """Ask with what the call may use at most set aside."""
        reservation = reserve(self._budget, request, self._setup.profile)
        if reservation is None:
            raise BudgetSpent
        try:
            reply = await self._attempts(reservation.request, turn, seconds_left)
        finally:
            self._budget.release(reservation.tokens, reservation.cost)
        if reply.finish_reason == "length" and reservation.capped:
            self.partial = [reply.message.text]
            raise BudgetSpent
        return reply

    async def _attempts(
        self, request: ModelRequest, turn: int, seconds_left: float | None
    ) -> ModelReply:
        setup, clock, attempt = self._setup, self._setup.retry.clock, 1
        began = clock.seconds()
        while True:
            self._attempt = attempt
            self._tell(ModelStarted, turn, attempt, setup.profile.name)
            try:
                reply = await self._answer(self._timed(request, seconds_left), turn)
            except ModelError as error:
                self._budget.spend(error.usage or FAILED_ATTEMPT)
                wait = self._wait_after(attempt, error, clock.seconds() - began, seconds_left)
                if wait is None:
                    raise
                self._tell(ModelRetried, turn, attempt, str(error), wait)
                self.partial = []
                await clock.sleep(wait)
                attempt += 1
            else:
                self.partial = [reply.message.text]  # until it is part of the history
                reply = self._priced(reply, request)
                self._budget.spend(reply.usage)
                return reply

    async def _answer(self, request: ModelRequest, turn: int) -> ModelReply:
        setup, task = self._setup, asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            if setup.stream is not None and self._bus.live:
                return await self._streamed(setup.stream(request), request, turn)
            reply = self._a_reply(await setup.model.complete(request), "complete")
        except asyncio.CancelledError as error:
            if task is None or task.cancelling() > before:
                raise
            raise ModelError(
                "Something that the model waited for was cancelled, by nobody who runs it.",
                provider=setup.profile.provider,
                model=setup.profile.name,
            ) from error
        self._tell_whole(reply, request, turn)
        return reply

    def _timed(self, request: ModelRequest, seconds_left: float | None) -> ModelRequest:
        """Return the request with what is left of the run's time now."""
        if seconds_left is None:
            return request
        left = seconds_left - (time.perf_counter() - self._started)
        return replace(request, seconds_left=max(left, 0.0))

    def _wait_after(
        self, attempt: int, error: ModelError, spent: float, seconds_left: float | None
    ) -> float | None:
        """Return the seconds until the next attempt, or None when there is none."""
        wait = self._setup.retry.next_wait(attempt, error, spent)
        if wait is None or seconds_left is None:
            return wait
        return wait if wait <= seconds_left - (time.perf_counter() - self._started) else None

    async def _streamed(
        self, deltas: AsyncIterator[ModelDelta], request: ModelRequest, turn: int
    ) -> ModelReply:
        try:
            return await self._follow(deltas, request, turn)
        finally:
            if isinstance(deltas, AsyncGenerator):
                await deltas.aclose()  # drops the connection when the stream was left early

    async def _follow(
        self, deltas: AsyncIterator[ModelDelta], request: ModelRequest, turn: int
    ) -> ModelReply:
        bus, span, parent, seen = self._bus, self._span, self._parent_span, self.partial
        output = self._partial_output(request)
        async for delta in deltas:
            if isinstance(delta, TextPiece):
                text = delta.text
                seen.append(text)
                bus.say(span, parent, text, turn)
                if output is not None:
                    output.tell(seen, turn)
            elif isinstance(delta, ReasoningPiece):
                bus.emit(ReasoningDelta, span, parent, delta.text, turn)
            elif isinstance(delta, Restart):
                bus.emit(ModelRetried, span, parent, turn, self._attempt, delta.reason, 0.0)
                seen.clear()
            else:
                return self._a_reply(delta, "stream")
        raise IncompleteReply(
            "The model's stream ended without a whole reply.",
            provider=self._setup.profile.provider,
            model=self._setup.profile.name,
            retryable=True,
            partial="".join(seen),
        )

    def _partial_output(self, request: ModelRequest) -> PartialOutput | None:
        """Return what tells of typed output, when the text that comes is to be one."""
        output = self._setup.output
        if output is None or request.output is None:
            return None
        return PartialOutput(output, partial(self._tell, OutputDelta))

    def _a_reply(self, given: object, method: str) -> ModelReply:
        """Return what a model gave when it is a reply: models are made by users, too."""
        if isinstance(given, ModelReply):
            return given
        way = "must return" if method == "complete" else "must end with"
        raise BadReply(
            f"{type(self._setup.model).__name__}.{method} gave {type(given).__name__} "
            f"({given!r:.60}); it {way} a ModelReply.",
            provider=self._setup.profile.provider,
            model=self._setup.profile.name,
        )

    def _tell(self, kind: type[Event], *fields: Any) -> None:
        if self._bus.live:
            self._bus.emit(kind, self._span, self._parent_span, *fields)

    def _tell_whole(self, reply: ModelReply, request: ModelRequest, turn: int) -> None:
        if self._bus.live:
            if reply.message.reasoning:
                self._tell(ReasoningDelta, reply.message.reasoning, turn)
            if reply.message.text:
                self._tell(TextDelta, reply.message.text, turn)
                if (output := self._partial_output(request)) is not None:
                    output.tell([reply.message.text], turn)

    def _priced(self, reply: ModelReply, request: ModelRequest) -> ModelReply:
        usage, price = reply.usage, self._setup.profile.price
        if reply.settled or (usage.requests and (price is None or usage.cost)):
            return reply
        kept = self._setup.profile.settings_for(request).prompt_cache
        cost = usage.cost or (price.kept(kept).cost(usage) if price else usage.cost)
        return replace(reply, usage=replace(usage, requests=usage.requests or 1, cost=cost))

    async def _after(self, reply: ModelReply) -> ModelReply:
        for after_model in self._setup.hooks.after_model:
            answer: object = await after_model(self._ctx, reply)
            if isinstance(answer, ModelReply):
                reply = answer
            elif answer is not None:
                raise _junk("after_model", answer, "a ModelReply or None")
        return self._checked(reply)

    def _checked(self, reply: ModelReply) -> ModelReply:
        if reply.message.role != "assistant":
            raise BadReply(f"The model replied with a {reply.message.role!r} message.")
        if reply.finish_reason in ("content_filter", "refusal"):
            text = reply.message.text
            self.partial = [text]
            raise ContentFiltered(
                f"The model gave no answer ({reply.finish_reason}): {text or 'no text'}",
                provider=self._setup.profile.provider,
                model=reply.model or self._setup.profile.name,
                code=reply.provider_finish,
                partial=text,
            )
        return reply


def _junk(hook: str, answer: object, wanted: str) -> ConfigError:
    return ConfigError(f"{hook} of a middleware gave {answer!r:.60}; it returns {wanted}.")
