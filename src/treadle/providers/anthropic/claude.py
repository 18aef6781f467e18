"""What one Claude model takes, known from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Thinking = Literal["none", "budget", "adaptive"]
"""How a model is asked to think: not at all, with a budget of tokens, or as much as it needs."""
Unthinking = Literal["omit", "disabled", "between_tools", "never"]
"""How a model is kept from thinking; "never": it always thinks."""

_FAMILY = re.compile(r"(opus|sonnet|haiku|fable|mythos)")
_AFTER = re.compile(r"(?:opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_BEFORE = re.compile(r"claude-(\d{1,2})(?:[-.](\d{1,2}))?-(?:opus|sonnet|haiku)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claude:
    """What one model takes. The defaults are for a model that nobody knows anything about.

    `efforts` are the levels of ``output_config.effort``, none when it has no such field.
    `samples` says whether temperature and top_p are taken at all, `one_sampler` that only one of
    them is, `cool_thinking` that a temperature is taken while it thinks. `forces_tools`: a call
    can be made to happen. `prefill`: a conversation may end in what the assistant has begun.
    """

    known: bool = False
    thinking: Thinking = "budget"
    unthinking: Unthinking = "disabled"
    summarizes: bool = False
    efforts: tuple[str, ...] = ()
    samples: bool = True
    one_sampler: bool = False
    cool_thinking: bool = True
    forces_tools: bool = True
    prefill: bool = True
    native_output: bool = False
    max_output: int | None = None


UNKNOWN = Claude()


@lru_cache(maxsize=256)
def claude(model: str) -> Claude:
    """Return what is known of a model. One whose version is newer than any known is like those."""
    name = model.lower()
    found = _FAMILY.search(name)
    if found is None:
        return UNKNOWN
    family, version = found[1], _version(name)
    tamed = (5, 1) if family in ("fable", "mythos") else (5, 5)
    effort = version >= (4, 6) or (family, version) == ("opus", (4, 5))
    return Claude(
        known=True,
        thinking="adaptive" if version >= (4, 6) else "budget" if version >= (3, 7) else "none",
        unthinking=_unthinking(family, version),
        summarizes=version >= (4, 7),
        efforts=_efforts(version) if effort else (),
        samples=version < (4, 7),
        one_sampler=version >= (4, 1),
        cool_thinking=False,
        forces_tools=version < tamed or family == "haiku",
        prefill=version < (4, 6),
        native_output=version >= (4, 5),
        max_output=_max_output(family, version),
    )


def _version(name: str) -> tuple[int, int]:
    found = _AFTER.search(name) or _BEFORE.search(name)
    if found is None:
        return (9, 9)  # "claude-mythos-preview", or a name of the future
    return (int(found[1]), int(found[2] or 0))


def _unthinking(family: str, version: tuple[int, int]) -> Unthinking:
    if family in ("fable", "mythos"):
        return "never"
    if version < (5, 0):
        return "omit"
    if version >= (5, 5) and family != "haiku":
        return "between_tools" if family == "sonnet" else "never"
    return "disabled"


def _efforts(version: tuple[int, int]) -> tuple[str, ...]:
    if version >= (4, 7):
        return ("low", "medium", "high", "xhigh", "max")
    return ("low", "medium", "high", "max") if version >= (4, 6) else ("low", "medium", "high")


def _max_output(family: str, version: tuple[int, int]) -> int:
    if version >= (4, 6):
        return 128_000
    if version >= (4, 5) or version == (3, 7) or (family == "sonnet" and version >= (4, 0)):
        return 64_000
    if version >= (4, 0):
        return 32_000
    return 8192 if version >= (3, 5) else 4096
