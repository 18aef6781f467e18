"""Windows and prices of common models, and what follows from them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from treadle import Agent, ConfigError, Limits, Price, Usage
from treadle.ports.model import ModelProfile
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
from treadle.providers.prices import AS_OF, TABLE, known, priced


class Answering:
    """A transport that answers with one reply that used this much."""

    def __init__(self, **usage: Any) -> None:
        self.sent: list[HttpRequest] = []
        choice = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        self.body = json.dumps({"choices": [choice], "usage": usage}).encode()
        self.status = 200
        self.headers = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Answering:
        self.sent.append(request)
        return self

    async def read(self) -> bytes:
        return self.body

    def pieces(self) -> Any:
        raise AssertionError

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("provider", "name", "same"),
    [
        ("openai", "gpt-5.2-2025-12-11", "gpt-5.2"),
        ("openai", "GPT-5.2", "gpt-5.2"),
        ("openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-5-latest", "claude-opus-4-5"),
        ("google", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("google", "gemini-flash-latest", "gemini-flash-latest"),
        ("google", "gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("google", "models/gemini-2.5-flash-lite-001", "gemini-2.5-flash-lite"),
        ("groq", "openai/gpt-oss-120b", "openai/gpt-oss-120b"),
    ],
)
def test_names_with_a_date_are_found(provider: str, name: str, same: str) -> None:
    """They cost what the model does that they are a version of."""
    assert known(provider, name) is TABLE[provider][same]


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-5.2-chat"),
        ("openai", "gpt-5.2-chat-latest"),
        ("openai", "o3-mini"),
        ("openai", "gpt-4.1-nano"),
        ("google", "gemini-2.5-flash-1001"),
        ("openai", "gpt-5.2-mini"),
        ("openai", "ft:gpt-4o:acme::1"),
        ("openai", "claude-sonnet-5"),
        ("nobody", "gpt-5.2"),
        ("openai", ""),
    ],
)
def test_others_are_not_known(provider: str, name: str) -> None:
    """A name that looks alike may cost anything."""
    assert known(provider, name) is None


def test_the_table_is_plausible() -> None:
    """Reading from a cache is cheaper, long requests are dearer, and windows are real."""
    assert AS_OF.year >= 2026
    for models in TABLE.values():
        for name, each in models.items():
            price = each.price
            assert name == name.lower()
            assert 0 < price.input <= price.output, name
            assert price.cache_read is None or price.cache_read < price.input, name
            assert price.long is None or price.long.input > price.input, name
            assert 100_000 <= (each.window or 0) < 2_000_000, name
            assert 4_096 <= (each.max_output or 4_096) <= 1_048_576, name


def test_a_profile_gets_what_it_has_not() -> None:
    """What the user gave stays."""
    own = Price(input=1, output=1)
    profile = ModelProfile(provider="openai", name="gpt-4.1", price=own, max_output=5)

    filled = priced(profile)

    assert (filled.price, filled.window, filled.max_output) == (own, 1_047_576, 5)
    assert priced(ModelProfile()) == ModelProfile()


def test_a_client_knows_its_models_price() -> None:
    """On the vendor's own server only: others may charge anything."""
    profile = OpenAI("gpt-5.2").profile
    assert profile.price == Price(input=1.75, output=14, cache_read=0.175)
    assert (profile.window, profile.max_output) == (272_000, 128_000)
    assert OpenAI("gpt-5.2", window=9_000).profile.window == 9_000
    assert OpenAI("gpt-5.2", price=Price(input=9, output=9)).profile.price == Price(
        input=9, output=9
    )
    for elsewhere in ("https://eu.api.openai.com/v1", "http://localhost:1/v1", "https://x.example"):
        assert OpenAI("gpt-5.2", base_url=elsewhere).profile.price is None
    assert OpenAI("grok-4.5", base_url="https://api.x.ai/v1").profile.price is not None
    assert OpenAI("grok-4.5", server="xai", base_url="http://localhost:1").profile.price is None


async def test_a_run_costs_what_the_vendor_lists() -> None:
    """Cached tokens at their own price, without anything set."""
    transport = Answering(
        prompt_tokens=1_000_000,
        completion_tokens=100_000,
        prompt_tokens_details={"cached_tokens": 400_000},
    )
    model = OpenAI("gpt-5.2", api_key="k", transport=transport)

    usage = (await Agent("a", model).run("x")).usage

    assert usage == Usage(
        1_000_000, 400_000, output_tokens=100_000, requests=1, cost=Decimal("2.52")
    )


async def test_a_cost_limit_holds_before_the_call() -> None:
    """By the listed price: the output is capped to what is left, or the call is not made."""
    transport = Answering(prompt_tokens=10, completion_tokens=10)
    agent = Agent("a", OpenAI("gpt-5.2", api_key="k", transport=transport))

    small = await agent.run("x", limits=Limits(max_cost=Decimal("0.01")))
    none = await agent.run("x", limits=Limits(max_cost=Decimal("0.00001")))

    assert (small.stop_reason, none.stop_reason) == ("answer", "budget")
    (sent,) = transport.sent
    allowed = json.loads(sent.body)["max_completion_tokens"]
    assert 600 < allowed <= 714  # one cent buys 714 tokens of output


async def test_a_cost_limit_without_a_price_is_refused() -> None:
    """With the model's name, and what to give."""
    transport = Answering()
    model = OpenAI("mystery", api_key="k", transport=transport)

    with pytest.raises(ConfigError, match=r"'mystery' has no price; .*price=Price\("):
        await Agent("a", model).run("x", limits=Limits(max_cost=Decimal(1)))
    assert transport.sent == []
