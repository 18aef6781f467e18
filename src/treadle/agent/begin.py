"""Begin a run: read its conversation, render its prompt, and write that it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.agent.context_use import prompt_sizes
from treadle.agent.recorder import Recorder
from treadle.agent.work import Work
from treadle.errors import ConversationBusy, InvalidInput, RevisionConflict
from treadle.events import RunStarted
from treadle.messages import Thread
from treadle.state.scoped import State, StateWrite
from treadle.values import Plain
from treadle.view import View


async def begin(work: Work) -> None:
    """Begin the run in its conversation, or in none.

    Raises:
        InvalidInput: there is nothing to say, or the conversation does not take what was given.
        ConversationBusy: another run owns the conversation.
    """
    recorder = work.recorder
    if recorder is None or not await _begun_as_known(work, recorder):
        await _begin_in(work, None if recorder is None else await recorder.ledger.open())
    await work.mail.open(recorder)
    work.tell(RunStarted, work.start.conversation_id)


async def _begun_as_known(work: Work, recorder: Recorder) -> bool:
    """Begin in the conversation as this process knows it; whether it still was so, and free."""
    is_new = work.start.is_new
    if not is_new and _calls_users(work):
        return False
    known = recorder.ledger.open_known()
    if known is None:
        return False
    try:
        await _begin_in(work, known)
    except (ConversationBusy, RevisionConflict, InvalidInput):
        if is_new:  # there is no other way to begin it
            raise
        recorder.ledger.close_known()
        return False
    return True


def _calls_users(work: Work) -> bool:
    """Whether beginning calls a function of the user's, or writes into their state: only once."""
    return callable(work.setup.instructions) or isinstance(work.start.state, State)


async def _begin_in(work: Work, view: View | None) -> None:
    start, setup = work.start, work.setup
    packed: dict[str, Plain] = {}
    if view is not None:
        packed = view.state
        work.thread = Thread(view.messages or start.history)  # both are the journal's
        if setup.flow is None:  # a flow's steps take them in
            work.thread.extend(work.inbox.waiting.values())
    if start.input is not None:
        work.thread.append(start.input)
    elif not work.thread:
        raise InvalidInput("There is nothing to say: no input, and nothing was said before.")
    state, writes = _begin_state(start.state, packed)
    work.build(state, start.metadata)
    await work.render()
    if work.recorder is not None:
        work.written = len(work.ctx.writes)
        given = [*writes, *work.ctx.writes]
        flow = setup.flow is not None
        told = (setup.agent, setup.definition, given)
        await work.recorder.began(*told, flow=flow, prompt=prompt_sizes(work))


def _begin_state(
    given: State | Mapping[str, Any] | None, packed: dict[str, Any]
) -> tuple[State, tuple[StateWrite, ...]]:
    """Return the run's state and what of it the journal does not have yet."""
    if not given and not packed and not isinstance(given, State):
        return State(), ()
    if isinstance(given, State):
        if packed:
            raise InvalidInput(
                "The conversation has state of its own; pass state= as a dict of keys to set, "
                "not as a State."
            )
        return given, tuple(StateWrite(key, value) for key, value in given.packed().items())
    state = State.from_packed(packed)
    writes = tuple(StateWrite(key, plain) for key, plain in (given or {}).items())
    state.apply(writes)
    return state, writes
