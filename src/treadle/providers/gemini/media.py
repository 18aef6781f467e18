"""Pictures, sounds and documents as Gemini's parts, and the other way round."""

from __future__ import annotations

import base64
import mimetypes
import re
from typing import Any

from treadle.errors import InvalidInput
from treadle.messages import Audio, File, Image
from treadle.providers.gemini.dialect import VERTEX, GeminiDialect, Wire
from treadle.values import is_object
from treadle.values.media import sniff

Medium = Image | Audio | File

FILES = "https://generativelanguage.googleapis.com/v1beta/files/"
"""Where files are that were uploaded to the Gemini API."""

_IMAGES = {"image/png", "image/jpeg", "image/jpg", "image/webp", "image/heic", "image/heif"}
_IN_RESULTS = {"image/png", "image/jpeg", "image/jpg", "image/webp", "application/pdf"}
_AS_TEXT = re.compile(r"application/(json|xml|yaml|x-yaml|toml|x-sh|sql|.*\+(json|xml))")
_ENDINGS = {
    **mimetypes.types_map,  # what is built in: to look at the system's own lists would block
    ".webp": "image/webp",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
}
_URL_SAFE = str.maketrans("-_", "+/")


def medium_wire(part: Medium, dialect: GeminiDialect) -> Wire:
    """Return the part that shows it; what the API does not take is a note in words."""
    if type(part) is Image and not dialect.vision:
        return {"text": "[Image: left out, this model takes no images]"}
    media_type = _media_type(part)
    address = _address(part, dialect)
    if address:
        return {"fileData": {"fileUri": address, "mimeType": media_type}}
    if not part.content:
        return {"text": _note(part, "its content is not at hand")}
    if _AS_TEXT.fullmatch(media_type):
        name = getattr(part, "name", None) or "file"
        return {"text": f"File {name}:\n{part.content.decode('utf-8', 'replace')}"}
    if not _is_taken(media_type):
        return {"text": _note(part, f"this API takes no {media_type}")}
    return {"inlineData": {"data": part.base64, "mimeType": media_type}}


def goes_into_results(wire: Wire, dialect: GeminiDialect) -> bool:
    """Whether a result of a function may hold this medium; else it is shown after it."""
    if dialect.generation < 3:
        return False
    inner = wire.get("inlineData") or wire["fileData"]
    address = inner.get("fileUri")
    if address and dialect.host != VERTEX and not address.startswith(FILES):
        return False
    return inner["mimeType"] in _IN_RESULTS


def read_medium(wire: Wire) -> Medium | None:
    """Return the medium in a part's `inlineData` or `fileData`, None when that cannot be read."""
    inline, file = wire.get("inlineData"), wire.get("fileData")
    try:
        if is_object(inline):
            media_type = str(inline.get("mimeType") or "application/octet-stream")
            content = content_of(inline.get("data"))
            return _shape(media_type).from_bytes(content, media_type) if content else None
        if is_object(file) and isinstance(file.get("fileUri"), str):
            given = file.get("mimeType")
            media_type = given if isinstance(given, str) else None
            address: str = file["fileUri"]
            return _shape(str(media_type)).from_url(address, media_type=media_type)
    except (InvalidInput, ValueError):
        pass
    return None


def content_of(data: object) -> bytes:
    """Return the bytes of base64 text, in either of its alphabets.

    Raises:
        ValueError: it is no base64.
    """
    text = data.translate(_URL_SAFE) if isinstance(data, str) else ""
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def is_sound_in_pieces(media_type: str) -> bool:
    """Whether sound of this type has no head, so that pieces of it are one when joined."""
    return media_type.lower().startswith(("audio/l16", "audio/pcm"))


def _shape(media_type: str) -> type[Any]:
    kind = media_type.partition("/")[0]
    return {"image": Image, "audio": Audio}.get(kind, File)


def _media_type(part: Medium) -> str:
    known = part.media_type or (sniff(part.content) if part.content else None)
    if known is None and part.url:
        known = _ENDINGS.get(f".{part.url.partition('?')[0].rpartition('.')[2].lower()}")
    if known:
        return known.partition(";")[0] if known.startswith("text/") else known
    if type(part) is Image:
        return "image/jpeg"
    return "audio/mpeg" if type(part) is Audio else "application/pdf"


def _address(part: Medium, dialect: GeminiDialect) -> str | None:
    """Return where the server is to fetch it; an ID of another provider's upload is none."""
    if part.url:
        return part.url
    name = part.file_id if type(part) is File else None
    if name and "://" in name:
        return name
    if name and name.startswith("files/") and dialect.host != VERTEX:
        return FILES + name.removeprefix("files/")
    return None


def _is_taken(media_type: str) -> bool:
    if media_type.startswith("image/"):
        return media_type in _IMAGES
    return media_type.startswith(("audio/", "video/", "text/")) or media_type == "application/pdf"


def _note(part: Medium, why: str) -> str:
    name = getattr(part, "name", None)
    said = getattr(part, "transcript", None)
    label = f"{type(part).__name__} {name}" if name else type(part).__name__
    return f"[{label}: left out, {why}{f'; it says: {said}' if said else ''}]"
