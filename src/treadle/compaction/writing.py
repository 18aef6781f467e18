"""Ask a model for a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.compaction.records import Record
from treadle.compaction.strategy import Ask, Gone
from treadle.compaction.transcript import passages_of, pieces_of, quoted
from treadle.errors import CompactionFailed
from treadle.messages import Message, Thread
from treadle.ports.model import ModelRequest, ModelSettings

_FOR_THOUGHTS = 1_024
"""Tokens that a model may use before it writes: not every model can be told not to."""
_MOST_OUTPUT = 8_192
"""What every model may write."""
_MOST_NOTE = 4_000
_FRAME = 160
"""Tokens for our own words around what is quoted."""


def note_size(gone: Gone) -> int:
    """Return how many tokens a model is asked to write at most."""
    return max(1, min(gone.tokens, _MOST_NOTE))


def pieces(gone: Gone, records: Sequence[Record], system: str, earlier: int) -> Iterator[str]:
    """Yield the transcript in pieces that fit a request beside `earlier` tokens of a note.

    Raises:
        CompactionFailed: the window has no room for any.
    """
    space = gone.window - _output(gone) - gone.weigh(system) - earlier - _FRAME
    return pieces_of(passages_of(records), space, gone.weigh)


async def written(gone: Gone, ask: Ask, system: str, text: str) -> str:
    """Return what the model writes.

    Raises:
        ModelError: the model could not be asked.
        CompactionFailed: it wrote nothing, or refused.
    """
    request = ModelRequest(
        messages=Thread([Message.user(text)]),
        system=system,
        settings=ModelSettings(max_output_tokens=_output(gone)),
    )
    reply = await ask(request)
    if reply.finish_reason in ("refusal", "content_filter"):
        raise CompactionFailed("The model refused to write the note that stands for old messages.")
    if not (note := reply.message.text.strip()):
        raise CompactionFailed(
            "The model wrote an empty note in place of old messages "
            f"(finish reason {reply.finish_reason!r})."
        )
    return note


def question(earlier: str, called: str, piece: str, wanted: str) -> str:
    """Return what the model is asked: the earlier note, what is new, and what is wanted."""
    parts: list[str] = []
    if earlier:
        parts.append(f"{called} so far:\n{quoted(earlier)}")
    parts.append(f"The messages that leave:\n{piece}")
    parts.append(wanted)
    return "\n\n".join(parts)


def _output(gone: Gone) -> int:
    most = min(gone.tokens + _FOR_THOUGHTS, _MOST_OUTPUT, gone.window // 4)
    return max(1, most)
