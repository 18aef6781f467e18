"""What an address says, and where requests to it go."""

from __future__ import annotations

import pytest

from treadle.errors import ConfigError, ModelError
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.providers._address import address_of_server, host_of, is_local
from treadle.providers._http import HttpTransport


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8000", "ftp://x/v1", "http://", "http://x:port/", "/v1", "http://[::1"),
        *("http://a b/v1", "http://.../v1", "http://xn--/v1", "http://256.1.1.1/v1", "http://1.2"),
        *(f"http://{'a' * 64}.test", f"http://{'a.' * 130}test", "http://a\nb/v1", "http://a\\b"),
        *("http://\ud83d/v1", "http://\u00ad/v1", "http://x:99999/v1", "http://-a/v1"),
    ],
)
def test_what_is_no_address_is_said(url: str) -> None:
    """With the value, and how one looks."""
    with pytest.raises(ConfigError, match="base_url"):
        address_of_server(url)


@pytest.mark.parametrize("client", [OpenAI, OpenAIResponses, Anthropic, Gemini])
@pytest.mark.parametrize("url", ["http://a b/v1", "http://\ud83d/v1", "http://x:port/"])
def test_every_client_says_so_when_it_is_made(client: type[OpenAI], url: str) -> None:
    """Not at the first request."""
    with pytest.raises(ConfigError, match="base_url"):
        client("m", base_url=url)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("http://ex\u00e4mple.test/v1", "http://xn--exmple-cua.test/v1"),
        ("http://stra\u00dfe.de:80/v1?x=1", "http://xn--strae-oqa.de:80/v1?x=1"),
        ("https://\u4f8b\u3048.jp", "https://xn--r8jz45g.jp"),
        (" http://h:1/\u00fc/a%20b?x=y z#frag ", "http://h:1/%C3%BC/a%20b?x=y%20z"),
        ("http://h/\ud83d", "http://h/%EF%BF%BD"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://[fe80::1%25eth0]/v1", "http://[fe80::1%25eth0]/v1"),
        ("http://my_host-1.:1/v1", "http://my_host-1.:1/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/"),
    ],
)
def test_an_address_is_sent_in_ascii(given: str, sent: str) -> None:
    """Hosts of any script, and what else no request line can hold."""
    assert address_of_server(given) == sent


@pytest.mark.parametrize("client", [OpenAI, OpenAIResponses, Anthropic, Gemini])
def test_every_client_finds_hosts_of_any_script(client: type[OpenAI]) -> None:
    """Under the name that the network knows."""
    model = client("m", base_url="http://ex\u00e4mple.test/v1")
    assert repr(model).endswith("('m', base_url='http://xn--exmple-cua.test/v1')")


def test_a_password_in_the_address_is_refused() -> None:
    """It would be in every message; the message says where it belongs and does not repeat it."""
    with pytest.raises(ConfigError, match="headers=") as caught:
        host_of("https://me:hunter2@x/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://me:hunter2@x/v1", "http://me:hunter2@x:port/v1", "http://me:hunt/hunter2@x:port"),
        *("http://hunter2:port@x:y", "ftp://x/hunter2", "http://x:port/v1?key=hunter2"),
        *("me:hunter2@x", "http://a b/hunter2", "http://\ud83d/hunter2", "http://[::1?key=hunter2"),
    ],
)
def test_a_bad_address_is_shown_without_what_may_be_secret(url: str) -> None:
    """Its password, its path and its query; and nothing in the error that it comes from."""
    with pytest.raises(ConfigError) as caught:
        address_of_server(url)
    for error in (caught.value, caught.value.__cause__, caught.value.__context__):
        assert "hunt" not in str(error)


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


@pytest.mark.parametrize(
    "address", ["http://ex\u00e4mple.invalid/", "http://xn--/", "http://\ud83d/", "http://.../"]
)
async def test_an_address_that_cannot_be_decoded_is_no_crash(address: str) -> None:
    """What is said of a failure never fails itself."""
    with pytest.raises(ModelError, match=r"cannot be sent|Cannot reach"):
        await HttpTransport().send(HttpRequest("POST", address, {}, b"{}"))


@pytest.mark.parametrize("place", ["ftp://127.0.0.1/x", "http:///x"])
async def test_an_address_is_not_repeated_in_its_error(place: str) -> None:
    """Its query may hold a key."""
    with pytest.raises(ModelError) as caught:
        await HttpTransport().send(HttpRequest("POST", f"{place}?api_key=hunter2", {}, b"{}"))
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
