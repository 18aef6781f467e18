"""What every codec must make of recorded exchanges, whatever the protocol.

Each check compares with the plain JSON of the recording, never with what our own code said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from tools.recording import Json, Recording, Tally
from treadle.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.ports.model import ModelReply
from treadle.providers._failure import failure
from treadle.providers._sse import SseReader
from treadle.values import is_array, is_object

Check = Callable[[list[Recording]], Tally]
Folded = Callable[[Recording, list[bytes]], ModelReply]
"""Folds the payloads of a recorded stream into its reply."""
SEGMENT = 2_000
"""So many bytes of whole events are cut at every byte together."""


def check_errors(recordings: list[Recording]) -> Tally:
    """Every other answer becomes the right error, which is not retried unless that may help.

    It has the status, the request's ID, the wait that was asked for and the server's words.
    """
    tally = Tally("errors typed")
    for recording in recordings:
        if recording.status >= 300:
            error = _error(recording)
            tally.count(_error_problem(recording, error), recording, type(error).__name__)
    return tally


def splits_check(folded: Folded) -> Check:
    """Return the check that a stream cut in two at any byte, or in single bytes, is the same.

    The fold sees nothing but payloads, so equal payloads are equal replies: two pieces are
    compared there, within some events on end, single bytes to the end.
    """

    def check_splits(recordings: list[Recording]) -> Tally:
        tally = Tally("streams split at every byte")
        for recording in recordings:
            if recording.is_stream and recording.status < 300:
                tally.count(_split_problem(recording, folded), recording)
                tally.notes["bytes"] = tally.notes.get("bytes", 0) + len(recording.body)
        return tally

    return check_splits


def first_difference(there: object, back: object, path: str = "request") -> str:
    """Return where two values differ first, and how."""
    if is_object(there) and is_object(back):
        for name in sorted({*there, *back}):
            if there.get(name) != back.get(name) or (name in there) != (name in back):
                return first_difference(there.get(name), back.get(name), f"{path}.{name}")
    if is_array(there) and is_array(back) and len(there) == len(back):
        for place, (given, got) in enumerate(zip(there, back, strict=True)):
            if given != got:
                return first_difference(given, got, f"{path}[{place}]")
    return f"{path} was {str(there)[:120]!r}, came back as {str(back)[:120]!r}"


def json_objects(recording: Recording) -> Iterator[Json]:
    """Yield the JSON objects of an answer, found by the simplest means."""
    text = recording.body.decode()
    lines = text.splitlines() if recording.is_stream else [text]
    for line in lines:
        bare = line.removeprefix("data:").strip() if recording.is_stream else line
        if recording.is_stream and (not line.startswith("data:") or bare == "[DONE]"):
            continue
        try:
            decoded = json.loads(bare)
        except ValueError:
            continue
        if is_object(decoded):
            yield decoded


def errors_of(status: int) -> tuple[type[ModelError], ...]:
    """Return the errors that fit a status."""
    if status in (401, 403):
        return (AuthenticationFailed,)
    if status == 429:
        return (RateLimited,)
    if status >= 500:
        return (Overloaded,)
    return (ModelError, ContextOverflow, ContentFiltered)


def _error(recording: Recording) -> ModelError:
    headers = {"x-request-id": recording.id}
    if recording.retry_after:
        headers["retry-after"] = recording.retry_after
    return failure(
        recording.status, headers, recording.body, recording.asked, now=datetime.now(UTC)
    )


def _error_problem(recording: Recording, error: ModelError) -> str | None:
    status, words = recording.status, _words(recording.body)
    if type(error) not in errors_of(status):
        return f"{status} became {type(error).__name__}"
    if error.retryable != (status == 429 or status >= 500):
        return f"{status} has retryable={error.retryable}"
    if (error.status, error.request_id) != (status, recording.id):
        return f"{status} of {recording.id} became {error.status} of {error.request_id}"
    wait = float(recording.retry_after) if recording.retry_after else None
    if error.retry_after != wait:
        return f"retry after {error.retry_after}, not {wait}"
    return None if words in str(error) else f"the server's words are not in {error}"


def _words(body: bytes) -> str:
    """Return the message of an error body, "" where it is not in its usual place."""
    try:
        decoded: object = json.loads(body)
    except ValueError:
        return ""
    if is_array(decoded) and decoded:
        decoded = decoded[0]
    error = decoded.get("error") if is_object(decoded) else None
    return str(error.get("message", "")) if is_object(error) else ""


def _split_problem(recording: Recording, folded: Folded) -> str | None:
    body, wanted = recording.body, _payloads(recording.body)
    segments = list(_segments(body))
    if [payload for segment in segments for payload in _payloads(segment)] != wanted:
        return "cut between events"
    for number, segment in enumerate(segments):
        whole = _payloads(segment)
        for cut in range(1, len(segment)):
            if _payloads(segment[:cut], segment[cut:]) != whole:
                return f"segment {number} cut at byte {cut}"
    single = _payloads(*(body[place : place + 1] for place in range(len(body))))
    if _outcome(recording, single, folded) != _outcome(recording, wanted, folded):
        return "byte by byte"
    return None


def _payloads(*pieces: bytes) -> list[bytes]:
    reader = SseReader()
    found = [payload for piece in pieces for payload in reader.feed(piece)]
    return found + reader.end()


def _segments(body: bytes) -> Iterator[bytes]:
    """Yield a stream in segments of whole events: to cut a long one everywhere takes very long."""
    start = 0
    for blank in re.finditer(rb"\r\n\r\n|\n\n", body):
        if blank.end() - start >= SEGMENT:
            yield body[start : blank.end()]
            start = blank.end()
    yield body[start:]


def _outcome(recording: Recording, payloads: list[bytes], folded: Folded) -> object:
    try:
        return folded(recording, payloads)
    except ModelError as error:
        return (type(error), str(error), error.partial)
