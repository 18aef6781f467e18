"""The parts of a Gemini reply, put together from their pieces."""

from __future__ import annotations

from msgspec import Raw

from treadle.messages import Audio, Part, Reasoning, Text
from treadle.ports.model import ModelDelta, ReasoningPiece, TextPiece
from treadle.providers._json import cleaned, encode
from treadle.providers.gemini.dialect import GeminiDialect, Wire
from treadle.providers.gemini.media import is_sound_in_pieces
from treadle.providers.gemini.objects import NUL, arguments_of, decode_part
from treadle.providers.gemini.part_args import add_pieces
from treadle.providers.gemini.part_reader import owned, read_call, read_part
from treadle.values import clean, is_object


class PartFold:
    """Collects parts in the order they come.

    Pieces of text that follow each other are one part, and so are thoughts; but a signed part
    stays by itself, for it has to go back as it came.
    """

    __slots__ = (
        "_calls",
        "_dialect",
        "_half",
        "_ids",
        "_open",
        "_pieces",
        "_thinks",
        "parts",
        "said",
    )

    def __init__(self, dialect: GeminiDialect) -> None:
        self._dialect = dialect
        self._pieces: list[str] = []  # of the text or thought that is coming in
        self._thinks = False  # it is a thought
        self._half = ""  # of a surrogate pair
        self._open: Wire | None = None  # a call whose arguments come in pieces
        self._calls = 0
        self._ids: list[object] = []
        self.parts: list[Part] = []
        self.said: list[str] = []  # all text

    def take(self, raw: Raw, deltas: list[ModelDelta]) -> bool:
        """Take a part, and return whether it was nothing but clean text."""
        part = decode_part(raw)
        text = part.get("text")
        if isinstance(text, str) and part.keys() <= {"text", "thought"}:
            plain, text = self._mended(text)
            self.say(text, part.get("thought") is True, deltas)
            return plain
        if is_object(part.get("functionCall")):
            self._call(part, raw)
        elif part:
            self._add_part(read_part(cleaned(part), self._dialect, host=self._dialect.host))
            if isinstance(text, str) and text:
                self._tell(clean(text), part.get("thought") is True, deltas)
        return False

    def say(self, text: str, thinks: bool, deltas: list[ModelDelta]) -> None:
        """Take clean text, or a thought."""
        if thinks is not self._thinks:
            self.close()
            self._thinks = thinks
        if text:
            self._pieces.append(text)
            if thinks:
                deltas.append(ReasoningPiece(text))
            else:
                self.said.append(text)
                deltas.append(TextPiece(text))

    def _mended(self, text: str) -> tuple[bool, str]:
        """Return clean text; half a surrogate pair waits for the other half in the next piece."""
        if not text:
            return True, text
        whole = self._half + text
        self._half = whole[-1:] if "\ud800" <= whole[-1] <= "\udbff" else ""
        mended = clean(whole[:-1] if self._half else whole)
        return mended == text and not self._half, mended

    def _tell(self, text: str, thinks: bool, deltas: list[ModelDelta]) -> None:
        if thinks:
            deltas.append(ReasoningPiece(text))
        else:
            self.said.append(text)
            deltas.append(TextPiece(text))

    def _add_part(self, part: Part) -> None:
        self.close()
        last = self.parts[-1] if self.parts else None
        if (
            isinstance(part, Audio)
            and isinstance(last, Audio)
            and part.media_type == last.media_type
            and is_sound_in_pieces(part.media_type or "")
        ):
            content = (last.content or b"") + (part.content or b"")
            self.parts[-1] = Audio(
                content=content, media_type=part.media_type, provider=last.provider
            )
            return
        self.parts.append(part)

    def close(self) -> None:
        """Make a part of the text, or the call, that is coming in."""
        if self._half:
            self._pieces.append(clean(self._half))
            self._half = ""
        text = "".join(self._pieces)
        self._pieces = []
        if text and self._thinks:
            opaque = owned({"thought": True}, self._dialect.host)
            self.parts.append(Reasoning(text, provider=opaque))
        elif text:
            self.parts.append(Text(text))
        if self._open is not None:
            self._end_call()

    def _call(self, part: Wire, raw: Raw) -> None:
        """Take a call; on Vertex AI its arguments may come in pieces."""
        function: Wire = part["functionCall"]
        if self._open is not None and not function.get("name"):
            self._continue(function)
            return
        self.close()
        arguments = arguments_of(raw)
        if function.get("willContinue") or function.get("partialArgs"):
            self._open = {**part, "functionCall": {**function, "args": function.get("args") or {}}}
            self._continue(function)
            return
        if arguments is None or NUL in bytes(raw) or not arguments.startswith("{"):
            arguments = encode(cleaned(function.get("args") or {})).decode()
        self._add_call(cleaned(part), arguments)

    def _continue(self, function: Wire) -> None:
        call = self._open
        if call is None:
            return
        add_pieces(call["functionCall"]["args"], function.get("partialArgs"))
        if not function.get("willContinue"):
            self._end_call()

    def _end_call(self) -> None:
        call, self._open = self._open, None
        if call is not None:
            whole = cleaned(call)
            self._add_call(whole, encode(whole["functionCall"]["args"]).decode())

    def _add_call(self, part: Wire, arguments: str) -> None:
        self._calls += 1
        call_id = f"call_{self._calls}"
        function: Wire = part["functionCall"]
        given = function.get("id")
        if given in self._ids:  # then order and name have to tell them apart
            part = {**part, "functionCall": {**function, "id": None}}
        self._ids.append(given)
        self.parts.append(read_call(part, arguments, call_id, host=self._dialect.host))
