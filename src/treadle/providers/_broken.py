"""What the errors of a network mean to who asked a model."""

from __future__ import annotations

import os

import aiohttp
from yarl import URL

from treadle.errors import BadReply, IncompleteReply, ModelError, ModelTimeout, Overloaded
from treadle.values.secret import masked

CONNECT_SECONDS = 10.0
NETWORK_ERRORS = (
    aiohttp.ClientError,
    aiohttp.http.HttpProcessingError,
    OSError,
    ValueError,
)
"""What sending a request may raise."""
READ_ERRORS = (aiohttp.ClientError, OSError)
"""What reading an answer may raise."""


def unanswered(error: Exception, url: URL, seconds: float) -> ModelError:
    """Return what a request without an answer means."""
    place, reason = _place(url), _reason(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ModelTimeout(f"No connection to {place} within {CONNECT_SECONDS:g} s.")
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"{place} gave no sign of life for {seconds:g} s; raise `timeout`.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return Overloaded(f"No safe connection to {place}: {reason}.", retryable=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        return Overloaded(f"Cannot reach {place}: {reason}. Is base_url right and the server up?")
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.http.HttpProcessingError):
        text = str(error.message).strip().replace("\n", " ")
        return BadReply(f"{place} answered with something that is not HTTP: {text[:200]}")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return ModelError(f"The request to {place} cannot be sent: that is no http address.")
    if isinstance(error, ValueError):
        return ModelError(f"The request to {place} cannot be sent: {masked(str(error), ())}")
    return Overloaded(f"{place} dropped the connection before it answered: {reason}.")


def broken(error: Exception, url: URL) -> ModelError:
    """Return what an answer without an end means."""
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"{_place(url)} stopped in the middle of its reply; gave up waiting.")
    early = isinstance(error, aiohttp.ClientPayloadError)  # its text is aiohttp's own internals
    reason = "it was closed before the end that was announced" if early else _reason(error)
    return IncompleteReply(
        f"The connection to {_place(url)} broke in the middle of the reply: {reason}. Try again; "
        "if it stays so, look at the server's log and at any proxy on the way.",
        retryable=True,
    )


def _place(url: URL) -> str:
    host = url.raw_host  # decoding it may fail
    return f"{host}:{url.port}" if url.port not in (80, 443) else str(host)


def _reason(error: Exception) -> str:
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    number = getattr(inner, "errno", None)
    if number and "Connect call failed" in str(text):  # asyncio's words, with a bare address
        return os.strerror(number).lower()
    return str(text).rstrip(".")
