"""Windows and prices of common models, as their vendors listed them on the day `AS_OF`.

Sources, all read on that day from copies that were some days old:

* OpenAI: https://developers.openai.com/api/docs/pricing
* Anthropic: https://platform.claude.com/docs/en/about-claude/pricing
* Google: https://ai.google.dev/gemini-api/docs/pricing
* Mistral: https://docs.mistral.ai/models and https://mistral.ai/pricing
* DeepSeek: https://api-docs.deepseek.com/quick_start/pricing
* Groq: https://console.groq.com/docs/models
* xAI: https://api.x.ai/v1/language-models
* most of them as collected in LiteLLM 1.110.2, `model_prices_and_context_window.json`

Prices are US dollars for a million tokens on the standard tier: no batch, priority, flex or
regional rates, and no fees of hosted tools.
Gemini 3.6 to 3.8 Flash are at the price that Google announced until the end of 2026; from 2027 on
they cost twice as much. Models that a vendor had switched off by that day are left out.

Where this table is wrong or old, give a model `price=Price(...)`.
"""

from __future__ import annotations

import re
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from treadle.ports.model import ModelProfile
from treadle.usage import Price

AS_OF = date(2026, 11, 30)


class Known(Struct, frozen=True):
    """What a vendor says of a model: its price, and how many tokens a request and a reply may have.

    `window` is the bound on input; where input and output share one, it is the whole.
    """

    price: Price
    window: int | None = None
    max_output: int | None = None


def known(provider: str, model: str) -> Known | None:
    """Return what is known of a provider's model, or None.

    A name is looked up as it is, then without the prefix "models/", and then without a date, a
    number such as "001" or "latest" at its end: "claude-sonnet-4-5-20250929", "gpt-5.2-2025-12-11"
    and "gemini-2.5-flash-001" are found.
    """
    models = TABLE.get(provider, {})
    name = model.lower().removeprefix("models/")
    return models.get(name) or models.get(_DATED.sub("", name))


def priced(profile: ModelProfile, *, listed: bool = True, keeps_long: bool = True) -> ModelProfile:
    """Return a profile with price, window and longest reply from the table where it has none.

    They only hold where the vendor's list does, on its own server: `listed`. Where no prompt is
    kept long on request, `keeps_long=False`, the price has nothing for that.
    """
    found = known(profile.provider, profile.name) if listed else None
    if found is not None:
        profile = replace(
            profile,
            price=found.price if profile.price is None else profile.price,
            window=found.window if profile.window is None else profile.window,
            max_output=found.max_output if profile.max_output is None else profile.max_output,
        )
    if keeps_long or profile.price is None:
        return profile
    return replace(profile, price=_short(profile.price))


def _short(price: Price) -> Price:
    """Return a price without what writing to a cache that lasts costs."""
    long = None if price.long is None else _short(price.long)
    return replace(price, cache_write_long=None, long=long)


_DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|00\d|latest)$")

Rates = tuple[float, ...]
"""Input, output, and where there are such prices: reading from the cache, writing to it, and
writing to one that lasts."""


def _price(rates: Rates, above: int | None = None, long: Rates | None = None) -> Price:
    named = dict(
        zip(
            ("input", "output", "cache_read", "cache_write", "cache_write_long"),
            rates,
            strict=False,
        )
    )
    return Price(**named, long_above=above, long=None if long is None else _price(long))


def _openai(rates: Rates, long: Rates, *, lasting: bool = True) -> Known:
    """Return a model of 1,050,000 tokens, 128,000 of them for the reply.

    Writing to a cache that lasts costs twice as much as to the other one, where there are two.
    """
    if lasting and len(rates) == 4:
        rates, long = (*rates, 2 * rates[3]), (*long, 2 * long[3])
    return Known(_price(rates, 272_000, long), 922_000, 128_000)


def _gpt5(*rates: float) -> Known:
    """Return a model of 400,000 tokens, 128,000 of them for the reply."""
    return Known(_price(rates), 272_000, 128_000)


def _claude(*rates: float, window: int = 1_000_000, max_output: int = 128_000) -> Known:
    """Return a model whose cache of an hour costs twice the input to write."""
    return Known(_price((*rates, 2 * rates[0])), window, max_output)


def _gemini(*rates: float, long: Rates | None = None, max_output: int = 65_536) -> Known:
    return Known(_price(rates, 200_000 if long else None, long), 1_048_576, max_output)


def _plain(window: int, *rates: float, max_output: int | None = None) -> Known:
    return Known(_price(rates), window, max_output)


def _grok(window: int, *rates: float) -> Known:
    """Return a model that costs twice as much above 200,000 tokens."""
    return Known(_price(rates, 200_000, tuple(2 * rate for rate in rates)), window)


_OPENAI = {
    "gpt-6.2-astra": _openai((8, 40, 0.4, 10), (16, 60, 0.8, 20), lasting=False),
    "gpt-6.2-sol": _openai((2, 10, 0.1, 2.5), (4, 15, 0.2, 5), lasting=False),
    "gpt-6.1-sol": _openai((2, 10, 0.1, 2.5), (4, 15, 0.2, 5)),
    "gpt-6.1-terra": _openai((1, 5, 0.05, 1.25), (2, 7.5, 0.1, 2.5)),
    "gpt-6-astra": _openai((10, 50, 1, 12.5), (20, 75, 2, 25)),
    "gpt-6-sol": _openai((2, 10, 0.2, 2.5), (4, 15, 0.4, 5)),
    "gpt-6-luna": _openai((0.1, 0.5, 0.01, 0.125), (0.2, 0.75, 0.02, 0.25)),
    "gpt-5.6": _openai((4, 20, 0.4, 5), (8, 30, 0.8, 10)),
    "gpt-5.6-sol": _openai((4, 20, 0.4, 5), (8, 30, 0.8, 10)),
    "gpt-5.6-terra": _openai((2, 12, 0.2, 2.5), (4, 18, 0.4, 5)),
    "gpt-5.6-luna": _openai((0.2, 1.2, 0.02, 0.25), (0.4, 1.8, 0.04, 0.5)),
    "gpt-5.5": _openai((5, 30, 0.5), (10, 45, 1)),
    "gpt-5.5-pro": _openai((30, 180), (60, 270)),
    "gpt-5.4": _openai((2.5, 15, 0.25), (5, 22.5, 0.5)),
    "gpt-5.4-pro": _openai((30, 180), (60, 270)),
    "gpt-5.4-mini": _gpt5(0.75, 4.5, 0.075),
    "gpt-5.4-nano": _gpt5(0.2, 1.25, 0.02),
    "gpt-5.3-codex": _gpt5(1.75, 14, 0.175),
    "gpt-5.2": _gpt5(1.75, 14, 0.175),
    "gpt-5.2-pro": _gpt5(21, 168),
    "gpt-5.1": _gpt5(1.25, 10, 0.125),
    "gpt-5": _gpt5(1.25, 10, 0.125),
    "gpt-5-mini": _gpt5(0.25, 2, 0.025),
    "gpt-5-nano": _gpt5(0.05, 0.4, 0.005),
    "gpt-4.1": _plain(1_047_576, 2, 8, 0.5, max_output=32_768),
    "gpt-4.1-mini": _plain(1_047_576, 0.4, 1.6, 0.1, max_output=32_768),
    "gpt-4o": _plain(128_000, 2.5, 10, 1.25, max_output=16_384),
    "gpt-4o-mini": _plain(128_000, 0.15, 0.6, 0.075, max_output=16_384),
    "o3": _plain(200_000, 2, 8, 0.5, max_output=100_000),
    "o3-pro": _plain(200_000, 20, 80, max_output=100_000),
}
_ANTHROPIC = {
    "claude-fable-5-1": _claude(10, 50, 0.25, 12.5),
    "claude-fable-5": _claude(10, 50, 1, 12.5),
    "claude-mythos-5-1": _claude(10, 50, 0.25, 12.5),
    "claude-mythos-5": _claude(10, 50, 1, 12.5),
    "claude-opus-5-5": _claude(4, 20, 0.2, 5),
    "claude-opus-5": _claude(5, 25, 0.5, 6.25),
    "claude-opus-4-8": _claude(5, 25, 0.5, 6.25),
    "claude-opus-4-7": _claude(5, 25, 0.5, 6.25),
    "claude-opus-4-6": _claude(5, 25, 0.5, 6.25),
    "claude-opus-4-5": _claude(5, 25, 0.5, 6.25, window=200_000, max_output=64_000),
    "claude-sonnet-5-5": _claude(2, 10, 0.1, 2.5),
    "claude-sonnet-5": _claude(2, 10, 0.2, 2.5),
    "claude-sonnet-4-6": _claude(3, 15, 0.3, 3.75),
    "claude-sonnet-4-5": _claude(3, 15, 0.3, 3.75, window=200_000, max_output=64_000),
    "claude-haiku-5-5": Known(
        _price((0.1, 0.5, 0.01, 0.125, 0.2), 100_000, (0.5, 2.5, 0.05, 0.625, 1)),
        1_000_000,
        128_000,
    ),
    "claude-haiku-4-5": _claude(1, 5, 0.1, 1.25, window=200_000, max_output=64_000),
}
_PRO = _gemini(2, 12, 0.2, long=(4, 18, 0.4))
_GOOGLE = {
    "gemini-4-neon": _gemini(3, 15, 0.15),
    "gemini-4-argon": _gemini(2, 10, 0.1, max_output=1_048_576),
    "gemini-4-hydrogen": _gemini(1.5, 7.5, 0.075, max_output=1_048_576),
    "gemini-3.8-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.7-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.6-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.5-flash": _gemini(1.5, 9, 0.15),
    "gemini-3.5-flash-lite": _gemini(0.3, 2.5, 0.03),
    "gemini-3.1-pro-preview": _PRO,
    "gemini-3.1-pro-preview-customtools": _PRO,
    "gemini-3.1-flash-lite": _gemini(0.25, 1.5, 0.025),
    "gemini-3-flash-preview": _gemini(0.5, 3, 0.05),
    "gemini-2.5-pro": _gemini(1.25, 10, 0.125, long=(2.5, 15, 0.25)),
    "gemini-2.5-flash": _gemini(0.3, 2.5, 0.03),
    "gemini-2.5-flash-lite": _gemini(0.1, 0.4, 0.01),
    "gemini-pro-latest": _PRO,
    "gemini-flash-latest": _gemini(0.75, 3.75, 0.075),
    "gemini-flash-lite-latest": _gemini(0.3, 2.5, 0.03),
}
_LARGE = _plain(262_144, 0.5, 1.5, 0.05)
_MEDIUM = _plain(262_144, 1.5, 7.5, 0.15)
_SMALL = _plain(262_144, 0.15, 0.6, 0.015)
_MISTRAL = {
    "mistral-large-4-0": _plain(1_048_576, 0.7, 2.1, 0.07),
    "mistral-large-4": _plain(1_048_576, 0.7, 2.1, 0.07),
    "mistral-large-2512": _LARGE,
    "mistral-large-latest": _LARGE,
    "mistral-medium-3-5": _MEDIUM,
    "mistral-medium-2604": _MEDIUM,
    "mistral-medium-latest": _MEDIUM,
    "mistral-small-2603": _SMALL,
    "mistral-small-latest": _SMALL,
    "codestral-2508": _plain(128_000, 0.3, 0.9, 0.03),
    "codestral-latest": _plain(128_000, 0.3, 0.9, 0.03),
    "ministral-14b-2512": _plain(262_144, 0.2, 0.2, 0.02),
    "ministral-8b-2512": _plain(262_144, 0.15, 0.15, 0.015),
    "ministral-3b-2512": _plain(131_072, 0.1, 0.1, 0.01),
}
_DEEPSEEK = {
    "deepseek-v4-pro": _plain(1_000_000, 1.32, 3.96, 0.044, max_output=393_216),
    "deepseek-v4-flash": _plain(1_000_000, 0.3, 1.2, 0.006, max_output=393_216),
    "deepseek-flash": _plain(1_000_000, 0.3, 1.2, 0.006, max_output=393_216),
}
_GROQ = {
    "openai/gpt-oss-120b": _plain(131_072, 0.15, 0.6, 0.075, max_output=65_536),
    "openai/gpt-oss-20b": _plain(131_072, 0.075, 0.3, 0.0375, max_output=65_536),
    "qwen/qwen3.8-27b": _plain(131_072, 0.8, 4, max_output=16_384),
}
_XAI = {
    "grok-4.7": _grok(500_000, 2, 6, 0.5),
    "grok-4.6": _grok(500_000, 2, 6, 0.5),
    "grok-4.5": _grok(500_000, 2, 6, 0.3),
    "grok-4.3": _grok(1_000_000, 1.25, 2.5, 0.2),
    "grok-4.20": _grok(1_000_000, 1.25, 2.5, 0.2),
    "grok-build-0.1": _grok(256_000, 1, 2, 0.2),
}

TABLE: dict[str, dict[str, Known]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "google": _GOOGLE,
    "mistral": _MISTRAL,
    "deepseek": _DEEPSEEK,
    "groq": _GROQ,
    "xai": _XAI,
}
"""Known models by the provider's name and their own."""
