"""Offer agents and tools to whoever speaks the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from treadle.errors import ConfigError, DuplicateTool, MissingExtra
from treadle.mcp.server_agents import OfferedAgent
from treadle.mcp.server_http import App, Guard, allowed_hosts, check_access
from treadle.mcp.server_material import Prompts, Readable, Resources
from treadle.mcp.server_stdio import Wires
from treadle.mcp.server_tools import OfferedTool
from treadle.mcp.server_wire import Answer, Asking, Call, Client, Refused, Wire
from treadle.ports.runnable import Runnable
from treadle.ports.store import Store
from treadle.ports.tool import ToolProtocol
from treadle.tools.names import nearest
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import Tool
from treadle.values import is_object

Offered = Runnable | Tool | ToolProtocol | Callable[..., Any]


class MCPServer:
    """Agents and tools as the tools of an MCP server.

    ```python
    from treadle import Agent, tool
    from treadle.mcp import MCPServer
    from treadle.testing import ScriptedModel


    @tool
    def add(a: int, b: int) -> int:
        return a + b


    clerk = Agent("clerk", model=ScriptedModel(["Done."]))
    server = MCPServer(clerk, add, descriptions={"clerk": "Knows all invoices."})
    print(server.names)
    #> ('clerk', 'add')
    ```

    An agent takes `input` and, so that it remembers, the ID of a `conversation`. Conversations are
    kept in `store`, else in the agent's own, else in memory for as long as the server lives.
    `descriptions` say what the agents are good at, by name; `deps` goes to all runs and tools.

    `prompts` are typed functions whose arguments a person fills in; what one returns (text, parts)
    is what they say to their model. `resources` are what clients can read, by address: text,
    bytes, a part, a `Path`, or a function, which takes the `{names}` of its address.

    Raises:
        DuplicateTool: two of them have the same name.
        ConfigError: nothing is offered, or a description is of nothing that is.
    """

    def __init__(
        self,
        *offered: Offered,
        name: str = "treadle",
        instructions: str | None = None,
        descriptions: Mapping[str, str] | None = None,
        prompts: Sequence[Callable[..., Any]] = (),
        resources: Mapping[str, Readable] | None = None,
        store: Store | None = None,
        deps: Any = None,
    ) -> None:
        self._prompts = Prompts(prompts, name)
        self._resources = Resources(resources or {}, name)
        self.name = name
        self.instructions = instructions
        told = dict(descriptions or {})
        agents = [item for item in offered if isinstance(item, Runnable)]
        registry = ToolRegistry([item for item in offered if not isinstance(item, Runnable)])
        tools = [
            OfferedTool(name=each, registry=registry, server=name, deps=deps)
            for each in registry.names()
        ]
        made = [_offered_agent(agent, store, deps, told) for agent in agents]
        self._tools: dict[str, OfferedAgent | OfferedTool] = {}
        for each in (*made, *tools):
            if each.name in self._tools:
                raise DuplicateTool(f"{each.name!r} is offered twice; rename one.")
            self._tools[each.name] = each
        if not (self._tools or self._prompts or self._resources):
            raise ConfigError("There is nothing to serve: give agents or tools.")
        if told:
            raise ConfigError(
                f"There is a description of {next(iter(told))!r}, which is no agent that is "
                f"offered; there are: {', '.join(agent.name for agent in agents) or 'none'}."
            )
        self._listed = [each.listed() for each in self._tools.values()]

    @property
    def names(self) -> tuple[str, ...]:
        """What clients call the agents and tools."""
        return tuple(self._tools)

    @property
    def methods(self) -> Sequence[str]:
        """The requests that it answers."""
        tools = ("tools/list", "tools/call")
        prompts = ("prompts/list", "prompts/get", "completion/complete") if self._prompts else ()
        reads = ("resources/list", "resources/templates/list", "resources/read")
        return (*tools, *prompts, *(reads if self._resources else ()))

    async def answer(self, method: str, params: Wire, client: Client) -> Wire | Asking:
        """Answer one request of a client; what speaks the protocol calls this.

        Raises:
            Refused: with an error of the protocol.
        """
        match method:
            case "tools/list":
                return {"tools": self._listed}
            case "tools/call":
                return await self._called(_call(params), client)
            case "prompts/list":
                return {"prompts": self._prompts.listed()}
            case "prompts/get":
                given: Wire = params.get("arguments") or {}
                return await self._prompts.get(str(params.get("name")), given, client)
            case "completion/complete":
                asked: Wire = params.get("argument") or {}
                ref: Wire = params.get("ref") or {}
                name = str(ref.get("name"))
                return self._prompts.complete(name, str(asked.get("name")), str(asked.get("value")))
            case "resources/list":
                return {"resources": self._resources.listed(patterns=False)}
            case "resources/templates/list":
                return {"resourceTemplates": self._resources.listed(patterns=True)}
            case "resources/read":
                return await self._resources.read(str(params.get("uri")), client)
            case _:
                raise Refused(f"This server has no {method!r}.")

    async def _called(self, call: Call, client: Client) -> Wire | Asking:
        found = self._tools.get(call.name)
        if found is None:
            known = ", ".join(nearest(call.name, self.names))
            raise Refused(f"There is no tool {call.name!r}. Nearest first: {known}.")
        return await found.call(call, client)

    async def serve_stdio(self, wires: Wires | None = None) -> None:
        """Serve the one client that started this process, until it closes its end.

        Standard output is the client's alone: what anything prints goes to standard error.
        Cancelling this ends the calls under way, and what they had stored can be resumed. `wires`
        are the streams, where they have been taken before.

        Raises:
            MissingExtra: the package for the protocol is not installed.
            ConfigError: standard input or output is closed.
        """
        from treadle.mcp import _server_sdk  # noqa: PLC0415 the extra is needed from here on

        taken = Wires() if wires is None else wires
        try:
            await _server_sdk.serve_stdio(self, taken)
        finally:
            if wires is None:
                taken.release()

    async def serve_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        hosts: Sequence[str] = (),
        on_ready: Callable[[str], object] | None = None,
    ) -> None:
        """Serve any number of clients over streamable HTTP, until this is cancelled.

        Every request needs `token` as its bearer token where one is given; beyond loopback one has
        to be. `hosts` are further names that requests may call this server by. With port 0 a free
        one is taken; `on_ready` is called with the address once it listens.

        Raises:
            MissingExtra: the package for the protocol is not installed.
            ConfigError: a token is missing or too short, or the address cannot be listened on.
        """
        from treadle.mcp import _server_sdk  # noqa: PLC0415 the extra is needed from here on

        check_access(host, token)
        inner = _server_sdk.Application(self)
        guard = Guard(app=inner, token=token, hosts=allowed_hosts(host, hosts))
        await _server_sdk.serve_http(guard, inner, host, port, on_ready)

    def app(
        self, *, host: str = "127.0.0.1", token: str | None = None, hosts: Sequence[str] = ()
    ) -> App:
        """Return an ASGI application that serves at `/mcp`, for a server of your own.

        `host` is where that server listens; the lifespan of the application has to be run.

        Raises:
            MissingExtra: the package for the protocol is not installed.
            ConfigError: a token is missing or too short.
        """
        from treadle.mcp import _server_sdk  # noqa: PLC0415 the extra is needed from here on

        check_access(host, token)
        inner = _server_sdk.Application(self)
        return Guard(app=inner, token=token, hosts=allowed_hosts(host, hosts))


def _offered_agent(
    agent: Runnable, store: Store | None, deps: Any, told: dict[str, str]
) -> OfferedAgent:
    own = store if store is not None else getattr(agent, "store", None)
    return OfferedAgent(
        runnable=agent,
        store=_memory() if own is None else own,
        keeps=own is not None,
        description=told.pop(agent.name, ""),
        deps=deps,
    )


def _memory() -> Store:
    for entry in entry_points(group="treadle.stores", name="memory"):
        return entry.load()()
    raise MissingExtra("The memory store is not installed; install the package again.")


def _call(params: Wire) -> Call:
    state = params.get("requestState")
    return Call(
        name=str(params.get("name")),
        arguments=params.get("arguments") or {},
        state=state if isinstance(state, str) else None,
        answers=answers_of(params.get("inputResponses")),
    )


def answers_of(given: object) -> dict[str, Answer]:
    """Read answers to questions; what is no answer is left out."""
    answers: dict[str, Answer] = {}
    for name, said in given.items() if is_object(given) else ():
        if is_object(said) and said.get("action") in ("accept", "decline", "cancel"):
            answers[name] = Answer(said["action"], said.get("content") or {})
    return answers
