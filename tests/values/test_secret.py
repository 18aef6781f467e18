"""What names a secret, and text without them."""

from __future__ import annotations

import pytest

from treadle.values.secret import (
    MOST_KNOWN,
    hidden,
    know,
    know_all_in,
    masked,
    names_a_secret,
    places_of_keys,
    secrets_of,
    without_secrets,
)


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://h/?api_key=abc&x=1#y", "see https://h/?api_key=***&x=1#y"),
        ("/v1?X-Amz-Signature=abc&max_tokens=5", "/v1?X-Amz-Signature=***&max_tokens=5"),
        ("redis://:pw@h/0, http://me:p:w@[::1]/", "redis://***@h/0, http://***@[::1]/"),
        ("https://h/@me?a=b@c", "https://h/@me?a=b@c"),
        ("https://me:sk-0123456789abcdef@h/", "https://***@h/"),
    ],
)
def test_addresses_without_secrets(text: str, shown: str) -> None:
    """Passwords and parameters whose names tell of one, known or not; once is enough."""
    assert masked(text, []) == shown
    assert masked(shown, []) == shown


def test_places_do_not_overlap() -> None:
    """A key that is a password is one place."""
    places = list(places_of_keys("http://me:sk-0123456789abcdef@h/?key=gsk_0123456789abcdef"))
    assert places == [(7, 29), (37, 57)]


def test_what_is_secret_in_a_request() -> None:
    """Values, their words, cookies and passwords; nothing that is short enough for a word."""
    found = secrets_of(
        {
            "Authorization": "Basic bWU6aHVudGVyMg==",
            "Cookie": "a=tasty1; b=2",
            "X-About": "about it",
        },
        "http://you:swordfish@h/?sig=signed%2B1&x=visible",
        "http://[",
    )
    wanted = {"hunter2", "me:hunter2", "bWU6aHVudGVyMg==", "tasty1", "swordfish", "signed+1"}
    assert found >= wanted
    assert not {"visible", "about it", "2", "me"} & found


def test_known_secrets_in_every_spelling() -> None:
    """As they are, in JSON, in an address and in base64; the longest first."""
    know("opal/ä+seven", "opal/ä+seven-and-more", "short")
    text = 'opal/ä+seven-and-more "opal\\/\\u00e4+seven" opal%2F%C3%A4%2Bseven '
    text += "b3BhbC/DpCtzZXZlbg== short"

    assert hidden(text) == '*** "***" *** *** short'
    untouched = "nothing of it"
    assert hidden(untouched) is untouched


def test_the_oldest_are_forgotten() -> None:
    """What is remembered is bounded; one that is named again stays."""
    know("first-secret", "second-secret")
    know(*(f"number-{place}" for place in range(MOST_KNOWN - 2)))
    know("first-secret")
    know("the-last-one")

    assert hidden("first-secret second-secret the-last-one") == "*** second-secret ***"


def test_secrets_within_a_value() -> None:
    """All texts and numbers that it has."""
    know_all_in({"user": ["anna-maria", 1234567, True, None], "pin": 12})

    assert hidden("anna-maria 1234567 True None 12") == "*** *** True None 12"
    assert without_secrets({"a": 1, "b": 2}, ("b", "c")) == {"a": 1, "b": "***"}
