"""The seam to what several callers may ask of a model together."""

from __future__ import annotations

from math import inf
from typing import Protocol

from msgspec import Struct

from treadle.errors import ConfigError, RateLimited

_NAMES = ("rpm", "tpm", "concurrency")


class Bounds(Struct, frozen=True, kw_only=True):
    """How much may begin in any `window` seconds, and how much may run at once; None is no bound.

    Raises:
        ConfigError: a bound is less than 1, or there is none.
    """

    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None
    window: float = 60.0

    def __post_init__(self) -> None:
        for name in _NAMES:
            value: object = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"RateLimit({name}={value!r}): give a whole number, 1 or more.")
        if not self.given:
            raise ConfigError("A rate limit limits nothing; give rpm=, tpm= or concurrency=.")
        if not 0 < self.window < inf:
            raise ConfigError(f"Bounds(window={self.window!r}): give seconds, more than 0.")

    def reserved(self, tokens: int) -> int:
        """Return what to set aside for so many tokens: more than the bound would wait for ever."""
        return tokens if self.tpm is None else min(tokens, self.tpm)

    def too_long(self, wait: float, longest: float) -> RateLimited:
        """Return the error for a wait that is not begun."""
        bounds = ", ".join(f"{name}={value}" for name, value in self.given.items())
        return RateLimited(
            f"The limit set here ({bounds}) has a place in {wait:.1f} s, and only "
            f"{max(longest, 0.0):.1f} s are left. Raise the limit or the deadline.",
            retry_after=wait,
        )

    @property
    def given(self) -> dict[str, int]:
        """The bounds that there are."""
        named = ((name, getattr(self, name)) for name in _NAMES)
        return {name: value for name, value in named if value is not None}


class Permit(Struct, frozen=True):
    """A request that may begin: `tokens` are reserved for it since `at`, by the quota's clock."""

    id: str
    tokens: int
    at: float


class Quota(Protocol):
    """What the requests of several callers may use together."""

    @property
    def bounds(self) -> Bounds:
        """How much that is."""
        ...

    async def begin(self, tokens: int, *, longest: float | None = None) -> Permit:
        """Wait for a place, first come first served, and take it.

        Whoever is cancelled meanwhile gives the place back.

        Raises:
            RateLimited: the wait would be longer than `longest` seconds; it was not begun.
            Overloaded: the quota cannot be asked.
        """
        ...

    async def end(self, permit: Permit, tokens: int | None) -> None:
        """Say that a request is over. `tokens` is what it used, None when nobody knows.

        It never fails: what cannot be said runs out by itself.
        """
        ...
