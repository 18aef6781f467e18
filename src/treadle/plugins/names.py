"""Lists of names that a caller passes, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Collection

from treadle.errors import ConfigError, PluginFailed


def check_names(**lists: Collection[str] | None) -> None:
    """Refuse one string where names belong: its letters would be taken for names.

    Raises:
        ConfigError: one of the lists is a string.
    """
    for option, names in lists.items():
        if isinstance(names, str):
            raise ConfigError(f"{option}={names!r} is a string; pass a list of names.")


def check_present(only: Collection[str] | None, known: Collection[str], kind: str) -> None:
    """Refuse names that name nothing.

    Raises:
        PluginFailed: a name in `only` is none of `known`.
    """
    missing = sorted(set(only or ()) - set(known))
    if missing:
        there = ", ".join(map(repr, sorted(known))) or "none"
        raise PluginFailed(f"There is no {kind} named {missing[0]!r}; there are: {there}.")
