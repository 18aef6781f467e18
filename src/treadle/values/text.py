"""Clean text, so that stores and providers can take it."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Replace what no store or provider takes: NUL and lone surrogates become U+FFFD.

    Two surrogates that make a pair become the one character they stand for. Text with nothing
    wrong comes back as the same object.
    """
    if text.isascii() or is_encodable(text):
        return text if "\0" not in text else text.replace("\0", REPLACEMENT)
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", REPLACEMENT)


def is_clean(text: str) -> bool:
    """Whether the text holds neither NUL nor surrogates."""
    return (text.isascii() or is_encodable(text)) and "\0" not in text


def is_encodable(text: str) -> bool:
    """Whether the text is valid UTF-8 once encoded; encoding is the quickest way to know."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
