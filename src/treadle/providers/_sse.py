"""Read a server-sent event stream: bytes in, event payloads out."""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"
_PLAIN = b"data: "
_NEXT = b"\n\ndata: "
_NAMED = b"event: "
_UNNAMED = b"\n\ndata"
_DATA = b"\ndata: "


class SseReader:
    """An incremental reader of ``text/event-stream`` (WHATWG HTML, 9.2.6).

    It frames on bytes, so a read may end anywhere, also inside a character. Only CR, LF and CRLF
    end a line. Comments and the fields `event`, `id` and `retry` are skipped: the protocols we
    speak repeat in the payload whatever those say.
    """

    __slots__ = ("_after_cr", "_data", "_more", "_rest", "_started")

    def __init__(self) -> None:
        self._rest = b""
        self._more: list[bytes] = []  # what came after the rest and completes no event either
        self._data: list[bytes] = []  # the lines of an event that has not ended
        self._after_cr = False  # the last read ended in CR: an LF that follows belongs to it
        self._started = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the payloads of the events that `piece` completes."""
        if not piece:
            return []
        buffer = piece
        if self._rest:
            if self._started and self._goes_on(piece):
                self._more.append(piece)
                return []
            buffer = self._joined(piece)
        if self._data or self._after_cr or not self._started:
            return self._read_carefully(buffer)
        end = buffer.rfind(b"\n\n")
        if end < 0 and b"\r" not in buffer and buffer.startswith(_PLAIN):
            self._rest = buffer
            return []
        head = buffer[:end] if end >= 0 else b""
        # The common stream is one "data: {...}" line and a blank line per event, and nothing else.
        # Cut at every "\n\ndata: ", it has no line ends left but those that were cut.
        if head.startswith(_PLAIN) and b"\r" not in buffer:
            payloads = head[6:].split(_NEXT)
            if head.count(b"\n") == 2 * len(payloads) - 2:
                self._rest = buffer[end + 2 :]
                return payloads if all(payloads) else list(filter(None, payloads))
        # The other common stream has an "event: name" line before each data line.
        elif head.startswith(_NAMED) and b"\r" not in buffer and _UNNAMED not in head:
            events = head.split(b"\n\n")
            payloads = [event.partition(_DATA)[2] for event in events]
            if head.count(b"\n") == 3 * len(payloads) - 2 and all(payloads):
                self._rest = buffer[end + 2 :]
                return payloads
        return self._read_lines(buffer)

    def end(self) -> list[bytes]:
        """Return the payload of a last event whose blank line never came, if there is one."""
        rest, self._rest, self._after_cr = self._joined(b""), b"", False
        if not self._started:
            rest = rest.removeprefix(_BOM)
        return self._read_lines(rest + b"\n\n")

    def _goes_on(self, piece: bytes) -> bool:
        """Whether a piece after the rest completes no event; only what is new is looked at."""
        if b"\n\n" in piece or b"\r" in piece:
            return False
        last = self._more[-1] if self._more else self._rest
        return not (piece.startswith(b"\n") and last.endswith(b"\n"))

    def _joined(self, piece: bytes) -> bytes:
        """Return the rest with all that came after it."""
        if not self._more:
            return self._rest + piece
        whole = b"".join((self._rest, *self._more, piece))
        self._more.clear()
        return whole

    def _read_carefully(self, buffer: bytes) -> list[bytes]:
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            self._started = True
            self._rest = b""
            return self.feed(buffer.removeprefix(_BOM))
        if self._after_cr:
            self._after_cr = False
            return self.feed(buffer.removeprefix(b"\n"))
        return self._read_lines(buffer)

    def _read_lines(self, buffer: bytes) -> list[bytes]:
        lines = buffer.splitlines(keepends=True)  # of bytes: splits at CR, LF and CRLF only
        self._rest = b""
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            self._rest = lines.pop()
        self._after_cr = bool(lines) and not self._rest and lines[-1].endswith(b"\r")
        payloads: list[bytes] = []
        data = self._data
        for ended in lines:
            line = ended.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(_PLAIN) else line[5:])
            elif not line:
                if len(data) == 1:
                    if data[0]:
                        payloads.append(data[0])
                elif data:
                    payloads.append(b"\n".join(data))
                data.clear()
            elif line == b"data":
                data.append(b"")
        return payloads
