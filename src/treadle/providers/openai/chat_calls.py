"""Tool calls that arrive in pieces, put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treadle.providers._json import encode
from treadle.providers.openai.chat_objects import WireCall, WireFunction


class CallFold:
    """Merges the pieces of tool calls by what identifies them, in the order they began.

    That is the index, but a new ID with a name under a known index is another call: some gateways
    number every call 0. Without an index, a new ID opens a call and a piece without an ID goes on
    with the last one, unless it names a function while the last call already has arguments.
    """

    __slots__ = ("_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, pieces: Iterable[WireCall]) -> None:
        """Merge the pieces of one chunk."""
        for piece in pieces:
            call = self._find(piece)
            if call is None:
                call = _Call()
                self._calls.append(call)
                if piece.index is not None:
                    self._by_index[piece.index] = call
            call.add(piece)

    def calls(self) -> list[WireCall]:
        """Return the calls as far as they came."""
        return [call.whole() for call in self._calls]

    def _find(self, piece: WireCall) -> _Call | None:
        if piece.index is not None:
            known = self._by_index.get(piece.index)
            if known is None or (piece.id and known.id and piece.id != known.id and _name(piece)):
                return None
            return known
        if piece.id:
            return next((call for call in self._calls if call.id == piece.id), None)
        last = self._calls[-1] if self._calls else None
        return None if last and last.arguments and _name(piece) else last


class _Call:
    """One call that is coming in."""

    __slots__ = ("arguments", "custom", "extra", "id", "kind", "name")

    def __init__(self) -> None:
        self.id = ""
        self.kind: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.custom: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}

    def add(self, piece: WireCall) -> None:
        self.id = self.id or piece.id or ""
        self.kind = self.kind or piece.type
        function = piece.function
        if function is not None:
            self._add_name(function.name or "")
            if isinstance(function.arguments, dict):
                self.arguments.append(encode(function.arguments).decode())
            elif function.arguments:
                self.arguments.append(function.arguments)
        if piece.custom:
            self._add_custom(piece.custom)
        if piece.extra_content:
            self.extra |= piece.extra_content

    def whole(self) -> WireCall:
        return WireCall(
            id=self.id or None,
            type=self.kind,
            function=WireFunction(self.name, "".join(self.arguments)),
            custom=self.custom or None,
            extra_content=self.extra or None,
        )

    def _add_name(self, name: str) -> None:
        """Take a name that comes whole, again with every piece, or itself in pieces."""
        if name != self.name and not self.arguments:
            self.name += name

    def _add_custom(self, custom: dict[str, Any]) -> None:
        for field, value in custom.items():
            known = self.custom.get(field)
            joins = field == "input" and isinstance(known, str) and isinstance(value, str)
            self.custom[field] = f"{known}{value}" if joins else value or known


def _name(piece: WireCall) -> str:
    return (piece.function.name if piece.function else None) or ""
