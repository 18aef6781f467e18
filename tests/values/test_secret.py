"""What names a secret, and text without them."""

from __future__ import annotations

import pytest

from treadle.values.secret import masked, names_a_secret


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "api-key", "x-api-key", "X-Goog-Api-Key", "proxy-authorization"),
        *("cookie", "Set-Cookie", "key", "access_token", "client_secret", "sig", "x-amz-signature"),
        *("password", "x-credential"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    """Headers and parameters that hold one."""
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("content-type", "x-ratelimit-remaining-tokens", "max_tokens", "authority", "author"),
        *("api-version", "date", "x-request-id", "signed-off", "retry-after"),
    ],
)
def test_other_names(name: str) -> None:
    """What they hold is shown."""
    assert not names_a_secret(name)


def test_text_without_secrets() -> None:
    """Those that are known, and whatever looks like a key; words stay."""
    text = "my-word: sk-0123456789abcdef, Bearer abcdefghijk a task-force of skill"
    assert masked(text, ["my-word", ""]) == "***: ***, Bearer *** a task-force of skill"
