"""Output items that arrive in pieces, put together."""

from __future__ import annotations

from treadle.providers.openai.responses_objects import Wire, WireEvent, objects_in, text_in
from treadle.values import is_array

Place = tuple[str, str, str, str]
"""Where a piece goes: the kind of its item, a list of it, a block there, the field that grows."""

PLACES: dict[str, Place] = {
    "response.output_text": ("message", "content", "output_text", "text"),
    "response.refusal": ("message", "content", "refusal", "refusal"),
    "response.reasoning_text": ("reasoning", "content", "reasoning_text", "text"),
    "response.reasoning": ("reasoning", "content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("reasoning", "summary", "summary_text", "text"),
    "response.reasoning_summary": ("reasoning", "summary", "summary_text", "text"),
    "response.function_call_arguments": ("function_call", "", "", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "", "", "input"),
    "response.mcp_call_arguments": ("mcp_call", "", "", "arguments"),
    "response.code_interpreter_call_code": ("code_interpreter_call", "", "", "code"),
}
"""By the type of the event, without its last word."""


class ItemFold:
    """Collects the items of one reply by their index, else by their ID.

    What the server says of a finished item counts; the pieces are for servers that do not say it.
    """

    __slots__ = ("_by_id", "_by_index", "_items")

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}

    def begin(self, event: WireEvent) -> None:
        """Take an item that begins. A new one under a known index is another item."""
        if event.item is None:
            return
        found = self._known(event)
        if found is None or (found.begun and found.begun.get("id") != event.item.get("id")):
            found = self._opened(event)
        found.begun = event.item

    def end(self, event: WireEvent) -> None:
        """Take a finished item."""
        if event.item is None:
            return
        found = self._known(event)
        if found is None or found.whole is not None:
            found = self._opened(event)
        found.whole = event.item

    def pieces(self, event: WireEvent, place: Place) -> list[str]:
        """Return the list that pieces for this place are added to."""
        found = self._known(event) or self._opened(event)
        return found.pieces.setdefault((place, event.part_index), [])

    def has_pieces(self, event: WireEvent) -> bool:
        """Whether anything of the item of this event has come."""
        found = self._known(event)
        return found is not None and any(found.pieces.values())

    def annotate(self, event: WireEvent) -> None:
        """Take a source that a text relies on."""
        found = self._known(event) or self._opened(event)
        found.annotations.setdefault(event.part_index, []).append(event.annotation)

    def items(self) -> list[Wire]:
        """Return the items as far as they came."""
        return [item.together() for item in self._items]

    def _known(self, event: WireEvent) -> _Item | None:
        """Return the item of an event; one that names none is about the last."""
        if event.output_index is not None:
            return self._by_index.get(event.output_index)
        item_id = _id_in(event)
        if item_id:
            return self._by_id.get(item_id)
        return self._items[-1] if self._items and event.item is None else None

    def _opened(self, event: WireEvent) -> _Item:
        item = _Item()
        self._items.append(item)
        if event.output_index is not None:
            self._by_index[event.output_index] = item
        item_id = _id_in(event)
        if item_id:
            self._by_id[item_id] = item
        return item


class _Item:
    """One item that is coming in."""

    __slots__ = ("annotations", "begun", "pieces", "whole")

    def __init__(self) -> None:
        self.begun: Wire = {}
        self.whole: Wire | None = None
        self.pieces: dict[tuple[Place, int], list[str]] = {}
        self.annotations: dict[int, list[object]] = {}

    def together(self) -> Wire:
        """Return the whole item, else what the pieces make of what it began as."""
        if self.whole is not None:
            return self.whole
        item = {**self.begun}
        for (place, index), pieces in sorted(self.pieces.items(), key=_by_index):
            kind, field, block_kind, growing = place
            item.setdefault("type", kind)
            if not field:
                item[growing] = "".join(pieces)
                continue
            blocks = list(objects_in(item.get(field)))
            block: Wire = {"type": block_kind, growing: "".join(pieces)}
            if block_kind == "output_text" and index in self.annotations:
                block["annotations"] = self.annotations[index]
            item[field] = [*blocks[:index], block, *blocks[index + 1 :]]
        return item


def texts_of(item: Wire) -> str:
    """Return the text that an item says."""
    content = item.get("content")
    if item.get("type") != "message" or not is_array(content):
        return ""
    return "".join(
        text_in(block.get("refusal" if block.get("type") == "refusal" else "text"))
        for block in objects_in(content)
    )


def _by_index(entry: tuple[tuple[Place, int], list[str]]) -> int:
    return entry[0][1]


def _id_in(event: WireEvent) -> str:
    return event.item_id or (text_in(event.item.get("id")) if event.item else "")
