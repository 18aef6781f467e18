"""`treadle mcp`: agents and tools for clients of the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.agent.agent import Agent
from treadle.cli.keeping import open_keeping
from treadle.cli.loading import default_model, load
from treadle.cli.options import add_debug, add_store
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError
from treadle.mcp.server import MCPServer, Offered
from treadle.mcp.server_http import check_access
from treadle.mcp.server_stdio import Wires
from treadle.models.resolve import resolve_model
from treadle.ports.runnable import Runnable
from treadle.ports.store import Store
from treadle.ports.tool import ToolProtocol
from treadle.tools.tool import Tool

TOKEN = "TREADLE_MCP_TOKEN"  # noqa: S105 the name of a variable, not a token
PORT = 8000
LAST = 10.0
"""Seconds that calls have to end; those that do not want to end with the process."""
EPILOG = f"""\
examples:
  treadle mcp my_agents:writer
  treadle mcp my_agents:clerk my_tools:add my_tools:TOOLS --store sqlite:///chat.db
  treadle mcp my_agents:clerk --describe clerk="Answers what is asked about invoices"
  treadle mcp my_agents:writer --http --port 8000
  {TOKEN}=$(openssl rand -hex 32) treadle mcp my_agents:writer --http --host 0.0.0.0

Without --http a client starts this command and talks to it over standard input and output. In a
client's configuration that is: {{"command": "treadle", "args": ["mcp", "my_agents:writer"]}}
Prints of agents and tools go to standard error, and so do messages.

Exit codes: 0 ended, 1 failed, 2 wrong usage, 130 interrupted.
"""


def describe_mcp(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Offer agents and tools to clients of the Model Context Protocol (MCP): each becomes a tool"
        " of theirs."
    )
    parser.epilog = EPILOG
    parser.usage = "treadle mcp [options] module:agent [module:tool ...]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "words",
        nargs="*",
        metavar="module:agent",
        help="an agent, a tool, a typed function, a list of these, or an MCPServer",
    )
    parser.add_argument(
        "--describe",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what an agent is good at, for the client's model; once for each agent",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="what the server is called (default: treadle)"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="model of all agents (default: each agent's own)"
    )
    add_store(parser)
    _add_http(parser)
    add_debug(parser)
    parser.set_defaults(command=mcp_command)


def _add_http(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http", action="store_true", help="listen for clients over streamable HTTP, at /mcp"
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"port (default: {PORT}; 0: a free one)",
    )
    parser.add_argument(
        "--token",
        metavar="TEXT",
        help=f"bearer token that requests need; others on this machine can see it here, so better "
        f"set {TOKEN}",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="further host name that requests may use, behind a proxy for example",
    )


def mcp_command(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the client leaves or a signal comes; return the exit code.

    Raises:
        ConfigError: there is nothing to serve, or it cannot be served so.
    """
    served = _http_of(options)
    if not options.words:
        raise ConfigError("There is nothing to serve: treadle mcp module:agent [module:tool ...]")
    wires = None if served is not None else Wires()  # before any code of the user can print
    try:
        offered = [each for word in options.words for each in _load(word, options.model)]
        return asyncio.run(_serve(options, offered, served, wires, terminal))
    finally:
        if wires is not None:
            wires.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where and how to listen over HTTP."""

    host: str
    port: int
    token: str | None
    hosts: Sequence[str]


def _http_of(options: argparse.Namespace) -> Listening | None:
    if not options.http:
        for name in ("host", "port", "token"):
            if getattr(options, name) is not None:
                raise ConfigError(f"--{name} is for --http; add it, or leave --{name} out.")
        if options.allow_host:
            raise ConfigError("--allow-host is for --http; add it, or leave --allow-host out.")
        return None
    host = options.host or "127.0.0.1"
    token = options.token if options.token is not None else os.environ.get(TOKEN) or None
    try:
        check_access(host, token)
    except ConfigError as error:
        raise ConfigError(f"{error} Tokens are set in {TOKEN}.") from error
    port = PORT if options.port is None else options.port
    return Listening(host=host, port=port, token=token, hosts=tuple(options.allow_host))


async def _serve(
    options: argparse.Namespace,
    offered: Sequence[Offered | MCPServer],
    served: Listening | None,
    wires: Wires | None,
    terminal: Terminal,
) -> int:
    keeping = None if options.store is None else open_keeping(options.store)
    try:
        server = _server(options, offered, None if keeping is None else keeping.store)
        names = ", ".join(server.names)
        if served is None:
            if terminal.stdin.isatty():
                _say(terminal, f"Serving {names} over stdio, to a client that starts this command.")
            return await _until_signal(lambda: server.serve_stdio(wires), _ended(wires, terminal))
        return await _until_signal(
            lambda: server.serve_http(
                host=served.host,
                port=served.port,
                token=served.token,
                hosts=served.hosts,
                on_ready=lambda address: _say(terminal, f"Serving {names} at {address}"),
            ),
            _ended(None, terminal),
        )
    finally:
        if keeping is not None:
            await keeping.close()


def _server(
    options: argparse.Namespace, offered: Sequence[Offered | MCPServer], store: Store | None
) -> MCPServer:
    made = next((each for each in offered if isinstance(each, MCPServer)), None)
    if made is not None:
        return _made(made, options, alone=len(offered) == 1)
    descriptions: dict[str, str] = {}
    for given in options.describe:
        name, equals, text = given.partition("=")
        if not equals or not name or not text.strip():
            raise ConfigError(f"--describe {given!r:.80}: write NAME=TEXT, with an agent's name.")
        descriptions[name] = text.strip()
    parts = [each for each in offered if not isinstance(each, MCPServer)]
    name = options.name or "treadle"
    return MCPServer(*parts, name=name, descriptions=descriptions, store=store)


def _made(server: MCPServer, options: argparse.Namespace, *, alone: bool) -> MCPServer:
    """Return a server that the user has made, which is all that is served."""
    if not alone:
        raise ConfigError("An MCPServer is served alone; give it the other agents and tools.")
    for name in ("name", "model", "store", "describe"):
        if getattr(options, name):
            raise ConfigError(f"--{name} is not for an MCPServer: it has its own. Leave it out.")
    return server


def _say(terminal: Terminal, text: str) -> None:
    print(text, "Ctrl-C ends it.", file=terminal.stderr, flush=True)


def _ended(wires: Wires | None, terminal: Terminal) -> threading.Event:
    """Return what is set when the client has left; some seconds later this process has ended.

    A call that swallows its cancellation cannot keep it, nor one that blocks the event loop.
    """
    ended = threading.Event() if wires is None else wires.ended

    def end() -> None:
        ended.wait()
        threading.Event().wait(LAST)
        print(f"A call did not end within {LAST:g} s; it is cut off.", file=terminal.stderr)
        terminal.stderr.flush()
        os._exit(1)

    threading.Thread(target=end, name="treadle-mcp-end", daemon=True).start()
    return ended


async def _until_signal(serve: Callable[[], Awaitable[None]], ended: threading.Event) -> int:
    """Serve until that ends by itself or a signal comes; calls under way are ended in order.

    A second signal ends the process at once.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    codes = {signal.SIGINT: 130, signal.SIGTERM: 0}
    got: list[int] = []

    def stop(code: int) -> None:
        if got:
            os._exit(code or 1)
        if task is not None:
            task.cancel()
        got.append(code)
        ended.set()

    for number, code in codes.items():
        loop.add_signal_handler(number, stop, code)
    try:
        await serve()
    except asyncio.CancelledError:
        if not got:
            raise
        if task is not None:
            task.uncancel()
    finally:
        for number in codes:
            loop.remove_signal_handler(number)
    return got[0] if got else 0


def _load(reference: str, model: str | None) -> list[Offered | MCPServer]:
    """Return what a word names: one thing, or those of a list.

    Raises:
        ConfigError: it is nothing that can be offered.
    """
    found: Any = load(reference, kind="agent or tool")[0]
    items: list[Any] = list(found) if isinstance(found, list | tuple) else [found]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] the user's
    if not items:
        raise ConfigError(f"{reference!r} is an empty list; there is nothing to serve in it.")
    return [_checked(item, reference, model) for item in items]


def _checked(item: Any, reference: str, model: str | None) -> Offered | MCPServer:
    if isinstance(item, MCPServer):
        return item
    if isinstance(item, Agent):
        return _with_model(item, model)  # pyright: ignore[reportUnknownArgumentType] nor are these known
    is_function = callable(item) and not isinstance(item, type)
    if isinstance(item, Runnable | Tool | ToolProtocol) or is_function:
        return item
    raise ConfigError(
        f"{reference!r} is no agent and no tool; its type is {type(item).__name__}. Name an agent, "
        "a tool, a typed function, or a list of these."
    )


def _with_model(agent: Agent[Any, Any], model: str | None) -> Agent[Any, Any]:
    """Return an agent that has a model, and say now if that cannot be used."""
    if model is not None or agent.model is None:
        agent = agent.replace(model=model or default_model())
    resolve_model(agent.model, agent=agent.name)
    return agent


def _port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give 0 to 65535")
    return number
