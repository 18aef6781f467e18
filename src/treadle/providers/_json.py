"""JSON as it crosses the border: decoded whatever a server wrote, encoded so that any takes it."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from treadle.values import clean, is_array, is_object

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<bad>\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))|\\.",
    re.DOTALL,
)


def encode(value: object) -> bytes:
    """Return JSON, of a Struct too, without NUL and lone surrogates, which servers refuse."""
    try:
        encoded = _encode(value)
    except UnicodeEncodeError:
        return _encode(cleaned(msgspec.to_builtins(value)))
    return _encode(cleaned(msgspec.to_builtins(value))) if b"\\u0000" in encoded else encoded


def decode(body: bytes) -> Any:
    """Return the decoded value with clean text; broken UTF-8 becomes U+FFFD.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        decoded = _decode(body)
        return cleaned(decoded) if b"\\u0000" in body else decoded
    except msgspec.DecodeError:
        return cleaned(json.loads(body.decode("utf-8", "replace")))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def cleaned(value: Any) -> Any:
    """Return a JSON value with `clean` applied to every text in it."""
    if isinstance(value, str):
        return clean(value)
    if is_object(value):
        return {clean(key): cleaned(item) for key, item in value.items()}
    if is_array(value):
        return [cleaned(item) for item in value]
    return value


def mended(raw: str) -> str:
    r"""Return arguments in which no escape stands for NUL or half a surrogate pair.

    A model may well write ``\ud83d`` alone; the text it means can go nowhere.
    """
    if "\\u" in raw:
        return _ESCAPES.sub(lambda found: r"\ufffd" if found["bad"] else found[0], raw)
    return raw
