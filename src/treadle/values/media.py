"""Media as bytes and addresses: what type they are, and what a data: URL holds."""

from __future__ import annotations

import base64

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
