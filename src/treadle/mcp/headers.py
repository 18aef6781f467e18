"""Headers of requests: those of all, and those that depend on the run that calls."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from treadle.errors import ConfigError, ToolError
from treadle.ports.context import RunContext

OfCall = Callable[[RunContext[Any]], Any]
CallHeaders = (
    Mapping[str, "str | Callable[[RunContext[Any]], str | Awaitable[str]]"]
    | Callable[[RunContext[Any]], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
    | None
)
PerCall = OfCall | Mapping[str, OfCall] | None


def split_headers(headers: CallHeaders) -> tuple[dict[str, str], PerCall]:
    """Return the headers of every request, and what gives those of a call."""
    if headers is None:
        return {}, None
    if callable(headers):
        return {}, headers
    if not isinstance(headers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError("The headers of an MCP server are a dict, or a function of the context.")
    fixed: dict[str, str] = {}
    made: dict[str, OfCall] = {}
    for name, value in headers.items():
        if isinstance(value, str):
            fixed[name] = value
        else:
            made[name] = value
    return fixed, made or None


async def headers_of(per_call: PerCall, ctx: RunContext[Any]) -> dict[str, str]:
    """Return the headers of one call.

    Raises:
        ToolError: a header is not one line of text; its value is not shown.
    """
    if not per_call:
        return {}
    found: dict[str, Any]
    if not callable(per_call):
        found = {name: await _settled(make(ctx)) for name, make in per_call.items()}
    else:
        found = dict(await _settled(per_call(ctx)))
    for name, value in found.items():
        if not isinstance(value, str) or any(each in f"{name}{value}" for each in "\r\n\0"):
            raise ToolError(f"The call was not made: its header {name!r} is not one line of text.")
    return found


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
