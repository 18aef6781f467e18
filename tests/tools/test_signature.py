"""Functions as tools: names, descriptions, schemas, contexts, and what is refused."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel
from pydantic import Field as PydanticField

from treadle.errors import InvalidTool
from treadle.tools.signature import ArgumentsInvalid, Signature, inspect_function, takes_context

if TYPE_CHECKING:
    from treadle.nowhere import Nothing, RunContext  # pyright: see below; not there at run time

Deps = TypeVar("Deps")


class Context(Generic[Deps]):
    """Stands for the run's context."""


def inspected(function: Callable[..., Any]) -> Signature:
    """Return a function's signature as a tool."""
    return inspect_function(function, context_type=Context)


def properties_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schemas of a function's parameters."""
    return inspected(function).parameters["properties"]


class Place(BaseModel):
    """A place."""

    name: str
    floor: int = 0


def book(
    ctx: Context[int],
    city: str,
    place: Place,
    nights: int,
    price: float,
    cash: bool,
    tags: list[str],
    title: str = "Dr",
    count: int = 1,
    factor: float = 0.5,
    quiet: bool = False,
    unit: Literal["C", "F"] = "C",
    places: list[Place] | None = None,
) -> str:
    """Book a room.

    Args:
        city: City name, for example "Paris".
        tags: What matters.
    """
    return city


def test_a_function_becomes_a_schema() -> None:
    """Names, types, descriptions, defaults, required set and nested schemas are all there (S14)."""
    signature = inspected(book)

    assert signature.name == "book"
    assert signature.description == "Book a room."
    assert signature.takes_context
    assert not signature.is_async
    assert signature.returns is str
    assert signature.types["places"] == list[Place] | None
    schema = signature.parameters
    place = {
        "type": "object",
        "description": "A place.",
        "properties": {"name": {"type": "string"}, "floor": {"type": "integer", "default": 0}},
        "required": ["name"],
    }
    assert schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city", "place", "nights", "price", "cash", "tags"],
        "properties": {
            "city": {"type": "string", "description": 'City name, for example "Paris".'},
            "place": place,
            "nights": {"type": "integer"},
            "price": {"type": "number"},
            "cash": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "What matters."},
            "title": {"type": "string", "default": "Dr"},
            "count": {"type": "integer", "default": 1},
            "factor": {"type": "number", "default": 0.5},
            "quiet": {"type": "boolean", "default": False},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "places": {"anyOf": [{"type": "array", "items": place}, {"type": "null"}], "default": None},
        },
    }


def test_a_function_without_parameters() -> None:
    """It takes an empty object, and nothing else (BS-02)."""

    def ping() -> str:
        return "pong"

    signature = inspected(ping)

    assert signature.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert signature.description == ""
    assert signature.decoder.decode({}) == {}
    with pytest.raises(ArgumentsInvalid, match="x: unknown parameter"):
        signature.decoder.decode({"x": 1})


def test_descriptions_beside_the_type() -> None:
    """A text in `Annotated` or pydantic's `Field` says more than the docstring."""

    def search(
        a: Annotated[str, "From a text"],
        b: Annotated[int, PydanticField(description="From a field", ge=1)],
        c: str = PydanticField("x", description="From a default"),
        d: int = 0,
        e: Annotated[list[int], "Many"] = PydanticField(default_factory=list),
    ) -> None:
        """Search.

        Args:
            a: no
            b: no
            c: no
            d: From the docstring
        """

    signature = inspected(search)
    properties = signature.parameters["properties"]

    assert [properties[name].get("description") for name in "abcde"] == [
        "From a text",
        "From a field",
        "From a default",
        "From the docstring",
        "Many",
    ]
    assert properties["b"]["minimum"] == 1
    assert signature.parameters["required"] == ["a", "b"]
    assert signature.decoder.decode({"a": "q", "b": 1}) == {"a": "q", "b": 1, "c": "x", "d": 0, "e": []}


def test_a_field_may_give_another_name() -> None:
    """An alias is what the model sees; the function gets its own name."""

    def mail(to: str, from_: Annotated[str, PydanticField(alias="from")] = "me") -> None: ...

    signature = inspected(mail)

    assert list(signature.parameters["properties"]) == ["to", "from"]
    assert signature.decoder.decode({"to": "a", "from": "b"}) == {"to": "a", "from_": "b"}


def test_a_required_field_as_default() -> None:
    """`Field()` without a default describes a required parameter."""

    def search(q: str = PydanticField(description="Words")) -> None: ...

    assert inspected(search).parameters["required"] == ["q"]


def test_parameters_without_annotation_take_anything() -> None:
    """They have an empty schema, and values come through untouched."""

    def log(level, text=None):  # type: ignore[no-untyped-def]
        ...

    signature = inspected(log)

    assert signature.parameters["properties"] == {"level": {}, "text": {"default": None}}
    assert signature.decoder.decode({"level": [1, "a"]}) == {"level": [1, "a"], "text": None}


def test_further_keywords() -> None:
    """`**kwargs: T` takes any other argument of type T."""

    def tag(name: str, **labels: int) -> None: ...

    signature = inspected(tag)

    assert signature.parameters["additionalProperties"] == {"type": "integer"}
    assert signature.decoder.decode({"name": "n", "a": 1, "b": "2"}) == {"name": "n", "a": 1, "b": 2}
    with pytest.raises(ArgumentsInvalid) as caught:
        signature.decoder.decode({"a": "x"})
    assert "name: required" in str(caught.value)
    assert "a: expected a valid integer" in str(caught.value)


def test_any_further_keywords() -> None:
    """`**kwargs` without a type takes all."""

    def tag(**labels: Any) -> None: ...

    assert inspected(tag).parameters["additionalProperties"] is True
    assert inspected(tag).decoder.decode({"a": [1]}) == {"a": [1]}


class TestContext:
    """Which first parameters are for the run's context."""

    def test_by_type_under_any_name(self) -> None:
        """An annotation with the context's class counts, also with what it is of."""

        def one(ctx: Context[int], x: int) -> None: ...
        def two(run: Context[Any], x: int) -> None: ...
        def three(ctx: Context[str] | None, x: int) -> None: ...
        def four(ctx: Context[int], /, x: int) -> None: ...

        for function in (one, two, three, four):
            assert inspected(function).takes_context
            assert list(properties_of(function)) == ["x"]
            assert takes_context(function, context_type=Context)

    def test_by_name_without_a_type(self) -> None:
        """`ctx` alone is enough; with another type it is a parameter like any other."""

        def one(ctx, x: int):  # type: ignore[no-untyped-def]
            ...

        def two(ctx: str, x: int) -> None: ...
        def three(x: int, ctx: str) -> None: ...

        assert inspected(one).takes_context
        assert not inspected(two).takes_context
        assert list(properties_of(two)) == ["ctx", "x"]
        assert not takes_context(three, context_type=Context)

    def test_an_import_for_type_checkers_is_enough(self) -> None:
        """The context's class need not be there at run time, nor what it is of."""

        class RunContext: ...

        def one(ctx: RunContext[Nothing], x: int) -> None: ...

        signature = inspect_function(one, context_type=RunContext)
        assert signature.takes_context
        assert list(signature.parameters["properties"]) == ["x"]

    def test_elsewhere_it_is_refused(self) -> None:
        """A context that is not first, or only a keyword, would never be given."""

        def one(x: int, ctx: Context[int]) -> None: ...
        def two(*, ctx: Context[int]) -> None: ...

        for function in (one, two):
            with pytest.raises(InvalidTool, match="put it first"):
                inspected(function)

    def test_functions_without_signature_take_none(self) -> None:
        """Asking is no error."""
        assert not takes_context(dict, context_type=Context)


class TestCallables:
    """Everything that can be called."""

    def test_partial(self) -> None:
        """What a partial has set is not the model's to choose, and not shown to it."""
        signature = inspected(functools.partial(book, price=1.0, cash=True))
        shown = signature.parameters["properties"]

        assert signature.name == "book"
        assert signature.description == "Book a room."
        assert "price" not in shown
        assert "cash" not in shown
        assert shown["city"]["description"]

    def test_partial_of_positions(self) -> None:
        """Arguments set by position are gone too."""

        def add(a: int, b: int) -> int:
            return a + b

        plus_one = functools.partial(add, 1)
        values = inspected(plus_one).decoder.decode({"b": 2})
        assert plus_one(**values) == 3

    def test_bound_methods_and_callable_objects(self) -> None:
        """Each is read like the function behind it."""

        class Greeter:
            """Greets people."""

            def __call__(self, name: str) -> str:
                return f"Hello {name}"

            async def wave(self, name: str) -> str:
                """Wave at somebody."""
                return name

        called, bound = inspected(Greeter()), inspected(Greeter().wave)

        assert (called.name, called.description, called.is_async) == ("Greeter", "Greets people.", False)
        assert (bound.name, bound.description, bound.is_async) == ("wave", "Wave at somebody.", True)
        assert list(called.parameters["properties"]) == list(bound.parameters["properties"]) == ["name"]

    def test_async_callable_objects_and_partials(self) -> None:
        """Their calls are awaited."""

        class Waiter:
            async def __call__(self, n: int) -> int:
                return n

        assert inspected(Waiter()).is_async
        assert inspected(functools.partial(Waiter(), n=1)).is_async

    def test_sync_functions_that_return_awaitables(self) -> None:
        """The annotation says so, and what comes of awaiting is the result."""

        def one(n: int) -> Awaitable[int]: ...
        def two(n: int) -> Coroutine[Any, Any, list[str]]: ...
        def three(n: int) -> asyncio.Future[bool]: ...

        found = [inspected(function) for function in (one, two, three)]
        assert [signature.is_async for signature in found] == [True] * 3
        assert [signature.returns for signature in found] == [int, list[str], bool]

    def test_wrapped_functions(self) -> None:
        """A decorator that keeps `__wrapped__` does not hide the signature."""

        def loud(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            return wrapper

        @loud
        def add(a: int, b: Place) -> int:
            """Add."""
            return a

        signature = inspected(add)
        assert (signature.name, signature.description) == ("add", "Add.")
        assert list(signature.parameters["properties"]) == ["a", "b"]

    def test_a_lambda_has_no_name(self) -> None:
        """Whoever makes a tool of it must name it."""
        assert inspected(lambda x: x).name == ""

    def test_results(self) -> None:
        """None, no annotation and one that is not there at run time are told apart from types."""

        def one() -> None: ...
        def two():  # type: ignore[no-untyped-def]
            ...
        def three() -> Nothing: ...

        assert inspected(one).returns is NoneType
        assert inspected(two).returns is None
        assert inspected(three).returns is None


class TestRefused:
    """Functions that cannot be tools, each with what to do."""

    def test_kinds_of_parameters(self) -> None:
        """Models give arguments by name."""

        def one(*args: int) -> None: ...
        def two(x: int, /) -> None: ...
        def three(self, x: int) -> None:  # type: ignore[no-untyped-def]
            ...

        for function, words in ((one, "list parameter"), (two, "positional-only"), (three, "bound method")):
            with pytest.raises(InvalidTool, match=words):
                inspected(function)

    def test_generators(self) -> None:
        """They have no one result."""

        def one() -> Iterator[int]:
            yield 1

        async def two() -> AsyncIterator[int]:
            yield 1

        for function in (one, two):
            with pytest.raises(InvalidTool, match="is a generator"):
                inspected(function)

    def test_no_signature(self) -> None:
        """Some builtins tell nothing about themselves."""
        with pytest.raises(InvalidTool, match="tells no signature"):
            inspected(dict)

    def test_names_that_cannot_be_resolved(self) -> None:
        """The message has the annotation and the parameter."""

        def one(x: int, y: list[Nothing]) -> None: ...
        def two(x: "list[") -> None: ...  # type: ignore[valid-type]  # noqa: F722, UP037

        with pytest.raises(InvalidTool, match=r"'list\[Nothing\]' of parameter 'y'.*TYPE_CHECKING"):
            inspected(one)
        with pytest.raises(InvalidTool, match="parameter 'x' cannot be resolved"):
            inspected(two)

    def test_types_without_json_form(self) -> None:
        """The message has the parameter and the type."""

        class Socket: ...

        @dataclass
        class Holder:
            socket: Socket

        def one(x: int, s: Socket) -> None: ...
        def two(x: int, h: Holder) -> None: ...
        def three(x: int, call: Callable[[], int]) -> None: ...
        def four(x: int, **more: Socket) -> None: ...

        for function, words in ((one, "s:.*Socket"), (two, "h:.*Socket"), (three, "call:"), (four, "Socket")):
            with pytest.raises(InvalidTool, match=f"Tool '{function.__name__}': .*{words}"):
                inspected(function)


def test_names_of_enclosing_functions_are_found() -> None:
    """Classes defined beside a function can be in its postponed annotations, and in each other's."""

    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: list[Inner]

    def make() -> Signature:
        def use(outer: Outer | None, inner: Inner) -> None: ...

        return inspected(use)

    values = make().decoder.decode({"outer": {"inner": [{"n": 1}]}, "inner": {"n": 2}})
    assert values == {"outer": Outer([Inner(1)]), "inner": Inner(2)}


def test_the_module_imports_nothing_heavy() -> None:
    """pydantic and the docstring parser wait for the first tool that needs them."""
    program = "import sys, treadle.tools.signature as s; print([m for m in ('pydantic', 'docstring_parser') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert ended.stdout.decode().strip() == "[]"
