"""The tools of one run, frozen: found by the name that the model is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from msgspec.json import encode as encode_json

from treadle.errors import DuplicateTool, InvalidTool
from treadle.messages import ToolCall
from treadle.ports.background import Delegates
from treadle.ports.children import Delegate
from treadle.ports.model import ToolSpec
from treadle.ports.tool import ToolProtocol, ToolSource
from treadle.tools.artefact import READER
from treadle.tools.names import SKILL_TOOLS, nearest, safe_name
from treadle.tools.reading import reading_tool
from treadle.tools.secrets import secret_names
from treadle.tools.tool import Tool, as_tool


class ToolRegistry:
    """An immutable set of tools. `specs` is one tuple object, whose bytes encoders can keep.

    `asks` is whether any tool has an `approval`, `least_output` the least `max_output`, `delegates`
    who does the work of tools in child runs, by the tools' names; `background` is who may work in
    the background. `secrets` are the names of arguments that are secret, by the tools' names.
    """

    __slots__ = (
        "_bare",
        "_definition",
        "_lengths",
        "_narrowed",
        "_planning",
        "_reading",
        "_tools",
        "asks",
        "background",
        "delegates",
        "least_output",
        "secrets",
        "specs",
    )

    def __init__(
        self,
        tools: Iterable[Tool | ToolProtocol | ToolSource | Callable[..., Any]] = (),
        *,
        bare: ToolRegistry | None = None,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self._definition: dict[str, str] | None = None
        self._reading: ToolRegistry | None = None
        self._planning: ToolRegistry | None = None
        self._narrowed: dict[frozenset[str], ToolRegistry] = {}
        self._bare = bare
        self._lengths: tuple[int, int] | None = None
        for item in tools:
            found = as_tool(item)
            name = safe_name(found.name)
            if name in self._tools:
                raise DuplicateTool(
                    f"Tool {found.name!r} is defined twice (as {name!r}); "
                    "rename one with @tool(name=...)."
                )
            self._tools[name] = found
        found_tools = self._tools.values()
        self.asks = any(found.approval is not False for found in found_tools)
        self.delegates: dict[str, Delegate] = {
            name: found.delegate
            for name, found in self._tools.items()
            if found.delegate is not None
        }
        self.background = _background_of(found_tools)
        self.secrets: dict[str, tuple[str, ...]] = {
            name: names
            for name, found in self._tools.items()
            if (names := secret_names(found.parameters))
        }
        self.least_output = min((found.max_output for found in found_tools), default=0)
        self.specs = tuple(
            ToolSpec(name, found.description, found.parameters)
            for name, found in self._tools.items()
        )

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        """Return the tool that the model calls `name`."""
        return self._tools.get(name)

    def call_of(self, name: str, arguments: dict[str, Any], id: str) -> ToolCall:
        """Return a call of the tool that the model calls `name`; it need not exist."""
        return ToolCall.of(name, arguments, id=id, secret=self.secrets.get(name, ()))

    def names(self) -> tuple[str, ...]:
        """The names that the model is told, in order."""
        return tuple(self._tools)

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._tools.values())

    def without(self, names: frozenset[str]) -> ToolRegistry:
        """The same tools but for these: for the same names always the same object."""
        if not names:
            return self
        found = self._narrowed.get(names)
        if found is None:
            kept = [found for name, found in self._tools.items() if name not in names]
            self._narrowed[names] = found = ToolRegistry(kept)
        return found

    @property
    def definition(self) -> dict[str, str]:
        """A short hash of each tool's parameters, by name."""
        if self._definition is None:
            self._definition = {
                name: short_hash(encode_json(found.parameters, order="sorted"))
                for name, found in self._tools.items()
            }
        return self._definition

    @property
    def lengths(self) -> tuple[int, int]:
        """How many characters the tools take as JSON: those that read skills, and all others."""
        if self._lengths is None:
            skills = [len(encode_json(spec)) for spec in self.specs if spec.name in SKILL_TOOLS]
            whole = sum(len(encode_json(spec)) for spec in self.specs)
            self._lengths = sum(skills), whole - sum(skills)
        return self._lengths

    @property
    def reader(self) -> str:
        """The name of the tool that reads long outputs: one that no tool has."""
        return next(
            name
            for n in count(1)
            if (name := READER if n == 1 else f"{READER}_{n}") not in self._tools
        )

    @property
    def reading(self) -> ToolRegistry:
        """The same tools with the one that reads long outputs: always the same object."""
        if self._reading is None:
            reader = reading_tool().replace(name=self.reader)
            self._reading = ToolRegistry([*self._tools.values(), reader])
        return self._reading

    @property
    def planning(self) -> ToolRegistry:
        """The same tools with those that keep a plan: always the same object.

        Raises:
            DuplicateTool: there is a tool of such a name.
        """
        if self._planning is None:
            from treadle.tools.builtin.plan import plan_tools  # noqa: PLC0415 (few agents plan)

            self._planning = ToolRegistry([*self._tools.values(), *plan_tools()], bare=self)
        return self._planning

    @property
    def bare(self) -> ToolRegistry:
        """The same tools without those that keep a plan."""
        return self if self._bare is None else self._bare

    def unknown(self, name: str) -> str:
        """Return the text that answers a call of a tool that is not here."""
        if not self._tools:
            return f"There is no tool {name!r}; no tools are available."
        known = ", ".join(nearest(name, self.names()))
        return f"There is no tool {name!r}. Available, nearest first: {known}."


def _background_of(tools: Iterable[Tool]) -> Delegates | None:
    """Return who may work in the background, by the tools that have to do with it."""
    found = None
    for each in tools:
        if each.delegates is not None and found is not None and each.delegates is not found:
            raise InvalidTool(
                f"Tool {each.name!r} is of a second set of delegates; name all agents in one: "
                "delegates([a, b])."
            )
        found = each.delegates or found
    return found


def short_hash(content: bytes) -> str:
    """Return 64 bits of the SHA-256 of content, in hex."""
    return hashlib.sha256(content).hexdigest()[:16]
