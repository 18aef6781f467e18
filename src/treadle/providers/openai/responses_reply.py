"""Responses replies as our values."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.errors import ModelError
from treadle.messages import Message
from treadle.ports.model import FinishReason, ModelReply
from treadle.providers._counts import usage_from
from treadle.providers._failure import NO_HEADERS, Asked, bad_reply, complaint_in, typed_error
from treadle.providers.openai.responses_items import ReplyParts, read_items
from treadle.providers.openai.responses_objects import (
    Wire,
    WireResponse,
    decode_response,
    objects_in,
    text_in,
)
from treadle.usage import Usage
from treadle.values import is_array, is_object

_FAILED = {"failed", "cancelled"}
_CUT: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def decode_reply(
    body: bytes, host: str, asked: Asked, headers: Mapping[str, str] = NO_HEADERS
) -> ModelReply:
    """Return the reply that the body of a 200 holds. `host` may get its opaque data back.

    Raises:
        BadReply: the body is no response.
        ModelError: it holds an error instead of an answer, typed as that error is.
    """
    try:
        response = decode_response(body)
    except ValueError as error:
        raise bad_reply(body, asked, str(error), headers=headers) from error
    problem = problem_of(response, asked)
    if problem:
        raise problem
    if not is_array(response.output):
        raise bad_reply(body, asked, "it has no list of output items", headers=headers)
    return assembled(objects_in(response.output), response, host, asked)


def problem_of(response: WireResponse, asked: Asked, partial: str = "") -> ModelError | None:
    """Return the error that a response tells of, None when it tells of none."""
    if response.error:
        return typed_error(complaint_in({"error": response.error}), asked, partial=partial)
    if text_in(response.status) in _FAILED:
        said = {"message": f"the response is {response.status}", "code": "server_error"}
        return typed_error(complaint_in({"error": said}), asked, partial=partial)
    return None


def assembled(items: list[Wire], response: WireResponse, host: str, asked: Asked) -> ModelReply:
    """Return the reply of these items; everything else is in `response`."""
    found = read_items(items, host)
    details = response.incomplete_details
    cut = text_in(details.get("reason")) if is_object(details) else ""
    return ModelReply(
        message=Message("assistant", tuple(found.parts)),
        usage=usage_of(response.usage),
        finish_reason=_finish_reason(text_in(response.status), cut, found),
        model=text_in(response.model) or asked.model,
        response_id=text_in(response.id) or None,
        provider_finish=cut or text_in(response.status) or None,
    )


def usage_of(usage: object) -> Usage:
    """Return the counts of one call; some servers say what it cost, too."""
    if not is_object(usage):
        return _ONE_REQUEST
    given, written = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    given = given if is_object(given) else {}
    written = written if is_object(written) else {}
    return usage_from(
        prompt=usage.get("input_tokens"),
        read=given.get("cached_tokens"),
        written=given.get("cache_write_tokens"),
        output=usage.get("output_tokens"),
        reasoning=written.get("reasoning_tokens"),
        cost=usage.get("cost"),
    )


def _finish_reason(status: str, cut: str, found: ReplyParts) -> FinishReason:
    """Return why a reply ended. One that is still being made, in the background, has not."""
    if cut or status == "incomplete":
        return _CUT.get(cut, "other")
    if status in ("queued", "in_progress"):
        return "other"
    if found.has_calls:
        return "tool_calls"
    return "refusal" if found.refused else "stop"


_ONE_REQUEST = Usage(requests=1)
