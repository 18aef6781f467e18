"""The server side of the MCP SDK: version 2, and version 1 from 1.27 on. Only this file knows it.

Requests and results pass through as the protocol's own JSON, so that nobody else sees which
version it is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from treadle.errors import ConfigError, MissingExtra
from treadle.mcp.lines import messages_in, refused
from treadle.mcp.server_http import GONE, Gone, Guard, Receive, Scope, Send, refuse
from treadle.mcp.server_stdio import Lines, Wires
from treadle.mcp.server_wire import Answer, Asking, Offer, Refused, Wire
from treadle.values.logs import logger

try:
    import anyio
    import uvicorn
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared import exceptions
    from mcp.shared.message import SessionMessage
except ImportError as missing:
    raise MissingExtra(
        f'An MCP server needs {missing.name or "mcp"!r} 1.27 or newer: pip install "treadle[mcp]"'
    ) from missing

log = logger(__name__)

VERSION = metadata.version("treadle")
IS_TWO = find_spec("mcp_types") is not None
STATELESS: tuple[str, ...] = (
    tuple(import_module("mcp_types.version").MODERN_PROTOCOL_VERSIONS) if IS_TWO else ()
)
"""Versions of the protocol in which a server asks by its result, not by a request of its own."""
MOST_ROUNDS = 32
"""How often one call may ask."""
SHUTDOWN = 2
"""Seconds that clients have to take the last of their answers when a server over HTTP ends."""
ANY_SDK: Any = types
REQUESTS: dict[str, tuple[str, str, str]] = {
    "tools/list": ("ListToolsRequest", "PaginatedRequestParams", "ListToolsResult"),
    "tools/call": ("CallToolRequest", "CallToolRequestParams", "CallToolResult"),
    "prompts/list": ("ListPromptsRequest", "PaginatedRequestParams", "ListPromptsResult"),
    "prompts/get": ("GetPromptRequest", "GetPromptRequestParams", "GetPromptResult"),
    "completion/complete": ("CompleteRequest", "CompleteRequestParams", "CompleteResult"),
    "resources/list": ("ListResourcesRequest", "PaginatedRequestParams", "ListResourcesResult"),
    "resources/templates/list": (
        "ListResourceTemplatesRequest",
        "PaginatedRequestParams",
        "ListResourceTemplatesResult",
    ),
    "resources/read": ("ReadResourceRequest", "ReadResourceRequestParams", "ReadResourceResult"),
}
"""What the SDK calls a request, its parameters and its result."""


class Caller:
    """The client that made one request."""

    def __init__(self, context: Any, params: Mapping[str, Any]) -> None:
        self._context = context
        meta: Mapping[str, Any] = params.get("_meta") or {}
        self._token: str | int | None = meta.get("progressToken")

    @property
    def wants_progress(self) -> bool:
        """Whether the request came with a token for progress."""
        return self._token is not None

    @property
    def is_stateless(self) -> bool:
        """Whether it is asked by results."""
        return getattr(self._context, "protocol_version", "") in STATELESS

    @property
    def can_ask(self) -> bool:
        """Whether somebody at the client fills in forms."""
        session = self._context.session
        if IS_TWO:
            capabilities = session.client_capabilities
        else:
            capabilities = session.client_params and session.client_params.capabilities
        asks = capabilities and capabilities.elicitation
        if asks is None:
            return False
        only_pages = getattr(asks, "url", None) is not None and getattr(asks, "form", None) is None
        reachable = self.is_stateless or not IS_TWO or session.can_send_request
        return bool(reachable) and not only_pages

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        """Send a notification of progress, where the client asked for them."""
        if self._token is None:
            return
        session = self._context.session
        try:
            if IS_TWO:
                await session.report_progress(amount, total, message)
            else:
                await session.send_progress_notification(
                    self._token, amount, total, message, str(self._context.request_id)
                )
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it has left; whoever waits for that is told

    def shield(self) -> AbstractContextManager[object]:
        """Keep what a cancelled call still has to do from being cancelled."""
        return anyio.CancelScope(shield=True)

    async def ask(self, asking: Asking) -> dict[str, Answer]:
        """Ask one question after another, and return the answers."""
        answers: dict[str, Answer] = {}
        for question in asking.questions:
            said = await self._context.session.elicit_form(
                question.message, question.schema, self._context.request_id
            )
            answers[question.id] = Answer(said.action, said.content or {})
        return answers


async def _answered(offer: Offer, method: str, context: Any, params: Wire, gone: Gone) -> Wire:
    """Answer one request, asking where that is needed; a client that leaves cancels it."""
    caller = Caller(context, params)
    with anyio.CancelScope() as scope, gone.telling(scope.cancel):
        try:
            return await _rounds(offer, method, caller, params)
        except Refused as refusal:
            raise _error(refusal) from None
    raise _error(Refused("The client has left."))


async def _rounds(offer: Offer, method: str, caller: Caller, params: Wire) -> Wire:
    found = await offer.answer(method, params, caller)
    for _ in range(MOST_ROUNDS):
        if not isinstance(found, Asking):
            return found
        if not caller.can_ask:
            break
        if caller.is_stateless:
            return _input_required(found)
        answers = {
            name: {"action": said.action, "content": said.content}
            for name, said in (await caller.ask(found)).items()
        }
        params = {**params, "requestState": found.state, "inputResponses": answers}
        found = await offer.answer(method, params, caller)
    return found.otherwise if isinstance(found, Asking) else found


def _input_required(asking: Asking) -> Wire:
    return {
        "resultType": "input_required",
        "inputRequests": {
            each.id: {
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": each.message,
                    "requestedSchema": each.schema,
                },
            }
            for each in asking.questions
        },
        "requestState": asking.state,
    }


def _error(refusal: Refused) -> Exception:
    sdk: Any = exceptions
    if IS_TWO:
        return sdk.MCPError(code=refusal.code, message=str(refusal))
    return sdk.McpError(ANY_SDK.ErrorData(code=refusal.code, message=str(refusal)))


def _server(offer: Offer, gone_of: Callable[[Any], Gone]) -> Any:
    """Return the SDK's server. `gone_of` finds who tells that the client of a request has left."""
    sdk: Any = Server
    server = sdk(offer.name, version=VERSION, instructions=offer.instructions)
    for method in offer.methods:
        request, params, result = (getattr(ANY_SDK, name) for name in REQUESTS[method])
        answer = partial(_answered, offer, method)
        if IS_TWO:
            server.add_request_handler(method, params, _second(answer, gone_of, result))
        else:
            server.request_handlers[request] = _first(answer, gone_of, server, result)
    return server


Answering = Callable[[Any, Wire, Gone], Awaitable[Wire]]


def _second(answer: Answering, gone_of: Callable[[Any], Gone], result: Any) -> Any:
    async def handle(context: Any, _: Any) -> Any:
        found = await answer(context, dict(context.params or {}), gone_of(context))
        return found if "inputRequests" in found else result.model_validate(found)

    return handle


def _first(answer: Answering, gone_of: Callable[[Any], Gone], server: Any, result: Any) -> Any:
    async def handle(request: Any) -> Any:
        context = server.request_context
        params: Wire = request.model_dump(by_alias=True, mode="json").get("params") or {}
        found = await answer(context, params, gone_of(context))
        return ANY_SDK.ServerResult(result.model_validate(found))

    return handle


async def serve_stdio(offer: Offer, wires: Wires) -> None:
    """Serve one client over two descriptors until it closes its end."""
    gone = Gone()
    server = _server(offer, lambda _: gone)
    lines = Lines(wires)
    incoming, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with incoming:
            async for line in lines:
                for message in messages_in(line)[0] or [line]:
                    await take(message)
            gone.tell()

    async def take(message: bytes) -> None:
        made = _message(message)
        refusal = refused(message) if isinstance(made, Exception) else None
        if refusal is None:
            await incoming.send(made)
        else:
            await lines.write(refusal)

    async def write() -> None:
        async with outgoing:
            async for sent in outgoing:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                await lines.write(text.encode())

    try:
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(read())
            group.create_task(write())
            try:
                await _run(server, reading, writing)
            finally:
                reader.cancel()
                writing.close()
    finally:
        await lines.close()


async def _run(server: Any, reading: Any, writing: Any) -> None:
    """Run the SDK's server to its end, also one that comes in the middle of a message."""
    try:
        await server.run(reading, writing, server.create_initialization_options())
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        task = asyncio.current_task()
        cut = task is not None and task.cancelling() > 0
        log.debug("The SDK's streams were closed under it; cancelled: %s.", cut)
    else:
        return
    if cut:
        raise asyncio.CancelledError


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        if IS_TWO:
            return SessionMessage(ANY_SDK.jsonrpc_message_adapter.validate_json(line))
        return SessionMessage(ANY_SDK.JSONRPCMessage.model_validate_json(line))
    except ValueError as error:
        log.warning("A line from the client is no message: %r", line[:80])
        return error


class Application:
    """An ASGI application that serves any number of clients while it is open."""

    def __init__(self, offer: Offer) -> None:
        server = _server(offer, lambda context: context.request.scope.get(GONE) or Gone())
        self._sessions = StreamableHTTPSessionManager(app=server)
        self._is_open = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or live as long as a lifespan."""
        if scope["type"] == "lifespan":
            await receive()
            async with self.opened():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif self._is_open:
            await self._sessions.handle_request(scope, receive, send)
        else:
            await refuse(send, 503, "This server is not open; its lifespan has to be run.")

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Take clients within this, once; at its end their sessions are over."""
        async with self._sessions.run():
            self._is_open = True
            try:
                yield
            finally:
                self._is_open = False


class _Listener(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


async def serve_http(
    guard: Guard,
    inner: Application,
    host: str,
    port: int,
    on_ready: Callable[[str], object] | None,
) -> None:
    """Serve an application until this is cancelled; calls under way end with it.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    taken = _listening(host, port)
    found = taken.getsockname()
    config = uvicorn.Config(
        guard,  # pyright: ignore[reportArgumentType] its own type of an application is narrower
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN,
    )
    shown = f"[{found[0]}]" if ":" in found[0] else found[0]
    async with _ending(_Listener(config), taken), inner.opened():
        try:
            if on_ready is not None:
                on_ready(f"http://{shown}:{found[1]}{guard.path}")
            await asyncio.Event().wait()
        finally:
            guard.end_calls()


@asynccontextmanager
async def _ending(listener: uvicorn.Server, taken: socket.socket) -> AsyncGenerator[None]:
    """Run a listener beside what is in the block, and end it well after that."""
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(listener.serve(sockets=[taken]))
        try:
            yield
        finally:
            listener.should_exit = True
            await asyncio.wait([serving])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{host}:{port} cannot be listened on: {error}.") from error
