"""The MCP SDK behind one door: version 2, and version 1 from 1.27 on. Only this file knows it.

What comes out is plain JSON as it stands on the wire, so that nobody else sees which version it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from treadle.errors import ConfigError, MissingExtra
from treadle.mcp.child import Child
from treadle.mcp.exchange import CURRENT, Listeners, Protocol
from treadle.mcp.lines import unreadable
from treadle.mcp.listing import mend_tools
from treadle.values import is_object

try:
    import anyio
    import mcp
    from mcp import types
    from mcp.client import auth as oauth
    from mcp.client.auth.extensions import client_credentials
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared import auth as oauth_values
    from mcp.shared import exceptions
    from mcp.shared.message import SessionMessage
except ImportError as missing:
    raise MissingExtra(
        f'MCP servers need {missing.name or "mcp"!r} 1.27 or newer: pip install "treadle[mcp]"'
    ) from missing

__all__ = [
    "IS_TWO",
    "OnProgress",
    "Session",
    "Streams",
    "Tap",
    "child_streams",
    "client_credentials",
    "http",
    "identity_assertion",
    "is_closed",
    "oauth",
    "oauth_values",
    "open_session",
    "refusal_of",
    "session_of",
    "sse_client",
    "status_of",
    "streamable_http_client",
    "tapped",
]

VERSION = metadata.version("treadle")
IS_TWO = find_spec("mcp_types") is not None
"""Whether the SDK is version 2: one `Client`, and httpx2 in place of httpx."""
http: Any = import_module("httpx2" if IS_TWO else "httpx")
identity_assertion: Any = (
    import_module("mcp.client.auth.extensions.identity_assertion") if IS_TWO else None
)
REFUSAL: type[Exception] = getattr(exceptions, "MCPError", None) or exceptions.McpError  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] the name in version 1
LISTS = {
    "tools": "list_tools",
    "resources": "list_resources",
    "templates": "list_resource_templates",
    "prompts": "list_prompts",
}
FIELDS = {"templates": "resourceTemplates"}

Streams = AbstractAsyncContextManager[Any]
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class Tap:
    """Stands between the SDK and a transport: mends lists, knows which request is whose.

    `status` is that of the newest answer over HTTP that was an error, `secrets` what was sent and
    must not be shown.
    """

    def __init__(self) -> None:
        self._methods: dict[str | int, str] = {}
        self.headers: dict[str | int, Mapping[str, str]] = {}
        self.status = 0
        self.secrets: set[str] = set()

    def sent(self, message: Any) -> None:
        """Note a message that goes out, in the task that sends it."""
        message = getattr(message, "root", message)
        request_id, method = getattr(message, "id", None), getattr(message, "method", None)
        if request_id is None or method is None:
            return
        self._methods[request_id] = method
        exchange = CURRENT.get()
        if exchange is not None:
            exchange.request_ids.append(request_id)
            if exchange.headers:
                self.headers[request_id] = exchange.headers

    def received(self, message: Any) -> None:
        """Mend an answer that comes in."""
        message = getattr(message, "root", message)
        if getattr(message, "method", None) is not None:
            return
        method = self._methods.pop(getattr(message, "id", None) or 0, None)
        result = getattr(message, "result", None)
        if method == "tools/list" and is_object(result):
            mend_tools(result)

    def forget(self, request_ids: list[str | int]) -> None:
        """Forget requests that are over."""
        for request_id in request_ids:
            self.headers.pop(request_id, None)
            self._methods.pop(request_id, None)


class _Reading:
    """A stream of what a server sends, as the SDK reads it."""

    def __init__(self, receive: Callable[[], Awaitable[Any]], tap: Tap, inner: Any = None) -> None:
        self._receive, self._tap, self._inner = receive, tap, inner

    async def receive(self) -> Any:
        item = await self._receive()
        if not isinstance(item, Exception):
            self._tap.received(item.message)
        return item

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Writing:
    """A stream of what is sent to a server, as the SDK writes it."""

    def __init__(self, send: Callable[[Any], Awaitable[None]], tap: Tap, inner: Any = None) -> None:
        self._send, self._tap, self._inner = send, tap, inner

    async def send(self, item: Any) -> None:
        self._tap.sent(item.message)
        await self._send(item)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> _Writing:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def tapped(streams: Streams, tap: Tap) -> AsyncGenerator[tuple[_Reading, _Writing]]:
    """Put the tap into a transport of the SDK."""
    async with streams as (read, write, *_):
        yield _Reading(read.receive, tap, read), _Writing(write.send, tap, write)


@asynccontextmanager
async def child_streams(child: Child, tap: Tap) -> AsyncGenerator[tuple[_Reading, _Writing]]:
    """Make a transport of a process."""
    parse = _parser()

    async def receive() -> Any:
        line = await child.receive()
        if line is None:
            raise anyio.EndOfStream
        try:
            return SessionMessage(parse(line))
        except ValueError as error:
            instead = unreadable(line)
            return error if instead is None else SessionMessage(parse(instead))

    async def send(item: Any) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await child.send(text.encode("utf-8", "replace"))
        except OSError:
            raise anyio.BrokenResourceError from None

    yield _Reading(receive, tap), _Writing(send, tap)


def _parser() -> Callable[[bytes], Any]:
    known: Any = types
    if IS_TWO:
        return known.jsonrpc_message_adapter.validate_json
    return known.JSONRPCMessage.model_validate_json


class Session:
    """An open session with a server. `facts` is what the server said about itself."""

    def __init__(self, target: Any, tap: Tap, facts: dict[str, Any] | None = None) -> None:
        self._target, self._tap = target, tap
        self._raw = getattr(target, "session", target)
        told = getattr(self._raw, "initialize_result", None)
        told = told or getattr(self._raw, "discover_result", None)
        self.facts = facts if facts is not None else _plain(told) if told is not None else {}
        described = getattr(self._raw, "server_info", None)
        if described is not None:
            self.facts.setdefault("serverInfo", _plain(described))

    @property
    def server_name(self) -> str | None:
        """What the server calls itself."""
        described: Any = self.facts.get("serverInfo")
        return described.get("name") if is_object(described) else None

    async def page(self, kind: str, cursor: str | None) -> tuple[list[Any], str | None]:
        """Return a page of a list ("tools", "resources", "templates", "prompts"), and what next."""
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        found = _plain(await getattr(self._raw, LISTS[kind])(params=params))
        return found.get(FIELDS.get(kind, kind)) or [], found.get("nextCursor")

    async def call(self, name: str, arguments: dict[str, Any], on_progress: OnProgress) -> Any:
        """Call a tool; return its result as it stands on the wire."""
        return await self._cancelling(
            self._target.call_tool(name, arguments, progress_callback=on_progress)
        )

    async def read(self, uri: str) -> Any:
        """Read a resource."""
        return await self._cancelling(self._target.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Fill in a prompt."""
        return await self._cancelling(self._target.get_prompt(name, arguments))

    async def watch(self, changed: Callable[[str], None]) -> None:
        """Hear of changed lists where the protocol wants them asked for; else return at once."""
        listen = getattr(self._target, "listen", None)
        asked = self.facts.get("capabilities", {}).get("tools", {}).get("listChanged")
        if listen is None or not asked or self.facts.get("protocolVersion") is not None:
            return
        try:
            async with listen(tools_list_changed=True) as events:
                async for _ in events:
                    changed("tools")
        except (REFUSAL, RuntimeError, TimeoutError):
            return  # no list is announced any more; it is still read anew at every connection

    async def _cancelling(self, request: Awaitable[Any]) -> Any:
        """Await a request. Version 1 does not tell the server when nobody waits any more."""
        try:
            return _plain(await request)
        except BaseException as error:
            exchange = CURRENT.get()
            if (
                not IS_TWO
                and exchange
                and exchange.request_ids
                and not isinstance(error, Exception)
            ):
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await self._tell_cancelled(exchange.request_ids[-1])
            raise

    async def _tell_cancelled(self, request_id: str | int) -> None:
        one: Any = types
        params = one.CancelledNotificationParams(requestId=request_id, reason="cancelled")
        notice = one.CancelledNotification(method="notifications/cancelled", params=params)
        await self._raw.send_notification(one.ClientNotification(notice))


@asynccontextmanager
async def open_session(
    streams: Streams, tap: Tap, listeners: Listeners, protocol: Protocol = "auto"
) -> AsyncGenerator[Session]:
    """Open a session with a server over a transport, in the newest protocol that both know."""
    options: dict[str, Any] = {
        "elicitation_callback": _answering(listeners),
        "message_handler": _hearing(listeners),
        "client_info": types.Implementation(name="treadle", version=VERSION),
    }
    if IS_TWO:
        mode = "legacy" if protocol == "handshake" else "auto"
        async with mcp.Client(streams, cache=None, mode=mode, **options) as client:
            yield Session(client, tap)
        return
    async with streams as (read, write), mcp.ClientSession(read, write, **options) as session:
        facts = await session.initialize()
        yield Session(session, tap, _plain(facts))


def session_of(client: Any) -> Session:
    """Return the session of a client that somebody else has opened, and will close.

    Raises:
        ConfigError: it is no client of the SDK, or it is not open.
    """
    if client is None or not callable(getattr(client, "call_tool", None)):
        raise ConfigError(
            f"MCP.session() takes an open mcp.Client or mcp.ClientSession, got {client!r:.60}."
        )
    try:
        return Session(client, Tap())
    except RuntimeError as error:
        raise ConfigError(f"MCP.session(): the client is not open: {error}.") from error


def refusal_of(error: BaseException) -> tuple[int, str, Any] | None:
    """Return code, text and extra facts when a server refused a request, else None."""
    if not isinstance(error, REFUSAL):
        return None
    said: Any = getattr(error, "error", None)
    return said.code, said.message, said.data


def is_closed(error: BaseException) -> bool:
    """Whether the SDK says that the connection has ended."""
    if isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError | anyio.EndOfStream):
        return True
    refusal = refusal_of(error)
    return refusal is not None and refusal[:2] == (-32000, "Connection closed")


def status_of(error: BaseException) -> int:
    """Return the status of HTTP that an error is about, or 0."""
    answer: Any = getattr(error, "response", None)
    return answer.status_code if isinstance(error, http.HTTPStatusError) else 0


def _plain(result: Any) -> dict[str, Any]:
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _answering(listeners: Listeners) -> Callable[[Any, Any], Awaitable[Any]]:
    async def answer(_: Any, params: Any) -> Any:
        action, content = await listeners.elicit(_plain(params))
        return types.ElicitResult(action=action, content=content)

    return answer


def _hearing(listeners: Listeners) -> Callable[[Any], Awaitable[None]]:
    async def hear(message: Any) -> None:
        message = getattr(message, "root", message)
        method = getattr(message, "method", "") or ""
        if method == "notifications/message":
            listeners.logged(f"{message.params.level}: {message.params.data}")
        elif method.endswith("/list_changed"):
            listeners.changed(method.split("/")[1])

    return hear
