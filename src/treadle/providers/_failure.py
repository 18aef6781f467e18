"""What a provider's error answer means: a status, headers and a body become a typed error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ContentFiltered,
    ContextOverflow,
    IncompleteReply,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.providers._json import decode, encode
from treadle.providers._rpc import Details, details_in
from treadle.values import is_array, is_object
from treadle.values.secret import masked

NO_HEADERS: Mapping[str, str] = {}
_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-generation-id", "cf-ray")
_OVERFLOW_CODES = {
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
}
_OVERFLOW = re.compile(
    r"(maximum|max|model'?s?) context length|context[ _](window|size|length|limit)|context too long"
    r"|(prompt|input|request)( \(?\d+ tokens\)?)?( is)? too (long|large)"
    r"|too many (input )?tokens|reduce the length of (the|your)|reduce your message size"
    r"|exceeds? the maximum (number of|input) tokens|input token count|max_new_tokens must be",
    re.IGNORECASE,
)
_FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "moderation_blocked",
    "responsibleaipolicyviolation",
}
_FILTER = re.compile(r"content management policy|flagged|requires moderation|safety system", re.I)
_KEY_REFUSED = re.compile(r"api key (not valid|expired|not found)|api_key_invalid", re.IGNORECASE)
_QUOTA_CODES = {
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
}
_QUOTA = re.compile(r"exceeded your current quota|insufficient (credit|balance|quota|fund)", re.I)
_BALANCE = re.compile(r"credit balance is too low", re.IGNORECASE)
_BUSY = re.compile(r"overload|(server|internal).?error|unavailable|timed? ?out|capacity", re.I)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_READ = 20_000
"""So many bytes of an answer are looked at for a message: keys are hidden before it is cut."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Complaint(Struct, frozen=True):
    """What an error body says, whatever its shape. `status` is one embedded in the body.

    `is_page` says that the text was written for people, and is long.
    """

    text: str
    code: str = ""
    kind: str = ""
    status: int | None = None
    details: Details = Details()
    request_id: str = ""
    is_page: bool = False


class Asked(Struct, frozen=True):
    """Who was asked for what, for error messages. `secrets` never appear in one.

    `status` is that of an answer in which a reply is looked for.
    """

    provider: str
    model: str
    secrets: tuple[str, ...] = ()
    status: int = 200


def failure(
    status: int, headers: Mapping[str, str], body: bytes, asked: Asked, *, now: datetime
) -> ModelError:
    """Return the error that an answer other than 2xx stands for. `now` is the time of day."""
    complaint = complaint_of(body)
    retry_after = seconds_to_wait(headers, now)
    return typed_error(complaint, asked, status=status, headers=headers, retry_after=retry_after)


def typed_error(
    complaint: Complaint,
    asked: Asked,
    *,
    status: int | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    retry_after: float | None = None,
    partial: str = "",
) -> ModelError:
    """Return the error that fits a complaint; without `status` it came inside an answer of 200.

    Retryable are rate limits (but no spent quota), a busy or failing server, and nothing else.
    """
    meant = complaint.status if status is None else status
    kind, retryable = _kind(meant, complaint)
    details = complaint.details
    request_id = _request_id(headers) or details.request_id or complaint.request_id or None
    return kind(
        _message(kind, meant, complaint, asked, request_id, headers),
        provider=asked.provider,
        model=asked.model,
        status=meant,
        request_id=request_id,
        code=complaint.code or complaint.kind or None,
        retryable=retryable,
        retry_after=details.retry_after if retry_after is None else retry_after,
        partial=partial,
    )


def bad_reply(
    body: bytes,
    asked: Asked,
    why: str,
    *,
    status: int | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> BadReply:
    """Return the error for an answer that is not the protocol: its type and its beginning."""
    status = status or asked.status
    shown = masked(body[:_READ].decode("utf-8", "replace").strip(), asked.secrets)[:200]
    content_type = headers.get("content-type") or "no content type"
    said = f"{asked.provider} answered {status} ({content_type}) with"
    what = "something that is no reply of a model"
    text = f"{said} {what} ({why}): {shown!r}." if body else f"{said} nothing, which is no reply."
    return BadReply(
        f"{text} Is base_url the API's address?",
        provider=asked.provider,
        model=asked.model,
        status=status,
        request_id=_request_id(headers),
    )


def incomplete_reply(what: str, asked: Asked, partial: str) -> IncompleteReply:
    """Return the error for a stream that ended without saying that it is whole."""
    rest = f"; it got to {partial[-60:]!r}" if partial else ""
    return IncompleteReply(
        f"{what}: the stream of {asked.provider}, model {asked.model!r}, stopped "
        f"without a finish reason{rest}.",
        provider=asked.provider,
        model=asked.model,
        retryable=True,
        partial=partial,
    )


def _request_id(headers: Mapping[str, str]) -> str | None:
    """Return the ID under which the server, or one on the way to it, knows the request."""
    return next((headers[name] for name in _ID_HEADERS if headers.get(name)), None)


def complaint_of(body: bytes) -> Complaint:
    """Read an error body: JSON of any of the known shapes, or any text."""
    try:
        decoded = decode(body)
    except ValueError:
        return Complaint(_plain_text(body[:_READ].decode("utf-8", "replace")), is_page=True)
    return complaint_in(decoded)


def complaint_in(decoded: object) -> Complaint:
    """Read a decoded error: OpenAI's object, a list of one, a bare message, FastAPI's detail."""
    if is_array(decoded) and decoded:
        decoded = decoded[0]
    if not is_object(decoded):
        return Complaint(_as_text(decoded))
    inner: object = decoded.get("error") or decoded
    if not is_object(inner):
        return Complaint(_as_text(inner), _word(decoded.get("code")), _word(decoded.get("type")))
    texts = (inner.get(key) for key in ("message", "detail", "msg", "error"))
    text = next((_as_text(item) for item in texts if item), "")
    metadata, cause = inner.get("metadata"), inner.get("innererror")
    raw = metadata.get("raw") if is_object(metadata) else None
    code = cause.get("code") if is_object(cause) else None
    more = inner.get("details")
    code = code or (more.get("error_code") if is_object(more) else None)
    statuses = (_status(inner.get(key)) for key in ("code", "status_code", "status"))
    details = details_in(inner, text)
    return Complaint(
        f"{text} ({_as_text(raw)})" if raw else text or _as_text(inner),
        _word(inner.get("code")) or _word(code) or details.reason,
        _word(inner.get("type")) or _word(inner.get("status")),
        next((status for status in statuses if status), None),
        details,
        _word(decoded.get("request_id")),
    )


def seconds_to_wait(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the wait that the server asks for.

    From `retry-after-ms`, `retry-after` (seconds or an HTTP date, which is read against the
    answer's own `date`), else from the reset header of the limit that is used up.
    """
    since = _date(headers.get("date", "")) or now
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    asked = headers.get("retry-after")
    if asked:
        seconds = _number(asked)
        if seconds is not None:
            return max(seconds, 0.0)
        until = _date(asked)
        if until is not None:
            return max((until - since).total_seconds(), 0.0)
    waits = [
        wait
        for name, value in headers.items()
        if _is_spent(headers, name.lower()) and (wait := _reset(value, since)) is not None
    ]
    return max(waits, default=None)


def _kind(status: int | None, complaint: Complaint) -> tuple[type[ModelError], bool]:
    """Return the error's class, and whether the same request may work later."""
    code, text = complaint.code.lower(), complaint.text
    if code in _OVERFLOW_CODES or status == 413 or (status != 401 and _OVERFLOW.search(text)):
        return ContextOverflow, False
    if code in _FILTER_CODES or (status in (400, 403) and _FILTER.search(text)):
        return ContentFiltered, False
    if _is_quota(status, complaint):
        return RateLimited, False
    if status in (401, 403, 407) or (status == 400 and _KEY_REFUSED.search(f"{text} {code}")):
        return AuthenticationFailed, False
    if status == 429 or (status is None and "rate" in f"{code}{complaint.kind}".lower()):
        return RateLimited, True
    if status is None:
        busy = bool(_BUSY.search(f"{complaint.code} {complaint.kind} {text}"))
        return (Overloaded, True) if busy else (ModelError, False)
    if status in (408, 409, 425) or (status >= 500 and status not in (501, 505)):
        return Overloaded, True
    return ModelError, False


def _is_quota(status: int | None, complaint: Complaint) -> bool:
    """Whether what is used up will not come back by waiting a little."""
    if complaint.code.lower() in _QUOTA_CODES or status == 402 or _BALANCE.search(complaint.text):
        return True
    if status not in (403, 429, None):
        return False
    spent = complaint.details.spent
    if spent is None:
        return status is not None and bool(_QUOTA.search(complaint.text))
    return spent


def _message(
    kind: type[ModelError],
    status: int | None,
    complaint: Complaint,
    asked: Asked,
    request_id: str | None,
    headers: Mapping[str, str],
) -> str:
    text = masked(complaint.text[:_READ], asked.secrets)[: 300 if complaint.is_page else 1000]
    text = text or "no reason given"
    number = f" ({status})" if status else ""
    trailer = f" [request {request_id}]" if request_id else ""
    said = f"{asked.provider}, model {asked.model!r}{number}: {text}{trailer}"
    hint = _hint(kind, status, complaint, asked, headers)
    if not hint:
        return said
    return f"{said} {hint}" if text.endswith((".", "!", "?")) else f"{said}. {hint}"


def _hint(
    kind: type[ModelError],
    status: int | None,
    complaint: Complaint,
    asked: Asked,
    headers: Mapping[str, str],
) -> str:
    """Return what to do about it, where that is known."""
    if kind is AuthenticationFailed:
        return "Check the key: api_key=, or the environment variable."
    if kind is RateLimited and status == 402:
        return "The account has no credit left."
    if kind is RateLimited:
        return _hint_of_limit(status, complaint)
    if kind is Overloaded:
        return "The server is failing or busy: try later, or more often with Retry(attempts=)."
    if status == 404 and ("model" in complaint.code or "model" in complaint.text.lower()):
        return f"Is the name {asked.model!r} right, and open to this key?"
    if status == 404:
        return "Is base_url right? Most servers want it to end in /v1."
    if status is not None and 300 <= status < 400:
        return _hint_elsewhere(status, headers.get("location", ""), asked)
    return ""


def _hint_elsewhere(status: int, location: str, asked: Asked) -> str:
    """Return what to do about an answer that is neither a reply nor an error."""
    if location:
        return f"The server points to {masked(location, asked.secrets)!r}; set base_url so."
    if status == 304:
        return "That is the answer of a cache: is there one on the way to the server?"
    return "Is base_url the API's address?"


def _hint_of_limit(status: int | None, complaint: Complaint) -> str:
    """Return what to do about a limit: one on the rate passes, a spent quota does not."""
    if _is_quota(status, complaint):
        return "The account's quota is spent: waiting does not help, look at its plan and billing."
    return "Ask less often, or wait longer between attempts with Retry(first_wait=)."


def _is_spent(headers: Mapping[str, str], name: str) -> bool:
    """Whether this is the reset header of a limit that is used up, or may be."""
    left = headers.get(name.replace("-reset", "-remaining"))
    if "ratelimit-reset" in name:
        return left is None or _number(left) == 0
    if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
        return _number(left) == 0  # some of these are hours away, and belong to no limit of ours
    return False


def _reset(value: str, now: datetime) -> float | None:
    """Return seconds from "1s", "6m0s", "120ms", seconds, or a time: ISO 8601, s or ms of 1970."""
    number = _number(value)
    if number is None:
        moment = _moment(value)
        if moment is not None:
            return max((moment - now).total_seconds(), 0.0)
        amounts = _TOKENS.findall(value)
        return sum(float(amount) * _UNITS[unit] for amount, unit in amounts) if amounts else None
    if number > 1e11:
        number /= 1000
    return max(number - now.timestamp(), 0.0) if number > 1e9 else max(number, 0.0)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year of many digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < 1e15 else None  # nan and inf: no


def _status(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[1-5]\d\d", text) else None


def _word(value: object) -> str:
    return value if isinstance(value, str) and not _status(value) else ""


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _plain_text(text: str) -> str:
    """Return the words of an error page."""
    bare = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]+>", " ", text)
    return " ".join(bare.split())
