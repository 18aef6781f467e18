"""Tools of installed packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from treadle.errors import PluginFailed
from treadle.plugins.gathering import Gathering
from treadle.plugins.names import check_names, check_present
from treadle.tools.outcome import describe
from treadle.tools.tool import Tool

GROUP = "treadle.tools"


def load_entry_points(
    group: str = GROUP, *, only: Collection[str] | None = None, exclude: Collection[str] = ()
) -> tuple[Tool, ...]:
    """Return the tools that installed packages offer, in the order of their entry points' names.

    ```python
    from treadle.plugins import load_entry_points

    print(load_entry_points("acme.tools"))
    #> ()
    ```

    An entry point leads to a tool, a function (which becomes one), a list of these, or something
    that takes no arguments and returns them. Loading runs the code of these packages: name those
    you mean with `only`. When one fails, none is loaded.

    Raises:
        PluginFailed: an entry point cannot be loaded, or leads to no tool; or one named in `only`
            is not installed.
        DuplicateTool: two entry points have a tool of one name.
    """
    check_names(only=only, exclude=exclude)
    found = sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))
    check_present(only, {entry.name for entry in found}, f"entry point of the group {group!r}")
    gathering = Gathering()
    for entry in found:
        if (only is None or entry.name in only) and entry.name not in exclude:
            origin = _origin(entry)
            gathering.add(_loaded(entry, origin), origin)
    return gathering.tools


def _origin(entry: EntryPoint) -> str:
    package = f" of the package {entry.dist.name!r}" if entry.dist is not None else ""
    return f"The entry point {entry.name!r} ({entry.value}){package}"


def _loaded(entry: EntryPoint, origin: str) -> object:
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise PluginFailed(f"{origin} cannot be loaded: {describe(error)}") from error
