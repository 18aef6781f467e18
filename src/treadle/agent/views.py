"""Views of conversations that this process has read, so that reading on costs only what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import islice
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from treadle.messages import Audio, File, Image, ToolResult
from treadle.ports.store import Head, Store
from treadle.view import View

MOST_VIEWS = 256
MOST_MESSAGES = 20_000
MOST_MEDIA_BYTES = 64_000_000


class _Kept(Struct, frozen=True):
    """A view, the head that belongs to it, and what they weigh."""

    head: Head
    view: View
    messages: int
    media: int


class Views:
    """The views of the conversations used last, of one store.

    A view is taken out while a run works on it, and is only trusted when the store's head tells of
    the same conversation (a deleted one may come again under its name) and no lower revision.
    """

    def __init__(self) -> None:
        self._views: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()  # event loops of several threads may share a store
        self._messages = self._media = 0

    def take(self, head: Head) -> View:
        """Return what is known of the conversation, at the head's revision or before it."""
        with self._lock:
            known = self._pop(head.conversation_id)
        if known is None:
            return View()
        before, view = known.head, known.view
        same = before.created_at == head.created_at and view.revision <= head.revision
        return view if same else View()

    def take_known(self, conversation_id: str) -> tuple[Head, View] | None:
        """Return what is known of the conversation, with the head that belongs to it."""
        with self._lock:
            known = self._pop(conversation_id)
        if known is None:
            return None
        return replace(known.head, revision=known.view.revision), known.view

    def put(self, head: Head, view: View) -> None:
        """Keep a view; the ones that were not used for longest give way."""
        messages = _messages(view) if view.children else len(view.settled)
        kept = _Kept(head, view, messages, _media_bytes(view))
        with self._lock:
            self._pop(head.conversation_id)  # one that another run put back meanwhile gives way
            if kept.messages > MOST_MESSAGES or kept.media > MOST_MEDIA_BYTES:
                return
            self._views[head.conversation_id] = kept
            self._messages += kept.messages
            self._media += kept.media
            while (
                len(self._views) > MOST_VIEWS
                or self._messages > MOST_MESSAGES
                or self._media > MOST_MEDIA_BYTES
            ):
                self._pop(next(iter(self._views)))

    def _pop(self, conversation_id: str) -> _Kept | None:
        kept = self._views.pop(conversation_id, None)
        if kept is not None:
            self._messages -= kept.messages
            self._media -= kept.media
        return kept


def _messages(view: View) -> int:
    """Return the number of messages in a history, and in those of the child runs in it."""
    return len(view.settled) + sum(_messages(child.view) for child in view.children.values())


def _media_bytes(view: View) -> int:
    """Return the bytes of the media in a history; only messages that came since are looked at."""
    seen, size = view.weighed
    settled = view.settled
    if seen > len(settled):  # it was reset
        seen = size = 0
    for message in islice(settled, seen, None):
        for part in message.parts:
            for each in part.parts if isinstance(part, ToolResult) else (part,):
                if isinstance(each, Image | Audio | File) and each.content is not None:
                    size += len(each.content)
    view.weighed = (len(settled), size)
    for child in view.children.values():
        size += _media_bytes(child.view)
    return size


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
