"""JSON as it crosses the border: decoded whatever a server wrote, encoded so that any takes it."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from treadle.values import clean, is_array, is_object

DEEPEST = 200
"""Levels of nesting that are read: what comes in has to go out again, whatever the stack."""
CUT = "(cut: nested too deeply)"
"""What stands where the rest of a value is nested more deeply than is read."""
NOT_AN_OBJECT = "not_a_json_object"
"""The lone field of arguments that could not be sent as what they are."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<bad>\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))|\\.",
    re.DOTALL,
)
_STRINGS = re.compile(rb'(?s)"(?:[^"\\]++|\\.?)*+"?')
_TOKENS = re.compile(_STRINGS.pattern + rb"|[\[\]{}]")
_CUT = b'"' + CUT.encode() + b'"'
_OPENING = b"[{"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


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
    body = shallow(body)
    try:
        decoded = _decode(body)
        return cleaned(decoded) if b"\\u0000" in body else decoded
    except msgspec.DecodeError:
        return cleaned(decode_halves(body))


def decode_halves(body: bytes) -> Any:
    """Return the decoded value as it is: a piece may end in half a surrogate pair.

    A number of more digits than Python reads is the text of these.

    Raises:
        ValueError: it is not JSON.
    """
    return _decode_any(shallow(body).decode("utf-8", "replace"))


def is_deep(body: bytes) -> bool:
    """Whether JSON is nested more deeply than is read; hardly any has so many brackets at all."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return False
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        if depth > DEEPEST:
            return True
    return False


def shallow(body: bytes) -> bytes:
    """Return JSON in which CUT stands for what is nested more deeply than is read."""
    if not is_deep(body):
        return body
    kept: list[bytes] = []
    depth = begin = 0
    for found in _TOKENS.finditer(body):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept += (body[begin : found.start()], _CUT)
        elif token in (b"]", b"}"):
            if depth == DEEPEST + 1:
                begin = found.end()
            depth -= 1
    return b"".join([*kept, body[begin:]]) if depth <= DEEPEST else b"".join(kept)


def arguments_json(raw: str) -> str:
    """Return a call's arguments as the model wrote them, or an object that holds what it wrote."""
    raw = mended(raw)
    try:
        body = raw.encode()
        if not is_deep(body) and is_object(_decode(body)):
            return raw
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    if raw.strip() in ("", "null"):
        return "{}"
    body = clean(raw).encode()
    try:
        decoded = None if is_deep(body) else decode(body)
    except ValueError:
        decoded = None
    return encode(decoded if is_object(decoded) else {NOT_AN_OBJECT: raw}).decode()


def object_schema(schema: object) -> tuple[dict[str, Any], str]:
    """Return a tool's parameters as servers take them, and what was taken out, in words.

    The top has to be an object without alternatives.
    """
    given = schema if is_object(schema) else {}
    taken = {name: given[name] for name in ("anyOf", "oneOf", "allOf") if name in given}
    if not taken and given.get("type") == "object":
        return given, ""
    left = {name: value for name, value in given.items() if name not in taken}
    words = f"The input also has to satisfy {encode(taken).decode()}" if taken else ""
    return {**left, "type": "object"}, words


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

    A model may well write ``\ud83d`` alone; the text it means can go nowhere. What was cut is
    no JSON any more, so that nobody takes the rest for all of it.
    """
    raw = raw.replace(f'"{CUT}"', CUT)
    if "\\u" in raw:
        return _ESCAPES.sub(lambda found: r"\ufffd" if found["bad"] else found[0], raw)
    return raw


def _number(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


_decode_any = json.JSONDecoder(parse_int=_number).decode
