"""How vendors put a request before their models: what stands around messages, tools and thoughts.

The figures are what their own counts showed for short requests, where hardly anything else is
counted; a model that differs is told from its own counts (`models.calibration`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from treadle.ports.model import PLAIN_PROFILE, ModelProfile

Vendor = Literal["openai", "anthropic", "google", "other"]


class Habits(Struct, frozen=True, kw_only=True):
    """What a vendor adds, in tokens, and what it leaves out.

    `with_tools` comes once with any tool, `tool` and `schema` with each: schemas are rewritten, so
    `schema` is the share of their JSON that is counted. `with_output` and `output` say the same of
    the schema of an answer, `thought` of what the model thought. `proof` is for a character of the
    opaque texts that stand for thoughts. `name` is the model's.
    """

    vendor: Vendor = "other"
    name: str = ""
    request: int = 1
    message: int = 4
    call: int = 8
    result: int = 8
    with_tools: int = 20
    tool: int = 4
    schema: float = 1.0
    with_output: int = 0
    output: float = 0.3
    thought: float = 0.5
    proof: float = 0.0


_HABITS: tuple[tuple[re.Pattern[str], Habits], ...] = (
    (
        re.compile(r"claude"),
        Habits(
            vendor="anthropic",
            request=4,
            call=32,
            result=32,
            with_tools=440,
            tool=10,
            with_output=135,
            output=0.5,
        ),
    ),
    (
        re.compile(r"gemini|gemma"),
        Habits(
            vendor="google",
            request=1,
            message=0,
            call=10,
            result=6,
            with_tools=0,
            tool=-2,
            schema=0.9,
            output=0.0,
            proof=0.21,
        ),
    ),
    (
        re.compile(r"(^|[/.:])(gpt-oss)"),
        Habits(request=65),  # what its own instructions take
    ),
    (
        re.compile(r"(^|[/.:])(gpt|chatgpt|codex|computer-use|o\d)"),
        Habits(
            vendor="openai",
            request=4,
            message=3,
            with_tools=12,
            tool=-16,  # what is left out of the JSON of each
            schema=0.72,
            with_output=8,
            output=0.5,
            thought=0.0,  # summaries are not sent to the model
            proof=0.08,
        ),
    ),
)
"""By what is in a model's name, which says more than the server that passes requests on to it."""
_VENDORS = {"anthropic": "claude", "google": "gemini", "openai": "gpt", "azure": "gpt"}
"""What stands for a model whose name says nothing."""
_OTHER = Habits()


def habits_of(profile: ModelProfile = PLAIN_PROFILE) -> Habits:
    """Return how the vendor of a model puts requests before it; the same object each time."""
    return _habits(profile.name.lower(), profile.provider)


@lru_cache(maxsize=256)
def _habits(name: str, provider: str) -> Habits:
    for wanted in (name, _VENDORS.get(provider, "")):
        for pattern, habits in _HABITS:
            if pattern.search(wanted):
                silent = provider == "vertex" or "gemini-2" in name  # they do not count proofs
                proof = 0.0 if silent else habits.proof
                return replace(habits, name=name, proof=proof)
    return replace(_OTHER, name=name)
