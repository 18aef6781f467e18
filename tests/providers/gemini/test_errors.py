"""What Google's error answers mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.providers.gemini.parts import ASKED
from treadle.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.providers._failure import failure

RPC = "type.googleapis.com/google.rpc"
RETRY = {"@type": f"{RPC}.RetryInfo", "retryDelay": "34.5s"}


def error_of(
    status: int, message: str, *details: dict[str, Any], listed: bool = False
) -> ModelError:
    """Return the error that such an answer is."""
    body: Any = {"error": {"code": status, "message": message, "status": "S", "details": details}}
    encoded = json.dumps([body] if listed else body).encode()
    return failure(status, {}, encoded, ASKED, now=datetime.now(UTC))


def quota(name: str) -> dict[str, Any]:
    """Return the detail that names a quota."""
    return {"@type": f"{RPC}.QuotaFailure", "violations": [{"quotaId": name}]}


SPENT = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize("listed", [False, True])
def test_a_limit_on_the_rate_says_how_long_to_wait(listed: bool) -> None:
    """Though its words are those of a spent quota; the body may be a list of one."""
    error = error_of(429, SPENT, quota("GenerateRequestsPerMinutePerProject"), RETRY, listed=listed)
    assert type(error) is RateLimited
    assert (error.retryable, error.retry_after, error.status) == (True, 34.5, 429)


def test_the_wait_may_be_in_the_words_only() -> None:
    """As gateways pass it on."""
    error = error_of(429, "Quota exceeded for metric: x. Please retry in 7.25s.")
    assert (error.retryable, error.retry_after) == (True, 7.25)
    assert error_of(429, "Please retry in 250ms.").retry_after == 0.25


def test_a_spent_quota_is_not_tried_again() -> None:
    """One for the day, or one of nothing; without details the words decide."""
    for error in (
        error_of(429, SPENT, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY),
        error_of(429, f"{SPENT} limit: 0, model: x", quota("GenerateRequestsPerMinute"), RETRY),
        error_of(429, SPENT),
    ):
        assert type(error) is RateLimited
        assert not error.retryable
        assert "waiting does not help" in str(error)
    assert error_of(429, "Resource exhausted. Please try again later.").retryable


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "API key not valid. Please pass a valid API key.", AuthenticationFailed),
        (400, "API key expired. Please renew the API key.", AuthenticationFailed),
        (403, "Permission denied", AuthenticationFailed),
        (
            400,
            "The input token count (2) exceeds the maximum number of tokens allowed (1).",
            ContextOverflow,
        ),
        (400, "Invalid JSON payload received. Unknown name", ModelError),
        (404, "models/x is not found for API version v1beta", ModelError),
        (500, "An internal error has occurred.", Overloaded),
        (503, "The model is overloaded.", Overloaded),
        (504, "Deadline expired", Overloaded),
    ],
)
def test_errors_have_types(status: int, message: str, kind: type[ModelError]) -> None:
    """Retried is only what may pass."""
    error = error_of(status, message)
    assert type(error) is kind
    assert error.retryable is (kind is Overloaded)


def test_details_name_reason_and_request() -> None:
    """For support, and for code that looks at reasons."""
    error = error_of(
        400,
        "no",
        {"@type": f"{RPC}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"},
        {"@type": f"{RPC}.RequestInfo", "requestId": "r-1"},
        {"@type": f"{RPC}.RetryInfo", "retryDelay": {"seconds": 2, "nanos": 500000000}},
    )
    assert type(error) is AuthenticationFailed
    assert (error.code, error.request_id, error.retry_after) == ("API_KEY_INVALID", "r-1", 2.5)
