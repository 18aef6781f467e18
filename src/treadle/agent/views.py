"""Views of conversations that this process has read, so that reading on costs only what is new."""

from __future__ import annotations

from collections import OrderedDict
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from treadle.ports.store import Head, Store
from treadle.view import View

MOST_VIEWS = 256
MOST_MESSAGES = 20_000


class Views:
    """The views of the conversations used last, of one store.

    A view is taken out while a run works on it, and is only trusted when the store's head tells of
    the same conversation (a deleted one may come again under its name) and no lower revision.
    """

    def __init__(self) -> None:
        self._views: OrderedDict[str, tuple[Head, View]] = OrderedDict()
        self._messages = 0

    def take(self, head: Head) -> View:
        """Return what is known of the conversation, at the head's revision or before it."""
        known = self._views.pop(head.conversation_id, None)
        if known is None:
            return View()
        before, view = known
        self._messages -= len(view.messages)
        same = before.created_at == head.created_at and view.revision <= head.revision
        return view if same else View()

    def take_known(self, conversation_id: str) -> tuple[Head, View] | None:
        """Return what is known of the conversation, with the head that belongs to it."""
        known = self._views.pop(conversation_id, None)
        if known is None:
            return None
        head, view = known
        self._messages -= len(view.messages)
        return replace(head, revision=view.revision), view

    def put(self, head: Head, view: View) -> None:
        """Keep a view; the ones that were not used for longest give way."""
        self.take(head)  # one that another run put back meanwhile gives way
        size = len(view.messages)
        if size > MOST_MESSAGES:
            return
        self._views[head.conversation_id] = (head, view)
        self._messages += size
        while len(self._views) > MOST_VIEWS or self._messages > MOST_MESSAGES:
            _, (_, oldest) = self._views.popitem(last=False)
            self._messages -= len(oldest.messages)


_known: WeakKeyDictionary[Store, Views] = WeakKeyDictionary()


def views_of(store: Store) -> Views:
    """Return the views of a store; they go with it."""
    try:
        found = _known.get(store)
        if found is None:
            found = _known.setdefault(store, Views())
        return found
    except TypeError:  # it cannot be referred to weakly, or hashed: nothing is kept
        return Views()
