"""Gemini's parts as ours, in replies and in requests."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.messages import Audio, File, Hosted, Image, Opaque, Part, Reasoning, Text, ToolCall
from treadle.providers._json import mended
from treadle.providers.gemini.dialect import HOST, PROTOCOL, GeminiDialect, Wire
from treadle.providers.gemini.media import content_of, medium_wire, read_medium
from treadle.values import is_object

_TOOLS = {
    "executableCode": "code_execution",
    "codeExecutionResult": "code_execution",
    "GOOGLE_SEARCH_WEB": "google_search",
    "GOOGLE_SEARCH_IMAGE": "google_search",
}
"""Our names of what the provider runs itself."""


def read_part(wire: Wire, dialect: GeminiDialect, *, host: str | None = None) -> Part:
    """Return a part that is neither a function's call nor its result.

    What it says beside its text or bytes rides along, marked with `host` where that is given; a
    part of no known kind does as a whole.
    """
    text = wire.get("text")
    if isinstance(text, str):
        return _text(text, wire, host)
    medium = None if wire.get("thought") else read_medium(wire)
    if medium is not None:
        return _medium(medium, wire, dialect, host)
    return Hosted(hosted_name(wire), owned(wire, host))


def read_call(wire: Wire, raw: str, call_id: str, *, host: str | None = None) -> ToolCall:
    """Return a function's call, under `call_id` unless the server gave it an ID."""
    function: Wire = wire["functionCall"]
    given = function.get("id")
    kept = {name: value for name, value in wire.items() if name != "functionCall"}
    if isinstance(given, str) and given:
        kept["id"] = call_id = given
    inner = {name: value for name, value in function.items() if name not in _OF_CALLS}
    if inner:
        kept["functionCall"] = inner
    return ToolCall(
        call_id,
        str(function.get("name") or ""),
        mended(raw),
        call_id if "id" in kept else None,
        owned(kept, host) if kept else None,
    )


def hosted_name(wire: Wire) -> str:
    """Return the name of the tool that a step is of, else of the field that holds it."""
    for field in ("toolCall", "toolResponse"):
        inner = wire.get(field)
        if is_object(inner):
            kind = str(inner.get("toolType") or field)
            return _TOOLS.get(kind, kind.lower())
    if wire.get("thought"):
        return "thought"
    return next((_TOOLS.get(name, name) for name in wire if name != "thoughtSignature"), "nothing")


def owned(kept: Wire, host: str | None) -> Opaque:
    """Return opaque data that only this host gets back."""
    return {PROTOCOL: kept if host is None else {HOST: host, **kept}}


_OF_CALLS = {"id", "name", "args", "willContinue", "partialArgs"}


def _text(text: str, wire: Wire, host: str | None) -> Text | Reasoning:
    kept = {name: value for name, value in wire.items() if name != "text"}
    signature = kept.get("thoughtSignature")
    if kept.get("thought") is True or (not text and isinstance(signature, str)):
        signed = isinstance(signature, str)
        if signed:
            del kept["thoughtSignature"]
        return Reasoning(text, str(signature) if signed else None, provider=owned(kept, host))
    if not text or (host is None and text.isspace()):  # so that it is sent at all
        kept = wire
    return Text(text, owned(kept, host) if kept else None)


def _medium(
    medium: Image | Audio | File, wire: Wire, dialect: GeminiDialect, host: str | None
) -> Image | Audio | File:
    """Return the medium with what it would not be sent with, which may be the whole part."""
    built = medium_wire(medium, dialect)
    plain = _plain(wire)
    extra = {name: value for name, value in plain.items() if built.get(name) != value}
    if not extra.keys().isdisjoint(built) or not built.keys() <= plain.keys():
        extra = plain
    if extra or host is not None:  # a picture that the model made goes back to it
        return replace(medium, provider=owned(extra, host))
    return medium


def _plain(wire: Wire) -> Wire:
    """Return a part whose bytes are in the usual alphabet."""
    inline = wire.get("inlineData")
    if not is_object(inline):
        return wire
    data = Image(content=content_of(inline.get("data"))).base64
    return {**wire, "inlineData": {**inline, "data": data}}
