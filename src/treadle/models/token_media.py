"""About how many tokens pictures, sound, films and documents have with one vendor's models.

Never told from the bytes of a picture: from its size, as each vendor says that it counts
(https://developers.openai.com/api/docs/guides/images-vision,
https://platform.claude.com/docs/en/build-with-claude/vision,
https://ai.google.dev/gemini-api/docs/tokens). `estimate_media` has bounds for all of them instead.
"""

from __future__ import annotations

import re
from math import ceil

from treadle.messages import Audio, File, Image
from treadle.models.estimate_media import pages_of, size_of
from treadle.models.token_habits import Habits
from treadle.models.token_text import TOKEN, weigh

_PATCHED = re.compile(r"mini|nano|gpt-5\.[2-9]|gpt-[6-9]")
_SMALL = 1.62
"""Tokens for a patch of 32 pixels with OpenAI's small models, the most common of its figures."""
_MOST_PATCHES = 1_536
_THIRD = re.compile(r"gemini-(flash|pro)?-?([3-9]|latest)")
_SQUARES = re.compile(r"gemini-(1|2\.0)")
_SQUARE = 258
_PAGES = {"anthropic": 2_000, "google": 258, "openai": 500, "other": 1_000}
_UNKNOWN = (1_024, 768)
"""The size of a picture of which only the address is known."""
_UNKNOWN_PAGES = 3
_UNKNOWN_SECONDS = 30.0
_SECOND = {"google": 32.0, "openai": 10.0, "anthropic": 25.0, "other": 25.0}
"""Tokens for a second of sound."""
_FILM_SECOND = 290.0
_FILM_BYTES = 100_000
_SOUND_BYTES = {"wav": 32_000, "flac": 60_000, "mp3": 12_000, "aac": 12_000, "m4a": 12_000}
_VOICE_BYTES = 4_000
"""Bytes of a second of film, and of sound in these codecs and in others."""


def tokens_of_media(part: Image | Audio | File, habits: Habits) -> int:
    """Return about how many tokens a part has beside its name and transcript."""
    kind = (part.media_type or "").partition(";")[0].strip().lower()
    match part:
        case Image():
            return _picture(part.content, part.detail, habits)
        case Audio():
            return _sound(part.content, part.format, habits)
        case File():
            if kind.startswith("image/"):
                return _picture(part.content, None, habits)
            if kind.startswith("audio/"):
                return _sound(part.content, Audio(media_type=kind).format, habits)
            if kind.startswith("video/"):
                return _film(part.content, habits)
            return _document(part.content, kind, habits)


def _picture(content: bytes | None, detail: str | None, habits: Habits) -> int:
    width, height = (size_of(content) if content else None) or _UNKNOWN
    width, height = max(width, 1), max(height, 1)
    match habits.vendor:
        case "openai":
            return _at_openai(width, height, detail, habits.name)
        case "google":
            return _at_google(width, height, habits.name)
        case "anthropic" | "other":
            shrunk = min(1.0, 1_568 / max(width, height))
            return ceil(min(width * height * shrunk * shrunk / 750, 1_640)) + 3


def _at_openai(width: int, height: int, detail: str | None, name: str) -> int:
    if _PATCHED.search(name):
        patches = min(ceil(width / 32) * ceil(height / 32), _MOST_PATCHES)
        return ceil(min(patches, 256 if detail == "low" else patches) * _SMALL)
    first, each = (70, 140) if "gpt-5" in name else (75, 150) if name[:1] == "o" else (85, 170)
    if detail == "low":
        return first
    shrunk = min(1.0, 2_048 / max(width, height), 768 / min(width, height))
    return first + each * ceil(width * shrunk / 512) * ceil(height * shrunk / 512)


def _at_google(width: int, height: int, name: str) -> int:
    if _THIRD.search(name):
        return 1_070
    if not _SQUARES.search(name) or max(width, height) <= 384:
        return _SQUARE
    side = min(max(min(width, height) / 1.5, 256 if min(width, height) > 384 else 1), 768)
    return _SQUARE * (1 + min(ceil(width / side) * ceil(height / side), 16))


def _sound(content: bytes | None, short: str, habits: Habits) -> int:
    seconds = _UNKNOWN_SECONDS
    if content is not None:
        rate = _SOUND_BYTES.get(short, _VOICE_BYTES)
        if content[:4] == b"RIFF" and content[8:16] == b"WAVEfmt " and len(content) >= 44:
            rate = int.from_bytes(content[28:32], "little") or rate
        seconds = len(content) / rate
    return ceil(seconds * _SECOND[habits.vendor])


def _film(content: bytes | None, habits: Habits) -> int:
    seconds = _UNKNOWN_SECONDS if content is None else len(content) / _FILM_BYTES
    return ceil(seconds * (_FILM_SECOND / 3 if _THIRD.search(habits.name) else _FILM_SECOND))


def _document(content: bytes | None, kind: str, habits: Habits) -> int:
    page = 530 if _THIRD.search(habits.name) else _PAGES[habits.vendor]
    if content is None:
        return _UNKNOWN_PAGES * page
    if kind == "application/pdf" or content.startswith(b"%PDF-"):
        return pages_of(content) * page
    return ceil(weigh(content.decode("utf-8", "replace")) / TOKEN)
