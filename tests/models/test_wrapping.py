"""What wrappers see of the model that is in them, and what is shown of them."""

from __future__ import annotations

from types import MappingProxyType

from msgspec.structs import replace

from treadle import Message, ModelRequest, ModelSettings
from treadle.messages import Thread
from treadle.models import Cache, Fallback, RateLimit
from treadle.models.cache import key_of
from treadle.ports.model import ModelProfile
from treadle.testing import ScriptedModel

HELLO = ModelRequest(messages=Thread([Message.user("Hello")]))


class Short(ScriptedModel):
    """A model that says in a word what it is."""

    def __repr__(self) -> str:
        return "Short()"


def test_the_models_own_settings_are_seen() -> None:
    """As if the request had brought them, which overrules them; a deadline of its own is not."""
    cool = ModelSettings(temperature=0.5, extra_headers=MappingProxyType({"x-a": "1"}))
    plain = ModelProfile(provider="p", name="m")
    own = replace(plain, settings=cool)

    assert key_of(HELLO, own) != key_of(HELLO, plain)
    assert key_of(HELLO, own) == key_of(replace(HELLO, settings=cool), plain)
    warm = replace(HELLO, settings=replace(cool, temperature=1))
    assert key_of(warm, own) == key_of(warm, plain)
    slow = replace(plain, settings=ModelSettings(timeout=9))
    assert key_of(HELLO, slow) == key_of(HELLO, plain)


def test_what_is_shown() -> None:
    """The model and the bounds, and neither replies nor locks."""
    model = Short([])
    assert repr(Cache(model)) == "Cache(Short())"
    assert repr(Fallback(model, Cache(model))) == "Fallback(Short(), Cache(Short()))"
    assert repr(RateLimit(model, rpm=5, concurrency=2)) == (
        "RateLimit(Short(), rpm=5, concurrency=2)"
    )
