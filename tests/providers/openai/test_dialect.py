"""What is known about a server by its address."""

from __future__ import annotations

import pytest

from treadle.providers.openai.dialect import dialect_of


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
