"""Read a journal: the view that its batches come to, and what runs in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from treadle.journal import AnyEntry
from treadle.view import ChildRun, View


def paths_in(view: View, path: str = "") -> Iterator[str]:
    """Yield the path of each child run under way."""
    for name, child in view.children.items():
        own = f"{path}/{name}" if path else name
        yield own
        yield from paths_in(child.view, own)


def child_at(view: View, path: str) -> ChildRun | None:
    """Return the child run at this path, None when its call has ended, or never began."""
    found = None
    for name in path.split("/"):
        found = view.children.get(name)
        if found is None:
            return None
        view = found.view
    return found


def fold(batches: Iterable[tuple[int, Iterable[AnyEntry]]]) -> View:
    """Return the view after these batches, each the revision it made and its entries."""
    view = View()
    for revision, entries in batches:
        view.take_in(revision, entries)
    return view
