"""RateLimit: no more requests and tokens than a provider allows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from treadle.errors import ConfigError, MissingExtra, ModelError
from treadle.models.estimate import estimate_input
from treadle.models.pieces import deltas_of
from treadle.models.quota import LocalQuota
from treadle.models.resolve import resolve_model
from treadle.ports.model import (
    Model,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    profile_of,
)
from treadle.ports.quota import Bounds, Quota
from treadle.usage import Usage

GROUP = "treadle.quotas"
EXPECTED_OUTPUT = 1_024
"""Output tokens reserved for a request that does not say how many it may have."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RateLimit:
    """A model of which no more is asked than a number of requests and tokens.

    In any 60 seconds at most `rpm` requests and `tpm` tokens begin, and at most `concurrency`
    requests run at once, in all event loops and threads of the process that share this object.
    Others wait in line, first come first served; a wait that would be longer than what the run's
    deadline leaves is not begun, and ends in `RateLimited`.

    Tokens are reserved before a request from an estimate of its input and `max_output_tokens`, its
    own or the model's (without it: 1,024), and settled by its real usage afterwards. A request that
    is larger than `tpm` waits for an empty window.

    `quota` shares the limit more widely: an object of the `Quota` protocol, which has its own
    bounds, or a URL such as "redis://:password@host:6379/0?name=openai" with the bounds given here.

    Raises:
        ConfigError: there is no bound, or one that cannot be.
        UnknownModel: a string names no model.
    """

    model: Model
    quota: Quota
    profile: ModelProfile = field(compare=False)

    def __init__(
        self,
        model: Model | str,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        quota: Quota | str | None = None,
    ) -> None:
        found = resolve_model(model, agent="RateLimit")
        profile = profile_of(found)
        if quota is None or isinstance(quota, str):
            bounds = Bounds(rpm=rpm, tpm=tpm, concurrency=concurrency)
            quota = _shared(quota, bounds, profile) if quota else LocalQuota(bounds)
        elif (rpm, tpm, concurrency) != (None, None, None):
            raise ConfigError("RateLimit(quota=) has bounds of its own; leave rpm, tpm and so on.")
        object.__setattr__(self, "model", found)
        object.__setattr__(self, "quota", quota)
        object.__setattr__(self, "profile", profile)

    def __repr__(self) -> str:
        bounds = [f"{name}={bound}" for name, bound in self.quota.bounds.given.items()]
        return f"RateLimit({', '.join([repr(self.model), *bounds])})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer as the model does, when it is this request's turn.

        Raises:
            RateLimited: its turn would come too late.
            ModelError: the request failed.
        """
        async with self._turn(request) as turn:
            return turn.ended(await self.model.complete(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece as the model does, when it is this request's turn.

        Raises:
            RateLimited: its turn would come too late.
            ModelError: the request failed.
        """
        async with (
            self._turn(request) as turn,
            aclosing(deltas_of(self.model, request)) as deltas,
        ):
            async for delta in deltas:
                yield turn.ended(delta) if isinstance(delta, ModelReply) else delta

    @asynccontextmanager
    async def _turn(self, request: ModelRequest) -> AsyncGenerator[_Turn]:
        """Hold a place in the quota."""
        tokens = 0
        if self.quota.bounds.tpm is not None:
            tokens = estimate_input(request)
            settings = self.profile.settings_for(request)
            tokens += settings.max_output_tokens or EXPECTED_OUTPUT
        try:
            permit = await self.quota.begin(tokens, longest=request.seconds_left)
        except ModelError as error:
            error.provider, error.model = self.profile.provider, self.profile.name
            raise
        turn = _Turn()
        try:
            yield turn
        except ModelError as error:
            if isinstance(error.usage, Usage):
                turn.used = error.usage.total_tokens
            raise
        finally:
            await self.quota.end(permit, turn.used)


class _Turn:
    """What one request used, once that is known."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used: int | None = None

    def ended(self, reply: ModelReply) -> ModelReply:
        """Note what the reply says; many servers say nothing."""
        if reply.usage.total_tokens or reply.settled:
            self.used = reply.usage.total_tokens
        return reply


def _shared(url: str, bounds: Bounds, profile: ModelProfile) -> Quota:
    """Return the quota behind a URL."""
    scheme = urlsplit(url).scheme
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if scheme not in known:
        names = ", ".join(f'"{name}://…"' for name in sorted(known))
        raise ConfigError(f"quota={scheme!r}://… names no installed quota; write {names}.")
    try:
        kind = known[scheme].load()
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f'The quota for "{scheme}:" needs {error.name!r}, which is not installed: '
            f'pip install "treadle[{scheme.removesuffix("s")}]"'
        ) from error
    return kind.from_url(url, bounds, name=f"{profile.provider}:{profile.name}")
