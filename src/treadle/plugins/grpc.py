"""Tools that run in plugin servers, called over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from treadle.errors import (
    ConfigError,
    DuplicateTool,
    InvalidTool,
    MissingExtra,
    PluginFailed,
    ToolError,
)
from treadle.plugins.address import TLS, check_address, checked_headers, read_pem
from treadle.plugins.names import check_names
from treadle.ports.context import RunContext
from treadle.tools.outcome import cut
from treadle.tools.tool import DEFAULT_TIMEOUT, Tool
from treadle.values import clean
from treadle.values.secret import know, secrets_of

try:
    import grpc
    from grpc import aio

    from treadle.plugins.grpc_messages import (
        METHOD,
        Unreadable,
        answer_of,
        request_of,
        schema_of,
        text_of,
    )
except ImportError as missing:
    raise MissingExtra(
        "Plugin servers need grpcio and protobuf; in a clone: pip install '.[grpc]'."
    ) from missing

CONNECT_SECONDS = 10.0
"""How long each of the five calls may take that load a plugin."""
MOST_BYTES = 16 * 1024 * 1024
MOST = 2**31
"""What a number that gRPC is told must be below."""
SHOWN = 2_000
"""Bytes of a server's error text that are told."""
LEAST_SECRET = 8
"""Characters: a part of a header that is shorter is no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the caller of `connect_grpc` asked for, for each connection alike."""

    tls: TLS | None
    timeout: float | None
    connect_timeout: float
    send_metadata: tuple[str, ...]
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    options: tuple[tuple[str, Any], ...]


def connect_grpc(
    targets: str | Iterable[str],
    *,
    tls: TLS | None = None,
    insecure: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT,
    connect_timeout: float = CONNECT_SECONDS,
    send_metadata: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    max_bytes: int = MOST_BYTES,
) -> GrpcPlugins:
    """Return the plugin servers at these addresses, to be entered with `async with`.

    ```python
    from treadle.plugins import TLS, connect_grpc

    servers = connect_grpc("plugins.example:443", tls=TLS(), send_metadata=["user_id"])
    print(servers)
    #> GrpcPlugins('plugins.example:443')
    ```

    Each server is one tool. All are loaded, or none: when one fails, the connections to all are
    closed. `targets` are `host:port` or `unix:path`. Without `tls` only this machine is reached,
    unless `insecure=True`. `timeout` is in seconds, of one call (None for none) and the deadline
    that the server is told, so set it here; `connect_timeout` of each call that loads. Of the run's
    metadata only the keys in `send_metadata` are sent. `headers` go along with every call, for a
    token for example. `max_bytes` bounds each message, both ways.

    Raises:
        ConfigError: an address or an option is wrong.
    """
    addresses = tuple([targets] if isinstance(targets, str) else targets)
    check_names(send_metadata=send_metadata)
    limits = {"timeout": timeout, "connect_timeout": connect_timeout, "max_bytes": max_bytes}
    for option, number in limits.items():
        if number is not None and not 0 < number < MOST:
            raise ConfigError(f"{option}={number!r} is not between 0 and 2^31.")
    if len(set(addresses)) < len(addresses):
        raise ConfigError(f"A plugin server is listed twice: {', '.join(addresses)}.")
    for address in addresses:
        check_address(address, tls=tls, insecure=insecure)
    know(*secrets_of(headers or {}))
    asked = _Asked(
        tls=tls,
        timeout=timeout,
        connect_timeout=connect_timeout,
        send_metadata=tuple(send_metadata),
        headers=checked_headers(headers or {}),
        options=_options(tls, max_bytes),
    )
    return GrpcPlugins(addresses, asked)


class GrpcPlugins:
    """Connections to plugin servers, and their `tools`. Made by `connect_grpc`."""

    def __init__(self, addresses: tuple[str, ...], asked: _Asked) -> None:
        self._addresses = addresses
        self._asked = asked
        self._opened: AsyncExitStack | None = None
        self._tools: tuple[Tool, ...] = ()
        self._entered = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._addresses))})"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool of each server, in the order of their addresses.

        Raises:
            ConfigError: the servers are not connected.
        """
        if self._opened is None:
            raise ConfigError(f"{self!r} is not connected; use `async with` around it.")
        return self._tools

    async def __aenter__(self) -> Self:
        """Connect to every server and load its tool.

        Raises:
            PluginFailed: a server cannot be reached, or what it says is no tool.
            DuplicateTool: two servers have a tool of one name.
        """
        if self._entered:
            raise ConfigError(f"{self!r} is connected already.")
        self._entered = True
        try:
            await self._connect()
        finally:
            self._entered = self._opened is not None
        return self

    async def _connect(self) -> None:
        async with AsyncExitStack() as stack:
            credentials = await asyncio.to_thread(_credentials, self._asked.tls)
            owners: dict[str, str] = {}
            tools: list[Tool] = []
            for address in self._addresses:
                connection = _Connection(address, self._asked, credentials)
                stack.push_async_callback(connection.close)
                found = await connection.load()
                if found.name in owners:
                    raise DuplicateTool(
                        f"The plugin servers at {owners[found.name]} and {address} "
                        f"both have a tool {found.name!r}."
                    )
                owners[found.name] = address
                tools.append(found)
            self._tools, self._opened = tuple(tools), stack.pop_all()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, the last first; calls under way end with an error result."""
        stack, self._opened, self._entered = self._opened, None, False
        if stack is not None:
            await stack.aclose()


class _Connection:
    """The channel to one server. It is opened anew when the server has gone and may be back."""

    def __init__(
        self, address: str, asked: _Asked, credentials: grpc.ChannelCredentials | None
    ) -> None:
        self._address = address
        self._asked = asked
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._channel = self._open()
        self._calls = 0
        self._closed = False
        self._name = ""

    def _open(self) -> aio.Channel:
        if self._credentials is None:
            return aio.insecure_channel(self._address, options=self._asked.options)
        return aio.secure_channel(self._address, self._credentials, options=self._asked.options)

    async def load(self) -> Tool:
        """Return the server's tool.

        Raises:
            PluginFailed: the server does not answer, or not with a tool.
        """
        try:
            await self._ask("Init")
            self._name = text_of("NameResponse", "name", await self._ask("Name")).strip()
            about = await self._ask("Description")
            description = text_of("DescriptionResponse", "description", about)
            schema = schema_of(await self._ask("Properties"))
            await self._ask("Ping")
            return Tool.from_schema(
                self._name, description, schema, self.execute, timeout=self._asked.timeout
            )
        except (Unreadable, InvalidTool) as error:
            raise PluginFailed(
                f"The plugin server at {self._address} has no tool that can be used: {error}"
            ) from error

    async def _ask(self, method: str) -> bytes:
        try:
            return await self._unary(method, b"", self._asked.connect_timeout)
        except grpc.RpcError as error:
            raise PluginFailed(
                f"The plugin server at {self._address} failed in {method}: {self._told(error)}"
            ) from None

    async def execute(self, ctx: RunContext[Any], arguments: dict[str, Any]) -> object:
        """Run one call on the server."""
        if self._closed:
            raise ToolError(f"Tool {self._name!r} is gone: its plugin server was closed.")
        if asyncio.get_running_loop() is not self._loop:
            raise ToolError(
                f"Tool {self._name!r} belongs to the event loop that connected it, not to this one."
            )
        metadata = {
            key: ctx.metadata[key] for key in self._asked.send_metadata if key in ctx.metadata
        }
        request = request_of(metadata, arguments)
        try:
            answer = await self._unary("Execute", request, self._asked.timeout)
            return answer_of(self._name, answer)
        except grpc.RpcError as error:
            raise self._failure(error) from None
        except Unreadable as error:
            raise ToolError(f"Tool {self._name!r} answered something else: {error}") from None

    def _failure(self, error: Any) -> Exception:
        """Return what to raise: what the server says is final, its silence may be tried again."""
        silence = {"UNAVAILABLE": ConnectionError, "DEADLINE_EXCEEDED": TimeoutError}
        kind = silence.get(error.code().name)
        if kind is not None:
            return kind(f"its server at {self._address} does not answer: {self._told(error)}")
        return ToolError(f"Tool {self._name!r} failed on its server: {self._told(error)}")

    def _told(self, error: Any) -> str:
        """Return what a server says of an error, without the headers that it may repeat."""
        code, details = error.code(), clean(str(error.details() or ""))
        for _, value in self._asked.headers:
            for secret in (value, *value.split()):
                if len(secret) >= LEAST_SECRET:
                    details = details.replace(secret, "[hidden]")
        return f"{code.name}: {cut(details, SHOWN)}" if details else f"{code.name}."

    async def _unary(self, method: str, request: bytes, seconds: float | None) -> bytes:
        gone = self._channel.get_state() is grpc.ChannelConnectivity.TRANSIENT_FAILURE
        if gone and not self._calls:  # it would wait before it tries again
            failed, self._channel = self._channel, self._open()
            await failed.close()
        self._calls += 1
        try:
            channel: Any = self._channel
            call = channel.unary_unary(METHOD + method)
            return await call(request, timeout=seconds, metadata=self._asked.headers or None)
        finally:
            self._calls -= 1

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()


def _options(tls: TLS | None, max_bytes: int) -> tuple[tuple[str, Any], ...]:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", max_bytes),
        ("grpc.max_send_message_length", max_bytes),
        ("grpc.service_config_disable_resolution", 1),  # no retries that nobody asked for
        ("grpc.use_local_subchannel_pool", 1),  # a channel opened anew does connect anew
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]
    if tls is None:
        options.append(("grpc.enable_http_proxy", 0))
    elif tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return tuple(options)


def _credentials(tls: TLS | None) -> grpc.ChannelCredentials | None:
    """Return what a channel needs for TLS; files are read here.

    Raises:
        ConfigError: a file cannot be read.
    """
    if tls is None:
        return None
    roots, key, chain = (read_pem(each) for each in (tls.roots, tls.key, tls.certificate))
    return grpc.ssl_channel_credentials(roots, key, chain)
