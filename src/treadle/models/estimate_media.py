"""About how many tokens pictures, sound, films and documents have, never too few for common ones.

Nobody knows here which model is asked, so each figure is that of the vendor who counts most:

* Pictures: OpenAI counts patches of 32 pixels, times 1.2 or, on its smallest models, 2.46, at most
  1,536 or 2,500 of them where `detail` is "low" or "high", all of them otherwise
  (https://developers.openai.com/api/docs/guides/images-vision); Claude counts a token for each 750
  pixels, at most 4,784 (https://platform.claude.com/docs/en/build-with-claude/vision); Gemini at
  most about 1,100 (https://ai.google.dev/gemini-api/docs/media-resolution). What has 12 megapixels
  was measured at 14,364 with GPT-6, 4,005 with Claude and 1,065 with Gemini
  (https://huggingface.co/datasets/JOHNISKING/image-token-cost). Not covered is gpt-4o-mini, which
  counts 25,501 and more for the same picture.
* PDF: Claude reads a page as 1,500 to 3,000 tokens of text and as a picture
  (https://platform.claude.com/docs/en/build-with-claude/pdf-support); others count less.
* Sound and films: Gemini counts 32 tokens for a second of sound, and about 300 for one of film
  (https://ai.google.dev/gemini-api/docs/tokens).
"""

from __future__ import annotations

import re
import zlib
from math import ceil

from treadle.messages import Audio, File, Image

BYTES_PER_TOKEN = 3
"""A low figure on purpose: an estimate that is too high only stops a run a little early."""
LEAST_IMAGE = 1_600
LARGE_IMAGE = 14_400
"""A picture of 12 megapixels; one of which nobody knows the size is taken to be that large."""
_PATCH = 32
_SMALL_MODELS = (2.46, 3_779)  # tokens for a patch, and at most
_CLAUDE = (_PATCH * _PATCH / 750, 4_784)
PAGE = 3_000 + 4_784
PAGE_BYTES = 10_000
"""Bytes for a page of a PDF whose pages cannot be counted."""
SOUND_BYTES = {"wav": 250, "mp3": 125, "flac": 125, "aac": 125, "mp4": 125, "m4a": 125}
"""Bytes of sound for a token: a second has at least 8,000 bytes as WAV, 4,000 in these others."""
VOICE_BYTES = 31
"""The same for codecs made for voices, which do with 1,000 bytes a second."""
FILM_BYTES = 100
"""Bytes of film for a token: a second has at least 30,000."""
UNKNOWN_DOCUMENT = 100_000
"""A document or sound of which there is only an address: some 13 pages or 50 minutes."""
UNKNOWN_FILM = 300_000
"""A film of which there is only an address: 17 minutes."""
_INFLATED = 4_000_000
"""So many bytes of each compressed part of a PDF are looked at."""
_PAGES = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_OBJECTS = re.compile(rb"/ObjStm\b.{0,400}?>>\s*stream\r?\n", re.DOTALL)
_FRAMES = frozenset((*range(0xC0, 0xD0),)) - {0xC4, 0xC8, 0xCC}
"""Markers in a JPEG after which its size stands."""


def tokens_of(part: Image | Audio | File) -> int:
    """Return about how many tokens a part has beside its text."""
    kind = (part.media_type or "").partition(";")[0].strip().lower()
    match part:
        case Image():
            return _picture(part.content, part.detail)
        case Audio():
            return _sound(part.content, part.format)
        case File():
            if kind.startswith("image/"):
                return _picture(part.content, None)
            if kind.startswith("audio/"):
                return _sound(part.content, Audio(media_type=kind).format)
            return _document(part.content, kind)


def _document(content: bytes | None, kind: str) -> int:
    if kind.startswith("video/"):
        return UNKNOWN_FILM if content is None else ceil(len(content) / FILM_BYTES)
    if content is None:
        return UNKNOWN_DOCUMENT
    if kind == "application/pdf" or content.startswith(b"%PDF-"):
        return pages_of(content) * PAGE
    return ceil(len(content) / BYTES_PER_TOKEN)


def _sound(content: bytes | None, short: str) -> int:
    if content is None:
        return UNKNOWN_DOCUMENT
    return ceil(len(content) / SOUND_BYTES.get(short, VOICE_BYTES))


def _picture(content: bytes | None, detail: str | None) -> int:
    size = size_of(content) if content else None
    if size is None:
        return max(_CLAUDE[1], LEAST_IMAGE) if detail in ("low", "high") else LARGE_IMAGE
    patches = ceil(size[0] / _PATCH) * ceil(size[1] / _PATCH)
    counts = [min(patches * each, most) for each, most in (_SMALL_MODELS, _CLAUDE)]
    if detail not in ("low", "high"):
        counts.append(patches * 1.2)
    return max(LEAST_IMAGE, ceil(max(counts)))


def pages_of(content: bytes) -> int:
    """Return how many pages a PDF has, also those in its compressed parts."""
    found = len(_PAGES.findall(content))
    for each in _OBJECTS.finditer(content):
        try:
            inflated = zlib.decompressobj().decompress(content[each.end() :], _INFLATED)
        except zlib.error:
            continue
        found += len(_PAGES.findall(inflated))
    return found or ceil(len(content) / PAGE_BYTES)


def size_of(content: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF, WebP or JPEG, or None."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    if content.startswith(b"GIF8") and len(content) >= 10:
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP" and len(content) >= 30:
        return _size_of_webp(content)
    return _size_of_jpeg(content) if content.startswith(b"\xff\xd8") else None


def _size_of_webp(content: bytes) -> tuple[int, int] | None:
    match content[12:16]:
        case b"VP8X":
            width = int.from_bytes(content[24:27], "little") + 1
            return width, int.from_bytes(content[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width = int.from_bytes(content[26:28], "little") & 0x3FFF
            return width, int.from_bytes(content[28:30], "little") & 0x3FFF
        case _:
            return None


def _size_of_jpeg(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker in _FRAMES:
            height = int.from_bytes(content[at + 5 : at + 7])
            return int.from_bytes(content[at + 7 : at + 9]), height
        at += 1 if marker == 0xFF else 2 + int.from_bytes(content[at + 2 : at + 4])
    return None
