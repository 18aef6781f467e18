"""Pictures in what a plugin answers: those that are whole become parts, others are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from treadle.errors import InvalidInput
from treadle.messages import Detail, Image
from treadle.values.logs import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logger(__name__)

ADDRESSES = ("https://", "http://", "data:image/")
"""What the address of a picture begins with; a provider fetches it, or the bytes are in it."""


def image_at(plugin: str, url: str, detail: str = "") -> Image | None:
    """Return the picture at an address, None where that is none."""
    if not url.lower().startswith(ADDRESSES):
        return _left_out(plugin, "its address does not begin with https:, http: or data:image/")
    known = cast("Detail | None", detail if detail in get_args(Detail) else None)
    try:
        image = Image.from_url(url, detail=known)
    except InvalidInput:
        return _left_out(plugin, "its address cannot be read")
    return image if image.url or image.content else _left_out(plugin, "it has no bytes")


def image_of(plugin: str, media_type: str, content: bytes) -> Image | None:
    """Return the picture of these bytes, None where there are none or they are no picture."""
    if not content or not media_type.lower().startswith("image/"):
        found = f"it has {len(content)} bytes of type {media_type[:60]!r}"
        return _left_out(plugin, found)
    return Image.from_bytes(content, media_type)


def whole(images: Iterable[Image | None]) -> list[Image]:
    """Return the pictures that there are."""
    return [image for image in images if image is not None]


def _left_out(plugin: str, why: str) -> None:
    log.warning("An image of the plugin %r is left out: %s.", plugin, why)
