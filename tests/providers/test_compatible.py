"""Servers by name: where they are, with which key, and what they want."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

import pytest

from tests.providers.test_prices import Answering
from treadle import ConfigError, Message, MissingKey, ModelRequest
from treadle.messages import Thread
from treadle.models import resolve_model
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
from treadle.providers.openai.dialect import SERVERS, dialect_of

HELLO = ModelRequest(messages=Thread([Message.user("Hello")]))
VARIABLES = {
    "OPENAI_API_VERSION",
    *(name for server in SERVERS.values() for name in server.keys),
    *(server.url_variable for server in SERVERS.values() if server.url_variable),
}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of this machine is seen."""
    for name in VARIABLES & os.environ.keys():
        monkeypatch.delenv(name)


async def sent_by(server: str, model: str = "m", key: str | None = None) -> HttpRequest:
    """What a client of a named server sends."""
    transport = Answering()
    await OpenAI(model, server=server, transport=transport, api_key=key).complete(HELLO)
    return transport.sent[0]


def test_each_has_a_name_in_strings() -> None:
    """ "groq:llama" finds it, for all but those that have clients of their own."""
    installed = {each.name for each in entry_points(group="treadle.models")}
    assert set(SERVERS) - {"google"} <= installed

    for name in set(SERVERS) - {"google", "openai", "azure"}:
        model = resolve_model(f"{name}:some/model:tag")
        assert isinstance(model, OpenAI)
        assert (model.profile.provider, model.profile.name) == (name, "some/model:tag")
        assert repr(model) == f"OpenAI('some/model:tag', base_url={SERVERS[name].url!r})"


@pytest.mark.parametrize("name", [name for name in SERVERS if SERVERS[name].needs_key])
async def test_each_wants_its_own_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is never sent that of OpenAI."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    if name != "openai":
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with pytest.raises(MissingKey, match=SERVERS[name].keys[0]):
        await sent_by(name)

    monkeypatch.setenv(SERVERS[name].keys[0], "k-1")
    headers = (await sent_by(name)).headers
    shown = headers["api-key"] if name == "azure" else headers["authorization"]
    assert shown == ("k-1" if name == "azure" else "Bearer k-1")


@pytest.mark.parametrize("name", [name for name in SERVERS if not SERVERS[name].needs_key])
async def test_those_of_your_own_want_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent one where it is set, wherever they are, and never that of OpenAI."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    variable = SERVERS[name].url_variable
    assert variable is not None
    for place in (SERVERS[name].url, "https://gpu.example/v1"):
        monkeypatch.setenv(variable, place)
        request = await sent_by(name)
        assert request.url == f"{place}/chat/completions"
        assert "authorization" not in request.headers
        with monkeypatch.context() as patch:
            patch.setenv(SERVERS[name].keys[0], "k-2")
            assert (await sent_by(name)).headers["authorization"] == "Bearer k-2"


async def test_a_known_host_is_known_without_its_name() -> None:
    """A base URL says as much as the name, the key's variable too."""
    for name, server in SERVERS.items():
        if server.needs_key and server.url:
            assert dialect_of(server.url) == dialect_of(server.url, name)
            assert dialect_of(server.url).provider == name
    with pytest.raises(MissingKey, match="GROQ_API_KEY or pass"):
        await OpenAI("m", base_url="https://api.groq.com/openai/v1").complete(HELLO)


async def test_openais_key_goes_where_its_variable_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_BASE_URL and OPENAI_API_KEY belong together."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.groq.com/openai/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "gsk-here")
    transport = Answering()
    await OpenAI("m", transport=transport).complete(HELLO)
    assert transport.sent[0].headers["authorization"] == "Bearer gsk-here"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("gpu:9000", "http://gpu:9000/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),  # noqa: S104
        (":9000", "http://localhost:9000/v1"),
        ("http://gpu", "http://gpu/v1"),
        ("https://ollama.example/", "https://ollama.example/v1"),
        ("https://gate.example:8443/ollama/v1/", "https://gate.example:8443/ollama/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
        ("[::]", "http://localhost:11434/v1"),
    ],
)
async def test_where_ollama_is(given: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OLLAMA_HOST is read as Ollama itself does."""
    monkeypatch.setenv("OLLAMA_HOST", given)
    assert (await sent_by("ollama")).url == f"{place}/chat/completions"


async def test_where_ollama_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told with the variable."""
    monkeypatch.setenv("OLLAMA_HOST", "gpu:port")
    with pytest.raises(ConfigError, match="OLLAMA_HOST='gpu:port'"):
        OpenAI("m", server="ollama")


@pytest.mark.parametrize(
    ("endpoint", "version", "url"),
    [
        (
            "https://mine.openai.azure.com/",
            "",
            "https://mine.openai.azure.com/openai/v1/chat/completions",
        ),
        (
            "https://mine.openai.azure.com",
            "5",
            "https://mine.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=5",
        ),
        (
            "https://gate.example/openai/v1",
            "2025-04-01-preview",
            "https://gate.example/openai/v1/chat/completions",
        ),
    ],
)
async def test_where_azure_is(
    endpoint: str, version: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment is in the body, and in the address where a version is asked for."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
    monkeypatch.setenv("OPENAI_API_VERSION", version)
    request = await sent_by("azure", "my gpt", "k")
    assert request.url == url
    assert request.headers["api-key"] == "k"
    assert b'"model":"my gpt"' in request.body


def test_azure_without_an_address() -> None:
    """It says what to set."""
    with pytest.raises(ConfigError, match=r"Azure OpenAI.*AZURE_OPENAI_ENDPOINT"):
        resolve_model("azure:gpt")


def test_a_server_that_is_not_known() -> None:
    """The names of those that are."""
    with pytest.raises(ConfigError, match=r"server='gorq' is none of openai, azure, .*groq"):
        OpenAI("m", server="gorq")


def test_habits_go_by_name() -> None:
    """Also where a host says nothing."""
    vllm = OpenAI("m", server="vllm", base_url="http://10.0.0.5:8000/v1").profile
    assert (vllm.provider, vllm.native_output, vllm.native_output_with_tools) == (
        "vllm",
        True,
        False,
    )
