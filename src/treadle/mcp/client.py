"""MCP servers as tools, resources and prompts."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack, get_args

from treadle.errors import ConfigError
from treadle.mcp._sdk import session_of
from treadle.mcp.auth import Auth
from treadle.mcp.child import Launch, environment
from treadle.mcp.connection import Opening
from treadle.mcp.content import ContentPart, messages_of, resource_parts, with_defaults
from treadle.mcp.exchange import Action, Protocol, Question
from treadle.mcp.headers import CallHeaders, split_headers
from treadle.mcp.http import Address
from treadle.mcp.remote import Care, Remote
from treadle.mcp.tools import Link, ToolOptions, resource_tools, tools_of
from treadle.messages import Message
from treadle.tools.tool import DEFAULT_OUTPUT, DEFAULT_TIMEOUT, Approval, Tool

Elicit = Callable[[Question], dict[str, Any] | Awaitable[dict[str, Any] | None] | None]


class ClientOptions(TypedDict, total=False):
    """What every way to reach a server takes.

    `name` is what the server is called here: in errors, and before the names of its tools unless
    `prefix=False`; without one it is what the server calls itself. `only` are the tools that are
    used, by the server's names for them. `timeout` (seconds), `approval` and `max_output` (bytes)
    are those of its tools. It has `connect_timeout` seconds (30) to answer at first. `elicit`
    answers the server's questions (None is a no); without it the call waits for somebody's decision
    like one that needs approval. `protocol="handshake"` is for servers that only know how to ask
    over the protocols before 2026-07-28. With `trust_hints` the server is believed which tools can
    be called twice without harm. A process that failed `max_crashes` times in a row (3) is not
    started again.
    """

    name: str | None
    prefix: bool
    only: Collection[str] | None
    timeout: float | None
    approval: Approval
    max_output: int
    connect_timeout: float
    elicit: Elicit | None
    protocol: Protocol
    trust_hints: bool
    max_crashes: int


class MCP:
    """A connection to an MCP server, open within `async with`.

    ```python
    import sys

    from treadle.mcp import MCP

    server = MCP.stdio(sys.executable, "-m", "my_server", name="files")
    print(server)
    #> MCP('files', closed)
    ```

    `tools` are ordinary tools, to be mixed with others. What a server lists may change while it
    runs: `tools` is always the newest list, an agent keeps those that it was built with.

    It may be closed by any task, in any order with others, and twice. A process that was started
    for it is always ended, and what it started in its group.
    """

    def __init__(self, remote: Remote, options: ToolOptions) -> None:
        """Use `stdio`, `http`, `sse` or `session`."""
        self._link = Link(remote)
        self._finalizer = weakref.finalize(self._link, remote.abandon)
        self._options = options
        self._state = "closed"
        self._made: tuple[object, tuple[Tool, ...]] | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        inherit: bool | tuple[str, ...] = False,
        cwd: str | Path | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """A server that is started as a process, and speaks over its standard input and output.

        It gets `env`, what it needs to run at all (PATH, HOME, the locale), and of our variables
        those named in `inherit`, or with True all of them: keys, too.
        """
        texts = (command, *args, *(env or {}), *(env or {}).values())
        if not command or not all(isinstance(each, str) for each in texts):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise ConfigError("MCP.stdio: the command, its arguments and its env are texts.")
        launch = Launch(
            command=command,
            args=args,
            env=environment(env, inherit),
            cwd=None if cwd is None else str(cwd),
        )
        return cls._reaching(launch, Path(command).stem, None, options)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: CallHeaders = None,
        auth: Auth | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """A server behind an address, over streamable HTTP.

        `headers` go with every request. One whose value is a function of the run's context goes
        with the calls of that run only; a function in place of all headers returns those of a call.
        """
        return cls._at("http", url, headers, auth, options)

    @classmethod
    def sse(
        cls,
        url: str,
        *,
        headers: CallHeaders = None,
        auth: Auth | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """An older server behind an address, over server-sent events; see `http`."""
        return cls._at("sse", url, headers, auth, options)

    @classmethod
    def session(cls, client: Any, **options: Unpack[ClientOptions]) -> Self:
        """An `mcp.Client` or `mcp.ClientSession` that you have opened, and that you close."""
        session = session_of(client)
        place = session.server_name or "mcp"
        return cls._reaching(Launch(command=""), place, None, options, session)

    @classmethod
    def _at(
        cls, kind: Any, url: str, headers: CallHeaders, auth: Auth | None, options: ClientOptions
    ) -> Self:
        fixed, per_call = split_headers(headers)
        address = Address(url=url, kind=kind, headers=fixed, auth=auth)
        return cls._reaching(address, str(address), per_call, options)

    @classmethod
    def _reaching(
        cls,
        target: Launch | Address,
        place: str,
        per_call: Any,
        options: ClientOptions,
        borrowed: Any = None,
    ) -> Self:
        known = ClientOptions.__annotations__
        unknown = [name for name in options if name not in known]
        if unknown:
            raise ConfigError(f"MCP has no option {unknown[0]!r}; it has {', '.join(known)}.")
        seconds = options.get("connect_timeout", 30.0)
        if not seconds > 0:
            raise ConfigError(f"connect_timeout={seconds!r} is not more than 0 seconds.")
        opening = Opening(
            server=options.get("name") or place,
            target=target,
            connect_timeout=seconds,
            protocol=checked_protocol(options.get("protocol", "auto")),
        )
        elicit = options.get("elicit")
        care = Care(
            max_crashes=options.get("max_crashes", 3),
            elicit=None if elicit is None else _answering(elicit),
        )
        only = options.get("only")
        tool_options = ToolOptions(
            name=options.get("name"),
            prefix=options.get("prefix", True),
            only=None if only is None else tuple(only),
            headers=per_call,
            trust_hints=options.get("trust_hints", False),
            fields={
                "timeout": options.get("timeout", DEFAULT_TIMEOUT),
                "approval": options.get("approval", False),
                "max_output": options.get("max_output", DEFAULT_OUTPUT),
            },
        )
        return cls(Remote(opening, care, borrowed), tool_options)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"MCP({self._link.remote.opening.server!r}, {self._state})"

    async def open(self) -> None:
        """Connect and read the list of tools; `async with` does it.

        Raises:
            MCPFailed: the server cannot be started or reached, or does not answer in time.
        """
        await self._link.remote.open()
        self._state = "open"

    async def close(self) -> None:
        """End the connection, and the process if there is one."""
        self._state = "closed"
        await self._link.remote.close()

    @property
    def name(self) -> str:
        """What the server is called here."""
        remote = self._link.remote
        return self._options.name or remote.server_name or remote.opening.server

    @property
    def instructions(self) -> str | None:
        """What the server says on how to use it; nobody is told unless you pass it on."""
        return self._link.remote.instructions

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The server's tools, as it lists them now."""
        listed = self._link.remote.tools
        if self._made is None or self._made[0] is not listed:
            self._made = (listed, tools_of(self._link, self.name, listed, self._options))
        return self._made[1]

    @property
    def resource_tools(self) -> tuple[Tool, ...]:
        """Two tools with which a model lists and reads the server's resources."""
        return resource_tools(self._link, self.name, self._options)

    async def refresh(self) -> tuple[Tool, ...]:
        """Read the list of tools anew; servers that tell of changes need not be asked."""
        await self._link.remote.refresh()
        return self.tools

    async def resources(self) -> list[dict[str, Any]]:
        """Return the server's resources, as it lists them: uri, name, mimeType."""
        return await self._link.remote.list("resources")

    async def resource_templates(self) -> list[dict[str, Any]]:
        """Return the patterns of further resources: uriTemplate, name, mimeType."""
        return await self._link.remote.list("templates")

    async def read_resource(self, uri: str) -> tuple[ContentPart, ...]:
        """Return a resource as parts, for example to begin a run with."""
        result = await self._link.remote.request(lambda session: session.read(uri), again=True)
        return tuple(part for each in result["contents"] for part in resource_parts(each))

    async def prompts(self) -> list[dict[str, Any]]:
        """Return the server's prompts, as it lists them: name, description, arguments."""
        return await self._link.remote.list("prompts")

    async def prompt(self, name: str, **arguments: str) -> tuple[Message, ...]:
        """Return a prompt filled in, as messages: pass them as `history=`, or send their parts."""
        result = await self._link.remote.request(
            lambda session: session.prompt(name, arguments), again=True
        )
        return messages_of(result)


def checked_protocol(protocol: Protocol) -> Protocol:
    """Return which protocol is spoken, if there is such a one."""
    if protocol not in get_args(Protocol):
        raise ConfigError(f"protocol={protocol!r} is none of 'auto', 'handshake'.")
    return protocol


def _answering(elicit: Elicit) -> Callable[[Question], Awaitable[tuple[Action, Any]]]:
    async def answer(question: Question) -> tuple[Action, dict[str, Any] | None]:
        found = elicit(question)
        content = await found if isinstance(found, Awaitable) else found
        if content is None:
            return "decline", None
        if question.url is not None:
            return "accept", None
        return "accept", with_defaults(question.schema, content)

    return answer
