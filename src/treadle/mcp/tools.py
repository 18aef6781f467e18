"""A server's tools as tools of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from treadle.control import AskApproval
from treadle.errors import InvalidTool, MCPFailed, ToolError
from treadle.mcp._sdk import Session
from treadle.mcp.content import block_parts, resource_parts, shown, text_of, with_defaults
from treadle.mcp.exchange import Action, Exchange, Question
from treadle.mcp.headers import PerCall, headers_of
from treadle.mcp.listing import Listed
from treadle.mcp.remote import Remote
from treadle.ports.context import RunContext
from treadle.tools.names import safe_name
from treadle.tools.tool import Tool
from treadle.values import is_object
from treadle.values.logs import logger

log = logger(__name__)


class Link:
    """What a client and its tools hold of a server; when the last has gone, so has the server."""

    __slots__ = ("__weakref__", "remote", "warned")

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.warned: set[str] = set()

    def warn(self, text: str, *values: object) -> None:
        """Log a warning, once."""
        said = text % values
        if said not in self.warned:
            self.warned.add(said)
            log.warning("%s", said)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How a server's tools are made; `fields` are those of `Tool`."""

    name: str | None
    prefix: bool
    only: tuple[str, ...] | None
    headers: PerCall = field(repr=False)
    trust_hints: bool
    fields: dict[str, Any]


def tools_of(
    link: Link, server: str, listed: Iterable[Listed], options: ToolOptions
) -> tuple[Tool, ...]:
    """Return the tools that can be offered; each that cannot is left out, with a warning."""
    found: list[Tool] = []
    wanted = list(listed)
    if options.only is not None:
        known = {tool.name for tool in wanted}
        for name in options.only:
            if name not in known:
                link.warn("MCP server %r has no tool %r (only=).", server, name)
        wanted = [tool for tool in wanted if tool.name in options.only]
    for tool in wanted:
        try:
            found.append(_tool(link, server, tool, options))
        except InvalidTool as error:
            link.warn("MCP server %r: tool %r is left out: %s", server, tool.name, error)
    return tuple(found)


def _tool(link: Link, server: str, listed: Listed, options: ToolOptions) -> Tool:
    full = f"{server}_{listed.name}" if options.prefix else listed.name
    name = safe_name(full)
    if name != full:
        link.warn("MCP server %r: tool %r is called %r here.", server, listed.name, name)
    schema: Any = listed.schema
    if schema is not None and not is_object(schema):
        raise InvalidTool(f"its input schema is {schema!r:.60}, not an object.")
    again = options.trust_hints and bool(
        listed.hints.get("idempotentHint") or listed.hints.get("readOnlyHint")
    )
    call = _calling(link, listed.name, options.headers, again=again)
    return Tool.from_schema(
        name,
        listed.description,
        schema,
        call,
        idempotent=again,
        title="" if name == full else full,
        **options.fields,
    )


def _calling(
    link: Link, name: str, headers: PerCall, *, again: bool
) -> Callable[[RunContext[Any], dict[str, Any]], Any]:
    """Return the function that calls a tool by the name that its server knows."""

    async def call(ctx: RunContext[Any], arguments: dict[str, Any]) -> Any:
        questions = _Questions(ctx)
        exchange = Exchange(headers=await headers_of(headers, ctx), ask=questions.answer)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told = {"progress": done, "total": total, "message": message}
            ctx.report({name: value for name, value in told.items() if value is not None})

        async def work(session: Session) -> dict[str, Any]:
            return await session.call(name, arguments, progress)

        try:
            result = await link.remote.request(work, exchange, again=again)
        except MCPFailed as error:
            questions.raise_open()
            raise ToolError(str(error)) from error
        questions.raise_open()
        if result.get("isError"):
            raise ToolError(text_of(result) or f"Tool {name!r} failed, and does not say why.")
        return shown(result)

    return call


class _Questions:
    """What a server asks during one call, answered by what somebody has decided before.

    The first question that nobody has answered yet ends the call: it waits for a decision, and
    then runs again from its start.
    """

    def __init__(self, ctx: RunContext[Any]) -> None:
        self._answers = ctx.answers
        self._asked = 0
        self._open: Question | None = None

    async def answer(self, question: Question) -> tuple[Action, dict[str, Any] | None]:
        index, self._asked = self._asked, self._asked + 1
        if index >= len(self._answers):
            self._open = self._open or question
            return "cancel", None
        if question.schema is None:
            return "accept", None
        return "accept", with_defaults(question.schema, self._answers[index])

    def raise_open(self) -> None:
        """Ask somebody, where a question is open."""
        if self._open is not None:
            link = f" Open {self._open.url} and approve when done." if self._open.url else ""
            raise AskApproval(
                f"MCP server {self._open.server!r} asks: {self._open.message}{link}",
                self._open.schema,
            )


def resource_tools(link: Link, server: str, options: ToolOptions) -> tuple[Tool, ...]:
    """Return the tools that list and read a server's resources."""
    start = f"{server}_" if options.prefix else ""

    async def list_resources(arguments: dict[str, Any]) -> Any:  # noqa: ARG001 it takes none
        found = await _asking(link.remote.list("resources"))
        templates = await _asking(link.remote.list("templates"))
        lines = [block_parts({**each, "type": "resource_link"})[0] for each in found]
        lines += [
            block_parts({**each, "type": "resource_link", "uri": each.get("uriTemplate")})[0]
            for each in templates
        ]
        return "\n".join(getattr(line, "text", "") for line in lines) or "There are no resources."

    async def read_resource(arguments: dict[str, Any]) -> Any:
        uri = arguments["uri"]
        result = await _asking(link.remote.request(lambda session: session.read(uri), again=True))
        return [part for each in result["contents"] for part in resource_parts(each)]

    schema = {"properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return (
        Tool.from_schema(
            safe_name(f"{start}list_resources"),
            f"List the resources of {server}.",
            {},
            list_resources,
            idempotent=True,
            **options.fields,
        ),
        Tool.from_schema(
            safe_name(f"{start}read_resource"),
            f"Read a resource of {server} by its address.",
            schema,
            read_resource,
            idempotent=True,
            **options.fields,
        ),
    )


async def _asking(request: Any) -> Any:
    try:
        return await request
    except MCPFailed as error:
        raise ToolError(str(error)) from error
