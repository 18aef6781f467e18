"""From a URL to a store, through the installed entry points."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from treadle.errors import ConfigError, MissingExtra
from treadle.ports.store import Store
from treadle.values.secret import know, secrets_of

GROUP = "treadle.stores"
_OTHER_NAMES = {"postgres": "postgresql", "mariadb": "mysql", "rediss": "redis"}
_EXTRAS = {"postgresql": "postgres", "mysql": "mysql", "redis": "redis"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9.-]*(?=(\+[A-Za-z0-9.-]+)?:)")


def open_store(url: str) -> Store:
    """Return the store that a URL names. Nothing is opened before it is used.

    ```python
    from treadle import open_store

    store = open_store("sqlite:///chat.db")
    ```

    There are "memory:", "file:folder", "sqlite:///file.db", "postgresql://", "mysql://" and
    "redis://", and those that other packages bring.

    Raises:
        ConfigError: the URL names no store that is installed, or is not one of its form.
        MissingExtra: the store needs a package that is not installed.
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(f"The URL of a store is a str, got {type(url).__name__}.")
    found = _SCHEME.match(url)
    scheme = "" if found is None else found.group().lower()
    name = _OTHER_NAMES.get(scheme, scheme)
    known = _stores()
    if name not in known:
        names = ", ".join(f'"{each}:…"' for each in sorted(known))
        shown = f'a URL that begins with "{scheme}:"' if scheme else "what was given"
        raise ConfigError(f"No store is installed for {shown}; write one of {names}.")
    try:
        kind = known[name].load()
    except ModuleNotFoundError as error:
        raise _missing(name, error) from error
    know(*secrets_of({}, url))  # of stores that other packages bring, too
    store: Store = kind.from_url(url)
    return store


@lru_cache(maxsize=1)
def _stores() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _missing(name: str, error: ModuleNotFoundError) -> ConfigError:
    extra = _EXTRAS.get(name)
    if extra is None:
        return MissingExtra(f'The store for "{name}:" needs {error.name!r}: {error}.')
    return MissingExtra(
        f'The store for "{name}:" needs {error.name!r}, which is not installed: '
        f'pip install "treadle[{extra}]"'
    )
