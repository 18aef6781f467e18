"""Fallback: the next model when one fails."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal

from msgspec.structs import replace

from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    ContentFiltered,
    ContextOverflow,
    ModelError,
    RateLimited,
)
from treadle.models.pieces import checked, deltas_of
from treadle.models.resolve import resolve_model
from treadle.ports.model import (
    Model,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    ModelSettings,
    PromptCache,
    Restart,
    profile_of,
)
from treadle.usage import NOTHING, Price, Usage

ONE_REQUEST = Usage(requests=1)


def another_may_cure(error: ModelError) -> bool:
    """Whether a failure is of this model or its server, and not of the request.

    It is for what passes (`retryable`), a refused key, a spent quota, a failing server, an answer
    that is no answer, and a model that is not there. A refusal or a filter is an answer, a request
    that is too long wants to be shortened, and one that is wrong is wrong everywhere.
    """
    if isinstance(error, ContentFiltered | ContextOverflow):
        return False
    if error.retryable or isinstance(error, AuthenticationFailed | RateLimited | BadReply):
        return True
    return error.status is not None and (error.status in (404, 410) or error.status >= 500)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Fallback:
    """A model that is several: the first is asked, and the next one when it fails.

    Models are objects or "provider:model" strings. `on` says which failures the next model is
    asked after, see `another_may_cure`; others are raised at once. When all have failed, the error
    is of the last one's class and names every attempt; it is retryable where one of them is, so
    that an agent's `Retry` begins again with the first, after the shortest wait that was asked for.

    A stream that breaks after it said something goes on with the next model as well: a `Restart`
    among its pieces says that what was said so far no longer counts.

    `profile` is what all of them can do, at the highest price and with the least of the models' own
    `max_output_tokens`; a reply costs what the model costs that gave it, and its usage counts the
    failed attempts.

    Raises:
        ConfigError: there is no model.
        UnknownModel: a string names none.
    """

    models: tuple[Model, ...]
    on: Callable[[ModelError], bool]
    profile: ModelProfile = field(compare=False)

    def __init__(
        self, *models: Model | str, on: Callable[[ModelError], bool] = another_may_cure
    ) -> None:
        if not models:
            raise ConfigError("Fallback() has no models; write Fallback(first, second).")
        found = tuple(resolve_model(model, agent="Fallback") for model in models)
        object.__setattr__(self, "models", found)
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "profile", weakest([profile_of(model) for model in found]))

    def __repr__(self) -> str:
        return f"Fallback({', '.join(map(repr, self.models))})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer with the first model that does.

        Raises:
            ModelError: all failed, or one in a way that no other cures.
        """
        attempts = _Attempts(self, request)
        while True:
            model = attempts.model
            try:
                reply = checked(await model.complete(request), model)
            except ModelError as error:
                attempts.failed(error)
            else:
                return attempts.counted(reply)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece with the first model that does, from its beginning to its end.

        Raises:
            ModelError: all failed, or one in a way that no other cures.
        """
        attempts, said = _Attempts(self, request), False
        while True:
            try:
                async with aclosing(deltas_of(attempts.model, request)) as deltas:
                    async for delta in deltas:
                        if isinstance(delta, ModelReply):
                            yield attempts.counted(delta)
                            return
                        said = True
                        yield delta
            except ModelError as error:
                attempts.failed(error)
                if said:
                    yield Restart(f"{type(error).__name__}: {error}")
                said = False


class _Attempts:
    """The attempts to answer one request."""

    __slots__ = ("_errors", "_models", "_on", "_request")

    def __init__(self, fallback: Fallback, request: ModelRequest) -> None:
        self._request = request
        self._models = fallback.models
        self._on = fallback.on
        self._errors: list[ModelError] = []

    @property
    def model(self) -> Model:
        """The model whose turn it is."""
        return self._models[len(self._errors)]

    def failed(self, error: ModelError) -> None:
        """Go on with the next model, or raise when there is none or it would not help."""
        errors = self._errors
        errors.append(error)
        if len(errors) < len(self._models) and self._on(error):
            return
        if len(errors) == 1:
            raise error
        raise summed_up(errors, self._models) from ExceptionGroup("attempts", errors)

    def counted(self, reply: ModelReply) -> ModelReply:
        """Return the reply at the price of its model, with what failed before it."""
        usage, profile = reply.usage, profile_of(self.model)
        if not reply.settled:
            kept, price = profile.settings_for(self._request).prompt_cache, profile.price
            cost = usage.cost or (price.kept(kept).cost(usage) if price else usage.cost)
            usage = replace(usage, requests=usage.requests or 1, cost=cost)
        lost = used_by(self._errors)
        return replace(reply, usage=usage + lost if self._errors else usage, settled=True)


def used_by(errors: Iterable[ModelError]) -> Usage:
    """Return what failed requests used, as far as it is known: at least one request each."""
    return sum((error.usage or ONE_REQUEST for error in errors), NOTHING)


def summed_up(errors: Sequence[ModelError], models: Sequence[Model]) -> ModelError:
    """Return one error of the last one's kind that names all attempts."""
    last = errors[-1]
    ours = ModelError.__module__
    kinds = [each for each in type(last).__mro__ if issubclass(each, ModelError)]
    kind = next(
        each for each in kinds if each.__module__ == ours
    )  # a user's may be built otherwise
    waits = [each.retry_after for each in errors if each.retryable]
    lines = [
        f"{profile_of(model).name}: {type(error).__name__}: {error}"
        for model, error in zip(models, errors, strict=False)
    ]
    made = kind(
        f"{len(errors)} of {len(models)} models failed. " + " | ".join(lines),
        provider=last.provider,
        model=last.model,
        status=last.status,
        request_id=last.request_id,
        code=last.code,
        retryable=bool(waits),
        retry_after=min((wait or 0.0 for wait in waits), default=None) or None,
        partial=last.partial,
    )
    made.usage = used_by(errors)
    return made


def weakest(profiles: Sequence[ModelProfile]) -> ModelProfile:
    """Return what all of these models can do, at the highest price."""
    providers = {profile.provider for profile in profiles}
    return ModelProfile(
        provider=providers.pop() if len(providers) == 1 else "fallback",
        name=" or ".join(dict.fromkeys(profile.name for profile in profiles)),
        native_output=all(profile.native_output for profile in profiles),
        native_output_with_tools=all(profile.native_output_with_tools for profile in profiles),
        vision=all(profile.vision for profile in profiles),
        price=highest([profile.price for profile in profiles]),
        window=_least(profile.window for profile in profiles),
        max_output=_least(profile.max_output for profile in profiles),
        min_output=max(profile.min_output for profile in profiles),
        settings=_shared([profile.settings for profile in profiles]),
        identity=_told_apart(profiles),
    )


def _shared(own: Sequence[ModelSettings]) -> ModelSettings:
    """Return what a reservation has to know of the models' own settings, at its strictest."""
    lives = {each.prompt_cache for each in own}
    longest: PromptCache | None = "long" if "long" in lives else None
    return ModelSettings(
        max_output_tokens=_least(each.max_output_tokens for each in own), prompt_cache=longest
    )


def _told_apart(profiles: Sequence[ModelProfile]) -> str:
    """Return a hash of all that tells these models from others, their settings too."""
    each = [
        (one.provider, one.name, one.identity, replace(one.settings, timeout=None))
        for one in profiles
    ]
    return hashlib.sha256(repr(each).encode("utf-8", "surrogatepass")).hexdigest()


def highest(prices: Sequence[Price | None]) -> Price | None:
    """Return a price that none of these exceeds, for reserving; None when one is unknown."""
    known = [price for price in prices if price is not None]
    known += [price.long for price in known if price.long is not None]
    if None in prices:
        return None
    most = max(price.kept("long").most_input for price in known)
    return Price(input=most, output=max(Decimal(str(price.output)) for price in known))


def _least(known: Iterable[int | None]) -> int | None:
    return min((number for number in known if number is not None), default=None)
