"""Media as bytes and addresses: what type they are, and what a data: URL holds."""

from __future__ import annotations

import base64
import mimetypes
import re
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from treadle.errors import InvalidInput


def split_data_url(url: str) -> tuple[str, bytes]:
    """Return the media type and bytes of a ``data:`` URL (RFC 2397)."""
    head, comma, body = url.removeprefix("data:").partition(",")
    if not comma:
        raise InvalidInput(f"{url[:60]!r} is not a data: URL; it has no comma.")
    kind = head.partition(";")[0] or "text/plain"
    try:
        return kind, base64.b64decode(body) if head.endswith(";base64") else body.encode()
    except ValueError as error:
        raise InvalidInput(f"The data: URL {url[:60]!r} is not valid base64.") from error


def sniff(content: bytes) -> str | None:
    """Return the media type that the first bytes show, or None."""
    for magic, media_type in _MAGIC:
        if content.startswith(magic):
            return media_type
    if content[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(content[8:12])
    return None


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


class Media(Struct, frozen=True, omit_defaults=True, gc=False):
    """Bytes or an address. Exactly one of `url` and `content` is set."""

    url: str | None = None
    content: bytes | None = None
    media_type: str | None = None

    @classmethod
    def from_url(cls, url: str, **fields: Any) -> Self:
        """Point to media the provider fetches itself; a data: URL is decoded to bytes."""
        if url.startswith("data:"):
            media_type, content = split_data_url(url)
            return cls(content=content, media_type=media_type, **fields)
        if not re.match(r"^[A-Za-z][A-Za-z0-9+.-]*:", url):
            raise InvalidInput(f"{url[:80]!r} is not a URL; use from_file for paths.")
        return cls(url=url, **fields)

    @classmethod
    def from_bytes(cls, content: bytes, media_type: str, **fields: Any) -> Self:
        """Carry the bytes themselves; `media_type` is for example "image/png"."""
        if not content:
            raise InvalidInput(f"{cls.__name__} has no bytes.")
        return cls(content=bytes(content), media_type=media_type, **fields)

    @classmethod
    def from_base64(cls, text: str, media_type: str, **fields: Any) -> Self:
        """Carry bytes given as standard or URL-safe base64; line breaks are allowed."""
        try:
            content = base64.b64decode(re.sub(r"\s+", "", text).translate(_URL_SAFE), validate=True)
        except ValueError as error:
            raise InvalidInput(f"{cls.__name__}: not base64: {text[:40]!r}.") from error
        return cls.from_bytes(content, media_type, **fields)

    @classmethod
    def from_file(cls, path: str | Path, *, media_type: str | None = None, **fields: Any) -> Self:
        """Read a file now; the media type comes from its first bytes, then from its name."""
        place = Path(path)
        try:
            content = place.read_bytes()
        except OSError as error:
            raise InvalidInput(
                f"{cls.__name__}: cannot read {str(place)!r}: {error.strerror}."
            ) from error
        found = media_type or sniff(content) or mimetypes.guess_type(place.name)[0]
        if "name" in cls.__struct_fields__:
            fields.setdefault("name", place.name)
        return cls.from_bytes(content, found or "application/octet-stream", **fields)

    @property
    def base64(self) -> str:
        """The bytes as base64 text, "" when this is a URL."""
        return base64.b64encode(self.content or b"").decode("ascii")

    @property
    def data_url(self) -> str:
        """The address, or the bytes as a data: URL."""
        return self.url or f"data:{self.media_type};base64,{self.base64}"


_URL_SAFE = str.maketrans("-_", "+/")
