"""A tool: a typed function, or a function with a schema, that a model can call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, overload

from treadle.errors import InvalidTool
from treadle.ports.background import Delegates
from treadle.ports.children import Delegate
from treadle.ports.context import RunContext
from treadle.ports.tool import ToolProtocol, ToolSource
from treadle.tools.parameters import Parameter, normalize_schema, parameters_schema
from treadle.tools.policy import Rules
from treadle.tools.schema_check import SchemaDecoder
from treadle.tools.signature import Signature, inspect_function, takes_context
from treadle.values import register_annotation

Isolation = Literal["thread", "process", "inline"]
OnError = Literal["report", "fail"]
OnUnknown = Literal["tell_model", "ask", "fail"]
Approval = bool | Rules | Callable[[RunContext[Any], dict[str, Any]], bool | Awaitable[bool]]
"""Whether calls wait for somebody's yes: always, never, or as rules or a function say."""

DEFAULT_TIMEOUT = 60.0
DEFAULT_OUTPUT = 40_000


class Decoder(Protocol):
    """Checks a call's arguments."""

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the validated values, or raise `ArgumentsInvalid`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model can call. Make one with `@tool` or `Tool.from_schema`.

    `timeout` is in seconds (None for none), `max_output` in bytes of text. `retries` is how often
    an exception (never a `ToolError`) is tried again before the model hears of it. `parallel=None`
    lets async tools run beside others and sync ones alone. `interrupt` pauses the run after the
    tool has run. With `on_error="fail"` an error ends the run. Calls of tools of one `lane` run in
    their order, one after another, beside those of other tools.

    A sync function runs in a thread; with `isolation="process"` in a process, which a timeout or
    a cancel kills (see `docs/how-to/stop-hung-tools.md`); with `"inline"` in the event loop.

    A call that needs `approval` does not run before somebody has decided. When a process died in
    the middle of a call, nobody knows whether it took effect: on resume an `idempotent` tool runs
    again under the same `ctx.idempotency_key`; of another `on_unknown` says whether to tell the
    model, to ask somebody whether it shall run again, or to fail.

    With a `delegate` a call is a child run of it, which no crash can leave unknown; `function` is
    what runs where there is no run to be in. With `delegates` it has to do with agents that work in
    the background: its function finds them in `ctx.background`.

    A `repeatable` tool is one to ask again and again, as to see whether something is done: its
    calls do not count for `Limits.max_repeats`.

    `title` is what events show beside a name that only models need: another name by which people
    know the tool.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., Any]
    decoder: Decoder
    takes_context: bool = False
    as_keywords: bool = True
    is_async: bool = False
    timeout: float | None = DEFAULT_TIMEOUT
    retries: int = 0
    parallel: bool | None = None
    isolation: Isolation = "thread"
    interrupt: bool = False
    on_error: OnError = "report"
    max_output: int = DEFAULT_OUTPUT
    approval: Approval = False
    idempotent: bool = False
    on_unknown: OnUnknown = "tell_model"
    delegate: Delegate | None = None
    delegates: Delegates | None = None
    title: str = ""
    lane: str = ""
    repeatable: bool = False

    def __post_init__(self) -> None:
        self._check_texts()
        self._check_numbers()
        if self.timeout is not None and self.timeout <= 0:
            raise InvalidTool(
                f"Tool {self.name!r}: timeout={self.timeout} is not more than 0; None is none."
            )
        if self.retries < 0:
            raise InvalidTool(f"Tool {self.name!r}: retries={self.retries} is negative.")
        if self.max_output < 200:
            raise InvalidTool(
                f"Tool {self.name!r}: max_output={self.max_output} is below 200 bytes."
            )
        for option, value, allowed in (
            ("isolation", self.isolation, ("thread", "process", "inline")),
            ("on_error", self.on_error, ("report", "fail")),
            ("on_unknown", self.on_unknown, ("tell_model", "ask", "fail")),
            ("idempotent", self.idempotent, (False, True)),
            ("repeatable", self.repeatable, (False, True)),
        ):
            if value not in allowed:
                raise InvalidTool(f"Tool {self.name!r}: {option}={value!r} is none of {allowed}.")
        if not isinstance(self.approval, bool | Rules) and not callable(self.approval):
            raise InvalidTool(
                f"Tool {self.name!r}: approval={self.approval!r:.60} is no bool, no Rules, and no "
                "function of the context and the arguments."
            )
        if self.isolation == "process":
            from treadle.tools.portable import check_portable  # noqa: PLC0415 (few tools need it)

            check_portable(self.function, self.name)

    def _check_texts(self) -> None:
        for kind in ("name", "description"):
            if not isinstance(given := getattr(self, kind), str):
                raise InvalidTool(f"Tool {self.name!r:.60}: {kind}={given!r:.60} is no text.")
        if not self.name.strip():
            raise InvalidTool("A tool needs a name.")

    def _check_numbers(self) -> None:
        for option in ("timeout", "retries", "max_output"):
            number: object = getattr(self, option)
            if number is None and option == "timeout":
                continue
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidTool(f"Tool {self.name!r}: {option}={number!r} is no number.")

    @property
    def runs_beside_others(self) -> bool:
        """Whether its calls may overlap other calls of the same reply."""
        return self.is_async if self.parallel is None else self.parallel

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function itself, as in plain Python; nothing is validated."""
        return self.function(*arguments, **keywords)

    def replace(self, **changes: Any) -> Tool:
        """Return a copy with these fields changed."""
        return replace(self, **changes)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        parameters: dict[str, Any] | Sequence[Parameter] | None,
        function: Callable[..., Any],
        **options: Any,
    ) -> Tool:
        """Make a tool whose schema is known only at run time.

        ```python
        from treadle import Tool

        schema = {"properties": {"city": {"type": "string"}}}
        weather = Tool.from_schema("weather", "Look it up.", schema, lambda arguments: "sun")
        print(weather.parameters["type"], weather({"city": "Paris"}))
        #> object sun
        ```

        `function` gets the arguments as one dict, after a `RunContext` when its first parameter
        is `ctx`. `parameters` is a JSON Schema object, or a list of `Parameter`; what is missing
        in a schema is filled in, and arguments are checked against it. `options` are
        the fields of `Tool`.

        Raises:
            InvalidTool: the schema is not one.
        """
        if parameters is None or isinstance(parameters, dict):
            schema = normalize_schema(parameters)
        else:
            schema = parameters_schema(parameters)
        return cls(
            name=name,
            description=description,
            parameters=schema,
            function=function,
            decoder=SchemaDecoder(schema),
            takes_context=takes_context(function, context_type=RunContext),
            as_keywords=False,
            is_async=is_async_callable(function),
            **options,
        )

    @classmethod
    def from_protocol(cls, source: ToolProtocol) -> Tool:
        """Adapt an object with the tool protocol; it may also have `Tool`'s option fields."""
        options = {name: getattr(source, name) for name in OPTION_FIELDS if hasattr(source, name)}
        tool = cls.from_schema(
            source.name, source.description, source.parameters, source.execute, **options
        )
        return tool.replace(takes_context=True)


OPTION_FIELDS = (
    "timeout",
    "retries",
    "parallel",
    "isolation",
    "interrupt",
    "on_error",
    "max_output",
    "approval",
    "idempotent",
    "on_unknown",
    "title",
    "repeatable",
)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(  # size: the options of a tool, each by name
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    retries: int = 0,
    parallel: bool | None = None,
    isolation: Isolation = "thread",
    interrupt: bool = False,
    on_error: OnError = "report",
    max_output: int = DEFAULT_OUTPUT,
    approval: Approval = False,
    idempotent: bool = False,
    on_unknown: OnUnknown = "tell_model",
    title: str = "",
    repeatable: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function: its name, docstring and annotations are what the model sees.

    ```python
    from treadle import tool


    @tool(description="Add two numbers.", timeout=5)
    def add(a: int, b: int = 1) -> int:
        return a + b


    print(add.name, add.parameters["required"], add(2))
    #> add ['a'] 3
    ```

    A first parameter `ctx: RunContext` is given the run and is not in the schema. See `Tool` for
    the options.

    Raises:
        InvalidTool: an annotation cannot be resolved or has no JSON form, or an option is wrong.
    """

    def make(target: Callable[..., Any]) -> Tool:
        signature = inspect_function(target, context_type=RunContext)
        return _from_signature(target, signature, name, description, options)

    return make if function is None else make(function)


def as_tool(item: Tool | ToolProtocol | ToolSource | Callable[..., Any]) -> Tool:
    """Return `item` as a tool: itself, an agent's, an object adapted, a function decorated."""
    if isinstance(item, Tool):
        return item
    if isinstance(item, ToolProtocol):
        return Tool.from_protocol(item)
    if isinstance(item, ToolSource):
        return as_tool(item.as_tool())
    if callable(item):
        return tool(item)
    raise InvalidTool(
        f"{item!r} is not a tool: pass a function, a Tool, an agent, or an object like one."
    )


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; looks through callable objects."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 its kind matters
    )


def _from_signature(
    function: Callable[..., Any],
    signature: Signature,
    name: str | None,
    description: str | None,
    options: dict[str, Any],
) -> Tool:
    for annotation in (*signature.types.values(), signature.returns):
        register_annotation(annotation)  # so that results and state of these types can be stored
    return Tool(
        name=name or signature.name,
        description=signature.description if description is None else description,
        parameters=signature.parameters,
        function=function,
        decoder=signature.decoder,
        takes_context=signature.takes_context,
        is_async=signature.is_async,
        **options,
    )
