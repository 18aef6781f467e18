"""Gemini replies that came in one piece, as our values."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.ports.model import ModelReply
from treadle.providers._failure import NO_HEADERS, Asked, bad_reply
from treadle.providers.gemini.dialect import GeminiDialect
from treadle.providers.gemini.stream import GeminiFold, chunks_in

_SAYS = ("candidates", "prompt_feedback", "usage_metadata", "model_version", "error")


def decode_reply(
    body: bytes, dialect: GeminiDialect, asked: Asked, headers: Mapping[str, str] = NO_HEADERS
) -> ModelReply:
    """Return the reply that the body of a 200 holds; a list is a stream that came at once.

    Raises:
        BadReply: the body is no answer of this protocol.
        ModelError: it holds an error instead of an answer, typed as that error is.
    """
    try:
        chunks = chunks_in(body)
    except ValueError as error:
        raise bad_reply(body, asked, str(error), headers=headers) from error
    if not any(getattr(chunk, name) for chunk in chunks for name in _SAYS):
        raise bad_reply(body, asked, "it has no candidates", headers=headers)
    fold = GeminiFold(dialect, asked, headers)
    for chunk in chunks:
        fold.feed_whole(chunk)
    return fold.finish()
