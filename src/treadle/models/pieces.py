"""The pieces of a reply, from any model: also from one that cannot stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

from treadle.errors import BadReply, IncompleteReply
from treadle.messages import Reasoning, Text
from treadle.ports.model import (
    Model,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ReasoningPiece,
    TextPiece,
    profile_of,
)

Streams = Callable[[ModelRequest], AsyncIterator[ModelDelta]]


async def deltas_of(model: Model, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
    """Yield what the model streams; a model that cannot answers in one piece for each part.

    Raises:
        IncompleteReply: its stream ended without a reply.
    """
    stream: Streams | None = getattr(model, "stream", None)
    if stream is None:
        reply = checked(await model.complete(request), model)
        for piece in pieces_of(reply):
            yield piece
        yield reply
        return
    deltas = stream(request)
    try:
        async for delta in deltas:
            yield delta
            if isinstance(delta, ModelReply):
                return
    finally:
        if isinstance(deltas, AsyncGenerator):
            await deltas.aclose()
    raise IncompleteReply(
        "The model's stream ended without a whole reply.",
        provider=profile_of(model).provider,
        model=profile_of(model).name,
        retryable=True,
    )


def pieces_of(reply: ModelReply) -> Iterator[ModelDelta]:
    """Yield the text and reasoning of a reply, part by part."""
    for part in reply.message.parts:
        if isinstance(part, Text):
            yield TextPiece(part.text)
        elif isinstance(part, Reasoning) and part.text:
            yield ReasoningPiece(part.text)


def checked(reply: object, model: Model) -> ModelReply:
    """Return what a model gave when it is a reply: models are made by users, too.

    Raises:
        BadReply: it is something else.
    """
    if isinstance(reply, ModelReply):
        return reply
    raise BadReply(
        f"{type(model).__name__}.complete gave {type(reply).__name__} ({reply!r:.60}); "
        "it must return a ModelReply.",
        provider=profile_of(model).provider,
        model=profile_of(model).name,
    )
