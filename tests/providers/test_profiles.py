"""What all clients say of their models: whose, where, at what price, with which settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from treadle import Agent, ConfigError, Limits, ModelSettings, Price, tool
from treadle.models import Cache, Fallback
from treadle.ports.model import PromptCache, profile_of
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.providers.local.model import Local

LONG = Price(input=1, output=1, cache_write=2, cache_write_long=4)
Made = Callable[..., Any]
CHAT: Any = {
    "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}
SAID: Any = {"type": "output_text", "text": "hi", "annotations": []}
RESPONSES: Any = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [SAID]}],
}
MESSAGES: Any = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
}
GENERATED: Any = {
    "candidates": [
        {"content": {"parts": [{"text": "hi"}], "role": "model"}, "finishReason": "STOP"}
    ]
}


class Replying:
    """A transport that answers the same each time, and keeps what it was sent."""

    def __init__(self, body: Any) -> None:
        self.sent: list[Any] = []
        self.body = json.dumps(body).encode()
        self.status = 200
        self.headers = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Replying:
        self.sent.append(json.loads(request.body))
        return self

    async def read(self) -> bytes:
        return self.body

    def pieces(self) -> Any:
        raise AssertionError

    async def close(self) -> None:
        pass


@tool
def look(city: str) -> str:
    """Look at a city."""
    return city


CLIENTS: list[tuple[Made, Any, dict[str, Any]]] = [
    (
        partial(OpenAI, "gpt-5.2", base_url="https://api.openai.com/v1"),
        CHAT,
        {"type": "web_search"},
    ),
    (
        partial(OpenAIResponses, "gpt-5.2", base_url="https://api.openai.com/v1"),
        RESPONSES,
        {"type": "web_search"},
    ),
    (
        partial(Anthropic, "claude-sonnet-4-6", base_url="https://api.anthropic.com"),
        MESSAGES,
        {"type": "web_search_20250305", "name": "web_search"},
    ),
    (
        partial(
            Gemini,
            "gemini-3-flash-preview",
            base_url="https://generativelanguage.googleapis.com/v1beta",
        ),
        GENERATED,
        {"googleSearch": {}},
    ),
]
HOSTING = CLIENTS[1:]


def _offered(body: Any) -> list[Any]:
    """Return the tools of a request, without marks of the prompt cache."""
    tools = body.get("tools", [])
    return [{name: tool[name] for name in tool if name != "cache_control"} for tool in tools]


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
async def test_tools_in_extra_body_are_added(made: Made, answer: Any, search: Any) -> None:
    """To the agent's own, once each, and alone where it has none; an empty list takes all away."""
    transport = Replying(answer)
    model = made(api_key="k", transport=transport)
    agent = Agent("a", model, tools=[look])

    await agent.run("x")
    await agent.run("x", settings=ModelSettings(extra_body={"tools": [search, search]}))
    await Agent("b", model, settings=ModelSettings(extra_body={"tools": [search]})).run("x")
    await agent.run("x", settings=ModelSettings(extra_body={"tools": []}))

    own, both, alone, none = map(_offered, transport.sent)
    assert len(own) == 1
    assert (both, alone) == ([*own, search], [search])
    assert not none


@pytest.mark.parametrize(("made", "answer", "search"), HOSTING)
async def test_hosted_tools_are_offered_with_every_request(
    made: Made, answer: Any, search: Any
) -> None:
    """Beside the agent's own and those in `extra_body`; a tool that is in both is offered once."""
    transport = Replying(answer)
    model = made(api_key="k", transport=transport, hosted_tools=[search])
    other = {**search, "name": "other"}

    await Agent("a", model).run("x")
    await Agent("a", model, tools=[look]).run("x")
    settings = ModelSettings(extra_body={"tools": [search, other]})
    await Agent("a", model, tools=[look], settings=settings).run("x")

    alone, both, added = map(_offered, transport.sent)
    assert alone == [search]
    assert (len(both), both[1:], added[1:]) == (2, [search], [search, other])


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
def test_an_identity_tells_models_apart(made: Made, answer: Any, search: Any) -> None:
    """By protocol, address and whatever else changes a request; it holds no secret."""
    plain = profile_of(made()).identity
    others = [
        made(base_url="http://localhost:1/v1"),
        made(base_url="http://localhost:1/v2"),
        made(base_url="http://localhost:1/v2?version=3"),
        made(headers={"x-route": "b"}),
        made(query={"version": "2"}),
        made(vision=False),
        made(native_output=False),
    ]
    if made is not CLIENTS[0][0]:
        others.append(made(hosted_tools=[search]))
    found = [plain, *(profile_of(other).identity for other in others)]
    secret = [
        made(api_key="sesame"),
        made(headers={"Authorization": "sesame", "X-Api-Key": "sesame"}),
        made(query={"key": "sesame", "access_token": "sesame"}),
    ]

    assert len(set(found)) == len(found)
    assert {profile_of(each).identity for each in secret} == {plain}
    assert profile_of(made()).identity == plain
    assert len({profile_of(each()).identity for each, _, _ in CLIENTS}) == len(CLIENTS)


def test_local_models_are_told_apart() -> None:
    """By file, window and how they call tools."""
    models = [
        Local("smollm2-135m"),
        Local("smollm2-135m", context=512),
        Local("smollm2-135m", tool_calls="native"),
        Local("a/x.gguf"),
        Local("b/x.gguf"),
    ]
    assert len({each.profile.identity for each in models}) == len(models)
    assert Local("smollm2-135m", threads=2).profile.identity == models[0].profile.identity


@pytest.mark.parametrize(("made", "answer", "search"), HOSTING)
async def test_a_cache_keeps_models_of_one_name_apart(made: Made, answer: Any, search: Any) -> None:
    """Two models in one store: one that searches, one that does not, one with settings."""
    transport = Replying(answer)
    first = Cache(made(api_key="k", transport=transport))
    settings = ModelSettings(max_output_tokens=9)
    same = Cache(made(api_key="other", transport=transport), first.store)
    others = [
        Cache(made(api_key="k", transport=transport, **options), first.store)
        for options in ({"hosted_tools": [search]}, {"settings": settings})
    ]

    for each in (first, same, *others, *others):
        await Agent("a", each).run("x")

    assert len(transport.sent) == 3


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
async def test_a_models_own_settings_hold_in_a_budget(made: Made, answer: Any, search: Any) -> None:
    """What it may say at most is not raised, and is what is set aside."""
    transport = Replying(answer)
    settings = ModelSettings(max_output_tokens=500)
    model = made(api_key="k", transport=transport, settings=settings, price=LONG)
    limits = Limits(max_cost=Decimal(1))

    await Agent("a", model, limits=limits).run("x")
    await Agent("a", Fallback(model, made(api_key="k", price=LONG)), limits=limits).run("x")
    await Agent("a", model, limits=limits, settings=ModelSettings(max_output_tokens=600)).run("x")

    assert model.profile.settings is settings
    assert [_longest(sent) for sent in transport.sent] == [500, 500, 600]


def _longest(body: Any) -> int:
    fields = {**body, **body.get("generationConfig", {})}
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens")
    return next(fields[name] for name in names if name in fields)


@pytest.mark.parametrize(
    ("model", "long"),
    [
        (OpenAI("gpt-5.2", base_url="https://api.openai.com/v1", price=LONG), True),
        (OpenAI("gpt-5.6", base_url="https://api.openai.com/v1", price=LONG), False),
        (OpenAI("gpt-5.2", base_url="http://localhost:1/v1", price=LONG), False),
        (OpenAIResponses("gpt-5.6", base_url="https://api.openai.com/v1", price=LONG), True),
        (OpenAIResponses("gpt-5.6", base_url="http://localhost:1/v1", price=LONG), False),
        (Anthropic("claude-sonnet-4-6", base_url="http://localhost:1", price=LONG), True),
        (Gemini("gemini-3-flash-preview", price=LONG), False),
    ],
)
def test_a_prompt_that_cannot_be_kept_long_is_not_priced_so(model: Any, long: bool) -> None:
    """Where nothing is sent for it."""
    kept = profile_of(model).price
    assert kept is not None
    assert kept.kept("long").cache_write == (4 if long else 2)
    assert kept.kept("short").cache_write == 2


@pytest.mark.parametrize(
    "model",
    [
        Anthropic("claude-sonnet-4-6", base_url="https://eu.anthropic.com"),
        Anthropic("claude-sonnet-4-6", base_url="https://x.services.ai.azure.com/anthropic"),
        Anthropic("claude-sonnet-4-6", base_url="https://bedrock-runtime.eu.amazonaws.com"),
        Anthropic("claude-sonnet-4-6", base_url="https://europe-aiplatform.googleapis.com/v1"),
        OpenAI("gpt-5.2", base_url="https://x.openai.azure.com/openai/v1"),
        OpenAI("gpt-5.2", server="openai", base_url="https://x.example/v1"),
        OpenAIResponses("gpt-5.2", base_url="https://x.openai.azure.com/openai/v1"),
        OpenAIResponses("gpt-5.2", base_url="https://bedrock-mantle.eu.api.aws/openai/v1"),
        Gemini("gemini-3-flash-preview", base_url="https://aiplatform.googleapis.com/v1"),
    ],
)
async def test_a_cloud_has_prices_of_its_own(model: Any) -> None:
    """And windows: only the vendor's own server has what the vendor lists."""
    profile = profile_of(model)
    assert (profile.price, profile.window) == (None, None)
    with pytest.raises(ConfigError, match=r"has no price; .*price=Price\("):
        await Agent("a", model, limits=Limits(max_cost=Decimal(1))).run("x")


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
def test_the_vendor_has_listed_prices(made: Made, answer: Any, search: Any) -> None:
    """The window, too."""
    profile = profile_of(made())
    assert profile.price is not None
    assert profile.window is not None


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
async def test_a_missing_key_is_told_and_no_other_model_is_asked(
    made: Made, answer: Any, search: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for the user to mend; the error names the model that wants it."""
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    transport = Replying(answer)
    model = made()

    with pytest.raises(ConfigError, match=rf"No key for .*, model '{model.model}'"):
        await Agent("a", Fallback(model, made(api_key="k", transport=transport))).run("x")

    assert transport.sent == []


@pytest.mark.parametrize(("made", "answer", "search"), CLIENTS)
def test_wrappers_are_shown_in_short(made: Made, answer: Any, search: Any) -> None:
    """By the model that is in them."""
    model = made(api_key="sesame")
    assert repr(Cache(model)) == f"Cache({model!r})"
    assert repr(Fallback(model, model)) == f"Fallback({model!r}, {model!r})"


@pytest.mark.parametrize(
    ("model", "base_url", "kept", "fields"),
    [
        ("gpt-5.2", "https://api.openai.com/v1", "long", {"prompt_cache_retention": "24h"}),
        ("gpt-5.2", "https://eu.api.openai.com/v1", "long", {"prompt_cache_retention": "24h"}),
        ("gpt-5.2", "https://api.openai.com/v1", "short", {}),
        ("gpt-5.2", "https://api.openai.com/v1", "off", {}),
        ("gpt-5.6", "https://api.openai.com/v1", "long", {}),  # half an hour is all there is
        (
            "gpt-5.6",
            "https://api.openai.com/v1",
            "off",
            {"prompt_cache_options": {"mode": "explicit"}},
        ),
        ("gpt-5.2", "https://x.openai.azure.com/openai/v1", "long", {}),
        ("gpt-5.2", "http://localhost:1/v1", "long", {}),
    ],
)
async def test_chat_completions_are_told_how_long_to_keep_a_prompt(
    model: str, base_url: str, kept: PromptCache, fields: Any
) -> None:
    """Where the server knows a field for that, and in those of its protocol."""
    transport = Replying(CHAT)
    settings = ModelSettings(prompt_cache=kept)
    made = OpenAI(model, base_url=base_url, api_key="k", transport=transport, settings=settings)

    await Agent("a", made).run("x")

    (sent,) = transport.sent
    names = ("prompt_cache_retention", "prompt_cache_options")
    assert {name: sent[name] for name in names if name in sent} == fields
