"""What is known about a server by its address."""

from __future__ import annotations

import pytest

from treadle.errors import ConfigError
from treadle.providers.openai.dialect import dialect_of, host_of, is_local


def test_openai_is_known() -> None:
    """Its token field, its cache key, its short call IDs."""
    dialect = dialect_of("https://api.openai.com/v1")
    assert (dialect.provider, dialect.host) == ("openai", "api.openai.com")
    assert (dialect.max_tokens_field, dialect.call_ids) == ("max_completion_tokens", "short")
    assert dialect.cache_key
    assert dialect.native_output
    assert dialect_of("https://eu.api.openai.com/v1").cache_key


def test_azure_takes_its_key_in_a_header_of_its_own() -> None:
    """And has no cache key."""
    dialect = dialect_of("https://x.openai.azure.com/openai/deployments/d")
    assert (dialect.provider, dialect.key_header, dialect.cache_key) == ("azure", "api-key", False)
    assert dialect.max_tokens_field == "max_completion_tokens"


def test_an_unknown_server_is_plain() -> None:
    """Named by its host; it is asked for nothing that it may not have."""
    dialect = dialect_of("http://LOCALHOST:8000/v1")
    assert (dialect.provider, dialect.host) == ("localhost:8000", "localhost:8000")
    assert dialect.max_tokens_field == "max_tokens"
    assert (dialect.cache_key, dialect.native_output) == (False, False)
    assert dialect_of("https://api.openai.com.evil.example/v1").provider != "openai"


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "google"),
    ],
)
def test_known_servers_have_names(url: str, provider: str) -> None:
    """Errors and profiles say them."""
    assert dialect_of(url).provider == provider


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x/v1", "http://", "http://x:port/", "/v1", "http://[::1"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    """With the value, and how one looks."""
    with pytest.raises(ConfigError, match="base_url"):
        host_of(url)


def test_a_password_in_the_address_is_refused() -> None:
    """It would be in every message; the message says where it belongs and does not repeat it."""
    with pytest.raises(ConfigError, match="headers=") as caught:
        host_of("https://me:hunter2@x/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.5/v1", True),
        ("http://10.0.0.1/v1", True),
        ("http://vllm:8000/v1", True),
        ("http://gpu.local/v1", True),
        ("http://host.docker.internal/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_local_servers_are_recognised(url: str, local: bool) -> None:
    """This machine and private networks."""
    assert is_local(url) is local
