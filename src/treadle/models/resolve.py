"""Find a model by its "provider:model" name, through the installed entry points."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from treadle.errors import NoModel, UnknownModel
from treadle.ports.model import Model

GROUP = "treadle.models"


def resolve_model(model: Model | str | None, *, agent: str = "agent") -> Model:
    """Return the model itself, or the one that a string like "openai:gpt-5.2" names.

    Raises:
        NoModel: there is none.
        UnknownModel: the string has no provider, or one that is not installed.
    """
    if model is None:
        raise NoModel(f'Agent {agent!r} has no model; pass model="openai:gpt-5.2" for example.')
    if not isinstance(model, str):
        if not callable(getattr(model, "complete", None)):
            raise UnknownModel(
                f"{type(model).__name__} is not a model: it has no `complete` method; "
                'pass a "provider:model" string or a model object.'
            )
        return model
    provider, colon, name = model.partition(":")
    known = _providers()
    if not colon or provider not in known:
        names = ", ".join(f'"{known_name}:…"' for known_name in sorted(known))
        raise UnknownModel(f"Model {model!r} names no installed provider; write one of {names}.")
    return known[provider].load()(name)


@lru_cache(maxsize=1)
def _providers() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
