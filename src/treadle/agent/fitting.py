"""Keep what a run's model is sent inside its window."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from msgspec import Struct

from treadle.agent.ask import Asker, BudgetSpent
from treadle.agent.bus import EventBus
from treadle.agent.context_use import Compacted
from treadle.agent.setup import RunSetup
from treadle.agent.work import Work
from treadle.compaction.checkpoint import Checkpoint
from treadle.compaction.choice import Choice, Keeping, Room, choose
from treadle.compaction.cutting import cuts_of
from treadle.compaction.drop import DropOldest
from treadle.compaction.policy import Compaction
from treadle.compaction.strategy import Gone
from treadle.compaction.turns import Turn, note_in, turns_of
from treadle.dialogue import without
from treadle.errors import CompactionFailed, ConfigError, ContextTooSmall
from treadle.events import CompactionStarted, ContextCompacted
from treadle.journal import Cut
from treadle.limits import Budget, Limits
from treadle.messages import Message
from treadle.models.calibration import calibration_of
from treadle.models.resolve import resolve_model
from treadle.models.tokenizer import tokenizer_for
from treadle.models.tokens import Count, Sizes, sizes_of, tokens_of_message, tokens_of_text
from treadle.ports.model import DEFAULT_SETTINGS, ModelReply, ModelRequest, profile_of
from treadle.tools.outcome import describe
from treadle.tools.threads import THREADS
from treadle.usage import NOTHING, Usage

AIM = 0.75
"""The share of what the history may take that is left of it: the next time is some turns away."""
WORTH = 0.1
"""The share of what leaves that a note has to save: less is not worth what it breaks."""
SPARE = 0.2
"""The share of the window that is left free where what is protected has to go. A compaction is not
tried again before the history has grown by so much, or does not fit any more."""
NOTE_SHARE, MOST_NOTE = 0.2, 0.4
"""What a note is taken to need of the room, and what it may have."""
LEAST_NOTE = 256
NO_LIMITS = Limits(max_turns=None)
"""What notes cost counts in the run, whose limits hold for them."""


class _Told(Struct):
    """What a compaction came to: its cuts, what it took, and why there is no note."""

    cuts: list[Cut]
    strategy: str
    yielded: tuple[str, ...] = ()
    usage: Usage = NOTHING
    error: str | None = None


class Fitting:
    """Looks at each request before it is sent, and lets old turns leave when it is too long."""

    def __init__(self, work: Work, policy: Compaction) -> None:
        self._work = work
        self._policy = policy
        self._way = policy.way
        self._window = window_of(policy, work.setup)
        self._hard = self._window - _for_output(work.setup, self._window)
        self._due = min(int(self._window * policy.trigger), self._hard)
        self._next = self._due
        self._calibration = calibration_of(work.setup.profile)
        self._count = policy.tokenizer
        self._offset = 0
        self._sizes: Sizes | None = None
        self._writer: Asker | None = None
        self._purse = Budget(NO_LIMITS, work.budget)

    async def fit(self, make: Callable[[], ModelRequest]) -> ModelRequest:
        """Return the request that `make` makes of the run's history, once it fits.

        Raises:
            ContextTooSmall: it does not, and nothing more can leave.
        """
        request = make()
        if self._sizes is None and self._count is None:
            self._count = await _exact(self._work.setup.profile.name)
        sizes = self._measure(request)
        total = self._tokens(sizes)
        if total <= self._next:
            return request
        await self._compact(sizes, total)
        request = make()
        sizes = self._measure(request)
        after = self._tokens(sizes)
        if after > self._hard:
            raise self._too_small(sizes)
        self._next = min(max(self._due, after + int(self._window * SPARE)), self._hard)
        return request

    async def overflowed(self, make: Callable[[], ModelRequest], error: Exception) -> ModelRequest:
        """Return a shorter request, after a provider has refused the last one as too long.

        Raises:
            ContextTooSmall: nothing more can leave.
        """
        sizes = self._sizes or self._measure(make())
        total = self._tokens(sizes)
        if total < self._window:  # it counts otherwise than we do
            self._offset += self._window - total
            total = self._window
        before = self._work.compacted.times
        await self._compact(sizes, total)
        request = make()
        if self._work.compacted.times == before:
            raise self._too_small(sizes, refused=True) from error
        self._measure(request)
        return request

    def learn(self, reply: ModelReply) -> None:
        """Take in how many tokens the provider has counted."""
        sizes, counted = self._sizes, reply.usage.input_tokens
        if sizes is None or not counted or not self._is_ours(reply.model):
            return
        if self._count is None:
            self._calibration.learn(sizes, reply.usage)
        offset = counted - self._known(sizes)
        self._offset = offset if abs(offset) < counted // 2 else 0

    def _is_ours(self, model: str) -> bool:
        """Whether a reply came from the model that was meant, and from no other in its place."""
        name = self._work.setup.profile.name
        return model in name or name in model

    def _measure(self, request: ModelRequest) -> Sizes:
        profile = self._work.setup.profile
        self._sizes = sizes = sizes_of(request, profile, count=self._count)
        return sizes

    def _tokens(self, sizes: Sizes) -> int:
        return self._known(sizes) + self._offset

    def _known(self, sizes: Sizes) -> int:
        return self._calibration.scale(sizes) if self._count is None else sizes.total

    async def _compact(self, sizes: Sizes, total: int) -> None:
        """Let old turns leave, as far as that helps."""
        work = self._work
        began = time.perf_counter()
        ratio = total / max(sizes.total, 1)
        history = int((sizes.history + sizes.media) * ratio)
        fixed = total - history
        limit = self._due if fixed < self._due else self._hard
        if limit <= fixed or (limit == self._hard and total <= self._hard):
            return  # what stands around the history fills the window
        turns = turns_of(work.thread, lambda message: int(self._weigh_message(message) * ratio))
        space = limit - fixed
        most = self._hard - int(self._window * SPARE) - fixed
        noted = sum(turn.tokens for turn in turns if turn.kind == "note")  # it hardly gets shorter
        note = max(LEAST_NOTE, int(space * NOTE_SHARE), min(noted, int(space * MOST_NOTE)))
        if isinstance(self._way, DropOldest):
            most += note  # none comes
        room = Room(int(space * AIM), most, note)
        keeping = Keeping(self._policy.kept, self._policy.protected, self._way.share)
        choice = choose(turns, room, keeping)
        if not choice.gone:
            return
        before = len(work.thread)
        work.tell(CompactionStarted, self._way.name, before, total, self._window)
        longest = max(LEAST_NOTE, int(space * MOST_NOTE))
        told = await self._noted(choice, longest, ratio, needed=total > self._hard)
        if work.recorder is not None and (told.cuts or told.usage != NOTHING):
            await work.recorder.compacted(told.strategy, told.cuts, told.usage, told.yielded)
        if told.cuts:
            work.thread = without(work.thread, told.cuts)
            left = sum(cut.stop - cut.start for cut in told.cuts)
            work.compacted = Compacted(work.compacted.times + 1, work.compacted.messages + left)
            self._offset = 0
        after = fixed + sum(int(self._weigh_message(each) * ratio) for each in work.thread)
        work.tell(
            ContextCompacted,
            told.strategy,
            len(work.thread),
            after,
            before,
            total,
            told.yielded,
            told.usage,
            time.perf_counter() - began,
            told.error,
        )

    async def _noted(self, choice: Choice, longest: int, ratio: float, *, needed: bool) -> _Told:
        """Return what is cut, with the note in its place.

        Where there is none, turns go only where that is `needed`, and the earlier note stays.
        """
        thread, way = self._work.thread, self._way
        self._purse.spent = NOTHING
        weight = sum(turn.tokens for turn in choice.gone)
        old = sum(turn.tokens for turn in choice.gone if turn.kind == "note")
        gone = Gone(
            turns=tuple(turn for turn in choice.gone if turn.kind != "note"),
            note=_note_in(choice.gone),
            tokens=longest,
            window=self._hard,
            weigh=lambda text: int(self._weigh(text) * ratio),
        )
        error = None
        note: str | None = None
        try:
            note = _checked(await way.note(gone, self._ask), way.name)
        except BudgetSpent:
            error = "The budget does not allow to ask for a note."
        except Exception as failure:  # noqa: BLE001 strategies are users' code, too
            error = describe(failure)
        longer = weight - WORTH * (weight - old)
        if error is None and note is not None and gone.weigh(note) > longer:
            error = "The note is hardly shorter than what it stands for."
        usage = self._purse.spent  # of what failed and was of no use, too
        if error is None:
            cuts = cuts_of(thread, choice.gone, note)
            return _Told(cuts, way.name, choice.yielded, usage)
        if not needed:
            return _Told([], way.name, (), usage, error)
        left = way.without_model(gone) if isinstance(way, Checkpoint) else None
        if left is None or gone.weigh(left) > longer:
            left = gone.note
        cuts = cuts_of(thread, choice.gone, left)  # what is known already is not lost with the rest
        return _Told(cuts, "drop_oldest", choice.yielded, usage, error)

    async def _ask(self, request: ModelRequest) -> ModelReply:
        work = self._work
        if self._writer is None:
            self._writer = _writer_of(work, self._policy, self._purse)
        return await self._writer.ask(request, work.budget.turns, work.seconds_left())

    def _weigh(self, text: str) -> int:
        return tokens_of_text(text) if self._count is None else self._count(text)

    def _weigh_message(self, message: Message) -> int:
        profile = self._work.setup.profile
        return tokens_of_message(message, profile, count=self._count)

    def _too_small(self, sizes: Sizes, *, refused: bool = False) -> ContextTooSmall:
        profile = self._work.setup.profile
        parts = {
            "instructions": sizes.instructions,
            "tools": sizes.tools,
            "output schema": sizes.output,
            "history": sizes.history,
            "media": sizes.media,
        }
        largest = sorted(parts.items(), key=lambda item: -item[1])[:3]
        told = ", ".join(f"{name} about {size:,}" for name, size in largest if size)
        problem = f"does not fit in the window of {self._window:,} tokens"
        if refused:
            problem = f"was refused as too long (the window is taken to be {self._window:,} tokens)"
        return ContextTooSmall(
            f"The request {problem}, and nothing more can leave the history. "
            f"What fills it: {told}. Shorten that, or take a model with a larger window.",
            provider=profile.provider,
            model=profile.name,
        )


async def _exact(model: str) -> Count | None:
    """Return the model's own tokenizer where it is on this machine; looked for once."""
    if model not in _EXACT:
        _EXACT[model] = await THREADS.run(partial(tokenizer_for, model))
    return _EXACT[model]


_EXACT: dict[str, Count | None] = {}


def window_of(policy: Compaction, setup: RunSetup) -> int:
    """Return how many tokens a request may have.

    Raises:
        ConfigError: nobody knows.
    """
    window = policy.window or setup.profile.window
    if window is None:
        raise ConfigError(
            f"Nobody knows the window of model {setup.profile.name!r}: give Compaction(window=...)."
        )
    return window


def _for_output(setup: RunSetup, window: int) -> int:
    """Return how many tokens of the window are for the reply."""
    given = setup.profile.settings.merged(setup.settings).max_output_tokens
    return given if given is not None and given < window // 2 else min(1_024, window // 20)


def _checked(note: object, strategy: str) -> str | None:
    """Return what a strategy gave when it is a note: strategies are made by users, too."""
    if note is None or isinstance(note, str):
        return note
    raise CompactionFailed(
        f"Strategy {strategy!r:.60} gave {type(note).__name__} ({note!r:.60}) for a note; "
        "it returns a text or None."
    )


def _note_in(turns: Sequence[Turn]) -> str | None:
    notes = [note for turn in turns for each in turn.messages if (note := note_in(each))]
    return "\n".join(notes) or None


def _writer_of(work: Work, policy: Compaction, purse: Budget) -> Asker:
    """Return what asks for notes: quietly, without the run's settings and its kind of output."""
    setup = work.setup
    model = setup.model
    if policy.model is not None:
        model = resolve_model(policy.model, agent=setup.agent)
    profile = profile_of(model)
    plain = replace(setup, model=model, profile=profile, output=None, settings=DEFAULT_SETTINGS)
    quiet = EventBus(work.start.run_id, setup.agent)
    return Asker(plain, quiet, purse, work.ctx, parent_span=work.span)
