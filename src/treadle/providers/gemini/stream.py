"""A Gemini reply, whole or streamed, folded chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from treadle.errors import BadReply
from treadle.ports.model import ModelDelta, ModelReply
from treadle.providers._counts import tokens
from treadle.providers._failure import (
    NO_HEADERS,
    Asked,
    bad_reply,
    complaint_in,
    incomplete_reply,
    typed_error,
)
from treadle.providers._json import cleaned, decode, encode
from treadle.providers.gemini.citations import cited
from treadle.providers.gemini.dialect import READ_ONLY, GeminiDialect, Wire
from treadle.providers.gemini.objects import (
    ABSENT,
    INEXACT,
    WireCandidate,
    WireReply,
    WireUsage,
    decode_chunk,
    decode_text,
    decode_usage,
)
from treadle.providers.gemini.outcome import BLOCKED, outcome_of
from treadle.providers.gemini.parts_fold import PartFold
from treadle.values import is_array

_DONE = b"[DONE]"
_TOLD = {
    "grounding_metadata": "groundingMetadata",
    "citation_metadata": "citationMetadata",
    "url_context_metadata": "urlContextMetadata",
}
_OF_FAILURES = {"safety_ratings": "safetyRatings", "finish_message": "finishMessage"}
_ENDS = frozenset({"STOP", "MAX_TOKENS"})


class GeminiFold:
    """Folds event payloads into deltas and, at the end, the reply.

    A reply is whole when it says why it ended. `done` says that ``[DONE]`` came,
    which some gateways send, and `spoke` that any chunk did.
    """

    __slots__ = (
        "_asked",
        "_blocked",
        "_dialect",
        "_finish",
        "_headers",
        "_id",
        "_kept",
        "_model",
        "_parts",
        "_plain",
        "_raw_usage",
        "_told",
        "_usage",
        "done",
        "spoke",
    )

    def __init__(
        self, dialect: GeminiDialect, asked: Asked, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self._dialect = dialect
        self._asked = asked
        self._headers = headers
        self._parts = PartFold(dialect)
        self._told: list[Wire] = []
        self._kept: Wire = {}
        self._finish: str | None = None
        self._blocked: str | None = None
        self._usage = WireUsage()
        self._raw_usage = ABSENT
        self._id: str | None = None
        self._model: str | None = None
        self._plain = False  # the last chunk was nothing but text
        self.spoke = False
        self.done = False

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(self._parts.said)

    @property
    def is_whole(self) -> bool:
        """Whether the server said that the reply is complete."""
        return self.done or self._finish is not None or self._blocked is not None

    def feed(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Return what the chunks in `payloads` add.

        Raises:
            ModelError: one of them is an error, typed as that error is.
            BadReply: one is no chunk at all.
        """
        deltas: list[ModelDelta] = []
        say = self._parts.say
        for payload in payloads:
            if self._plain:  # then this one may be, too
                try:
                    chunk = decode_text(payload)
                except INEXACT:
                    self._plain = False
                else:
                    part = chunk.candidates[0].content.parts[0]
                    if "\0" not in part.text:
                        say(part.text, part.thought, deltas)
                        if chunk.usage_metadata is not ABSENT:
                            self._raw_usage = chunk.usage_metadata
                        continue
            self._fold(payload, deltas)
        return deltas

    def feed_last(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Like `feed` for an event whose end never came: it may be half of one."""
        with suppress(BadReply):
            return self.feed(payloads)
        return []

    def feed_whole(self, chunk: WireReply) -> None:
        """Take an answer that came in one piece; if it says anything, it need not say why it ended.

        Raises:
            ModelError: it is an error, typed as that error is.
        """
        self._take_chunk(chunk, [])
        self.done = True

    def finish(self) -> ModelReply:
        """Return the reply, once the stream has ended.

        Raises:
            IncompleteReply: it ended too early, or was empty; trying again may help.
        """
        self._parts.close()
        parts = self._parts.parts
        silent = not parts and self._finish is None and self._blocked is None
        if silent or not self.is_whole:
            what = "The reply ended too early" if parts else "The reply is empty"
            raise incomplete_reply(what, self._asked, self.partial)
        kept = {name: value for name, value in self._kept.items() if value}
        return outcome_of(
            cited(parts, self._told),
            finish=self._finish,
            blocked=self._blocked,
            usage=self._counted(),
            model=self._model or self._asked.model,
            response_id=self._id,
            provider={READ_ONLY: cleaned(kept)} if kept else None,
        )

    def _fold(self, payload: bytes, deltas: list[ModelDelta]) -> None:
        """Take a chunk that may say anything."""
        stripped = payload.strip()
        if not stripped or stripped == _DONE:
            self.done = self.done or stripped == _DONE
            return
        try:
            chunks = chunks_in(payload)
        except ValueError as error:
            raise self._bad(payload, f"an event: {error}") from error
        for chunk in chunks:
            self._take_chunk(chunk, deltas)

    def _bad(self, body: bytes, why: str) -> BadReply:
        problem = bad_reply(body, self._asked, why, headers=self._headers)
        problem.partial = self.partial
        return problem

    def _take_chunk(self, chunk: WireReply, deltas: list[ModelDelta]) -> None:
        self.spoke = True
        if chunk.error:
            complaint = complaint_in({"error": cleaned(chunk.error)})
            raise typed_error(complaint, self._asked, partial=self.partial)
        counts = chunk.usage_metadata
        if counts is not None and _counts_any(counts):
            self._usage, self._raw_usage = counts, ABSENT
        self._id = self._id or chunk.response_id
        self._model = self._model or chunk.model_version
        if chunk.prompt_feedback:
            self._feedback(chunk.prompt_feedback)
        for candidate in chunk.candidates or ():
            if not candidate.index:  # only the first of several answers
                self._take(candidate, deltas)

    def _feedback(self, feedback: Wire) -> None:
        reason = feedback.get("blockReason")
        if isinstance(reason, str):
            self._blocked = BLOCKED if reason.endswith("UNSPECIFIED") else reason
            self._kept["promptFeedback"] = feedback

    def _counted(self) -> WireUsage:
        """Return the last counts: each is a total of its own."""
        counts = self._usage if self._raw_usage is ABSENT else decode_usage(self._raw_usage)
        return counts if _counts_any(counts) else self._usage

    def _take(self, candidate: WireCandidate, deltas: list[ModelDelta]) -> None:
        plain = True
        for raw in (candidate.content.parts if candidate.content else None) or ():
            try:
                plain = self._parts.take(raw, deltas) and plain
            except ValueError as error:
                raise self._bad(bytes(raw), f"a part: {error}") from error
        self._plain = plain
        if candidate.finish_reason:
            self._finish = candidate.finish_reason
        for name, key in _TOLD.items():
            metadata = getattr(candidate, name)
            if metadata:
                self._told.append(cleaned(metadata))
                self._kept[key] = metadata
        if candidate.finish_reason not in _ENDS:
            for name, key in _OF_FAILURES.items():
                self._kept[key] = getattr(candidate, name) or self._kept.get(key)
        if candidate.logprobs_result:
            known = self._kept.get("logprobsResult", {})
            self._kept["logprobsResult"] = _longer(known, candidate.logprobs_result)


def _counts_any(usage: WireUsage) -> bool:
    """Whether counts count anything: those that do not say nothing of the reply."""
    return bool(tokens(usage.total_token_count) or tokens(usage.prompt_token_count))


def chunks_in(payload: bytes) -> list[WireReply]:
    """Return the chunks of a body: one object, or a list of them.

    Raises:
        ValueError: it is no JSON of this protocol.
    """
    if not payload.lstrip().startswith(b"["):
        return [decode_chunk(payload)]
    items: Any = decode(payload)
    if not is_array(items) or not items:
        raise ValueError("it is an empty list")
    return [decode_chunk(encode(item)) for item in items]


def _longer(known: Wire, more: Wire) -> Wire:
    """Return log probabilities with those of a further piece."""
    merged = {**known, **more}
    for name, items in more.items():
        before = known.get(name)
        if is_array(before) and is_array(items):
            merged[name] = [*before, *items]
    return merged
