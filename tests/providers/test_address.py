"""What an address says, and where requests to it go."""

from __future__ import annotations

import pytest

from treadle.errors import ConfigError
from treadle.providers._address import host_of, is_local


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
