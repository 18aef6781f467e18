"""What can be a tool: every kind of callable, with or without a context, and what is refused."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import pytest

from tests.tools.written import written
from treadle.errors import InvalidTool
from treadle.tools.signature import Signature, inspect_function, takes_context

Deps = TypeVar("Deps")


class Context(Generic[Deps]):
    """Stands for the run's context."""


class Keys(TypedDict):
    n: int


@dataclass
class Place:
    name: str


def inspected(function: Callable[..., Any]) -> Signature:
    """Return a function's signature as a tool."""
    return inspect_function(function, context_type=Context)


def properties_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schemas of a function's parameters."""
    return inspected(function).parameters["properties"]


def book(ctx: Context[int], city: str, price: float, cash: bool) -> str:
    """Book a room.

    Args:
        city: City name.
    """
    return city


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

        one = written("def one(ctx, x: int): ...")

        def two(ctx: str, x: int) -> None: ...
        def three(x: int, ctx: str) -> None: ...

        assert inspected(one).takes_context
        assert not inspected(two).takes_context
        assert list(properties_of(two)) == ["ctx", "x"]
        assert not takes_context(three, context_type=Context)

    def test_an_import_for_type_checkers_is_enough(self) -> None:
        """The context's class need not be there at run time, nor what it is of."""

        for annotation in ("Context[Nothing]", "absent.Context", "Context[Nothing] | None"):
            signature = inspected(written(f"def one(ctx: {annotation}, x: int): ..."))
            assert signature.takes_context
            assert list(signature.parameters["properties"]) == ["x"]
        with pytest.raises(InvalidTool, match="'Absent' of parameter 'ctx'"):
            inspected(written("def one(ctx: Absent, x: int): ..."))

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

        assert (called.name, called.description, called.is_async) == (
            "Greeter",
            "Greets people.",
            False,
        )
        assert (bound.name, bound.description, bound.is_async) == (
            "wave",
            "Wave at somebody.",
            True,
        )
        assert (
            list(called.parameters["properties"])
            == list(bound.parameters["properties"])
            == ["name"]
        )

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
        assert inspected(lambda: 1).name == ""

    def test_results(self) -> None:
        """None, no annotation and one that is not there at run time are told apart from types."""

        def one() -> None: ...

        assert inspected(one).returns is NoneType
        assert inspected(written("def two(): ...")).returns is None
        assert inspected(written("def three() -> Nothing: ...")).returns is None


class TestRefused:
    """Functions that cannot be tools, each with what to do."""

    def test_kinds_of_parameters(self) -> None:
        """Models give arguments by name."""

        for parameters, words in (
            ("*args: int", "list parameter"),
            ("x: int, /", "positional-only"),
            ("self, x: int", "bound method"),
            ("**more: Unpack[Keys]", "write its keys as parameters"),
        ):
            with pytest.raises(InvalidTool, match=words):
                inspected(written(f"def one({parameters}): ...", Unpack=Unpack, Keys=Keys))

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

        with pytest.raises(InvalidTool, match=r"'list\[Nothing\]' of parameter 'y'.*TYPE_CHECKING"):
            inspected(written("def one(x: int, y: list[Nothing]): ..."))
        with pytest.raises(InvalidTool, match="parameter 'x' cannot be resolved"):
            inspected(written("def two(x: 'list['): ..."))

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

        for function, words in (
            (one, "s:.*Socket"),
            (two, "h:.*Socket"),
            (three, "call:"),
            (four, "Socket"),
        ):
            with pytest.raises(InvalidTool, match=f"Tool '{function.__name__}': .*{words}"):
                inspected(function)
