"""Tool calls read out of a model's text, piece by piece as it is written."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from msgspec import Struct

from treadle.providers.local.template import call_start


class Said(Struct, frozen=True):
    """More of the answer's text."""

    text: str


class CallBegan(Struct, frozen=True):
    """A call of the function `name`; `place` counts the calls of a reply."""

    place: int
    name: str


class CallWent(Struct, frozen=True):
    """More of the arguments' JSON of the call that began last."""

    place: int
    arguments: str


Piece = Said | CallBegan | CallWent


class CallReader:
    """Tells calls from text, for a reply that follows `grammar_of`.

    A reply that breaks the grammar, as one that was cut off does, is text as far as it is no call.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._starts = {call_start(name): name for name in names}
        self._held = ""
        self._calls = 0
        self._value: _ValueEnd | None = None
        self._is_text = not self._starts

    @property
    def expects_calls(self) -> bool:
        """Whether any function may be called at all."""
        return bool(self._starts)

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun."""
        return self._calls > 0

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield what `text` adds to the reply."""
        while text:
            if self._is_text:
                yield Said(text)
                return
            if self._value is None:
                self._held += text
                text = yield from self._begin()
            else:
                text = yield from self._go_on(self._value, text)

    def finish(self) -> Iterator[Piece]:
        """Yield what was held back, once the reply has ended."""
        if self._held and not self.has_calls:
            yield Said(self._held)
        self._held = ""

    def _begin(self) -> Generator[Piece, None, str]:
        """Look at what is held: the start of a call, of text, or too little to say.

        Returns what is left of it to look at.
        """
        held = self._held.lstrip("}\n ") if self.has_calls else self._held
        for start, name in self._starts.items():
            if held.startswith(start):
                self._held = ""
                self._value = _ValueEnd()
                self._calls += 1
                yield CallBegan(self._calls - 1, name)
                return held[len(start) :]
        if not any(start.startswith(held) for start in self._starts) and not self.has_calls:
            self._is_text = True
            yield Said(self._held)
            self._held = ""
        return ""

    def _go_on(self, value: _ValueEnd, text: str) -> Generator[Piece, None, str]:
        """Pass arguments on up to their end, and return what follows them."""
        end = value.find(text)
        taken = text if end is None else text[:end]
        if taken:
            yield CallWent(self._calls - 1, taken)
        if end is None:
            return ""
        self._value = None
        return text[end:]


class _ValueEnd:
    """Finds where a JSON object ends that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def find(self, text: str) -> int | None:
        """Return the place right behind the object's end, None when it goes on."""
        for place, character in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return place + 1
        return None
