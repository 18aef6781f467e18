"""What went wrong with a server, as errors of ours."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from treadle.errors import MCPFailed
from treadle.mcp._sdk import is_closed, refusal_of, status_of
from treadle.values.secret import masked

FORGOTTEN = "Session terminated"
"""How the SDK says that a server does not know the session."""
UNPARSED = -32700
UNTOLD = "Server returned an error response"
"""What the SDK says of a status of HTTP."""


def failure_of(
    error: BaseException, server: str, secrets: Collection[str], status: int = 0
) -> MCPFailed:
    """Return any error of the SDK as ours, without secrets; `status` is that of HTTP, if one."""
    found = leaf(error)
    if isinstance(found, MCPFailed):
        return found
    start = f"MCP server {server!r}"
    if isinstance(found, ValidationError):
        return MCPFailed(f"{start} gave an answer that is none: {_wrong(found)}.", server=server)
    refusal = refusal_of(found)
    status = status_of(found) or (status if refusal and refusal[1] == UNTOLD else 0)
    if status:
        hint = "; check its auth= and headers=" if status in (401, 403) else ""
        text = f"{start} answered with HTTP status {status}{hint}."
        return MCPFailed(text, server=server, code=status, gone=refusal is None)
    if is_closed(found) or (refusal is not None and refusal[1] == FORGOTTEN):
        said = refusal[1] if refusal is not None else "Connection closed"
        return MCPFailed(f"{start} has gone: {said}.", server=server, gone=True)
    if refusal is None:
        text = masked(str(found) or type(found).__name__, secrets)
        return MCPFailed(
            f"{start} failed: {type(found).__name__}: {text}", server=server, gone=True
        )
    code, said, extra = refusal
    if code == UNPARSED:
        said, extra = said.partition(":")[0], None  # and not how a library tells it
    text = masked(f"{said} ({str(extra)[:500]})" if extra else said, secrets)
    return MCPFailed(f"{start} refused (code {code}): {text}", server=server, code=code)


def _wrong(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def too_slow(server: str, seconds: float, words: str) -> MCPFailed:
    """Return the error of a server that does not become ready."""
    text = f"MCP server {server!r} did not answer within {seconds:g} s.{last_words(words)}"
    return MCPFailed(text, server=server, stderr=words)


def how_it_ended(code: int | None) -> str:
    """Say how a process ended."""
    if code is None:
        return "closed its output"
    return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"


def leaf(error: BaseException) -> BaseException:
    """Return the first real error in a group of them."""
    inside: list[BaseException] = list(getattr(error, "exceptions", ()))
    if not inside:
        return error
    return leaf(next((each for each in inside if isinstance(each, Exception)), inside[0]))


def last_words(words: str) -> str:
    """Return what a process said last, as the end of an error."""
    return f" Its last lines on standard error:\n{words}" if words else ""
