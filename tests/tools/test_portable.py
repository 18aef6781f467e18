"""Which functions another process can import is said when the tool is made."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from tests.tools import elsewhere, hanging
from tests.tools.elsewhere import Counter, Holder, Math
from treadle import AskApproval, InvalidTool, Tool, ToolAbort, ToolError, tool
from treadle.errors import UnknownType
from treadle.state.scoped import StateConflict
from treadle.tools.portable import packed, packed_error, unpacked, unpacked_error


def there_and_back(value: Any) -> Any:
    return unpacked(packed(value))


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        (elsewhere.add.function, (1, 2), 3),
        (elsewhere.wrapped.function, (1,), 8),
        (Math.plain, (1,), 2),
        (Math.of_class, (2,), 6),
        (Math(7).bound, (2,), 14),
        (Math.inner.function, (1,), 3),
        (Math.outer.function, (1,), 5),
        (functools.partial(elsewhere.add.function, b=5), (1,), 6),
        (functools.partial(Math(7).bound, 3), (), 21),
        (len, ("abc",), 3),
    ],
)
def test_what_can_be_imported_comes_back(
    function: Callable[..., Any], arguments: tuple[Any, ...], value: int
) -> None:
    """Functions, methods of all kinds, partials and instances; also behind a decorator."""
    assert there_and_back(function)(*arguments) == value


def test_a_function_is_the_very_one() -> None:
    """What stands in the module is a `Tool`; the function in it is found all the same."""
    function = elsewhere.add.function

    assert isinstance(function, FunctionType)
    assert there_and_back(function) is function


def test_what_cannot_be_imported_is_said_at_once() -> None:
    """Lambdas, local functions and instances that cannot be pickled, each with its reason."""

    def local(number: int) -> int:
        """Return it."""
        return number

    refused: list[tuple[Any, str]] = [
        (local, "defined inside another function"),
        (functools.partial(local, 1), "defined inside another function"),
        (Holder(), "cannot pickle '_thread.lock' object"),
    ]
    for function, reason in refused:
        with pytest.raises(InvalidTool, match=reason):
            tool(isolation="process")(function)
    with pytest.raises(InvalidTool, match="a lambda has no name to import"):
        tool(isolation="process", name="l")(lambda: 1)
    with pytest.raises(InvalidTool, match='isolation="process" needs a function'):
        tool(local).replace(isolation="process")
    with pytest.raises(InvalidTool, match="inside another function"):
        Tool.from_schema("t", "", None, local, isolation="process")


def test_a_local_class_is_refused() -> None:
    """An instance whose class no other process has."""

    class Local:
        def __call__(self, number: int) -> int:
            """Return it."""
            return number

    with pytest.raises(InvalidTool, match=r"Local"):
        tool(isolation="process", name="t")(Local())


def test_a_module_that_is_none_is_refused() -> None:
    """A function that names a module which was never imported."""
    namespace: dict[str, Any] = {"__name__": "no_such_module"}
    exec("def made(number: int) -> int:\n    return number\n", namespace)  # noqa: S102

    with pytest.raises(InvalidTool, match="'no_such_module', which is no module"):
        tool(isolation="process")(namespace["made"])


def test_another_isolation_is_refused() -> None:
    """The error names the choices."""
    with pytest.raises(InvalidTool, match=r"isolation='fork' is none of \('thread', 'process'"):
        tool(isolation="fork")(Math.plain)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_function_that_was_replaced_is_an_error_when_it_is_packed() -> None:
    """Another function has taken its name since."""
    function = hanging.sleep
    hanging.sleep = hanging.spin
    try:
        with pytest.raises(Exception, match=r"tests.tools.hanging.sleep names now is not"):
            packed(function)
    finally:
        hanging.sleep = function


def test_counters_keep_what_they_hold() -> None:
    """An instance is a copy."""
    assert there_and_back(Counter(3)).count == 3


@pytest.mark.parametrize(
    "how", ["key", "odd", "tool", "abort", "bill", "os", "unicode", "conflict"]
)
def test_exceptions_come_back_as_they_were(how: str) -> None:
    """Type, text and what hangs on them, whatever their `__init__` takes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        elsewhere.fail(how)
    back = unpacked_error(*packed_error(caught.value))

    assert type(back) is type(caught.value)
    assert (str(back), back.args) == (str(caught.value), caught.value.args)
    own = {name: held for name, held in vars(back).items() if name != "__notes__"}
    assert own == vars(caught.value)
    assert "in fail" in back.__notes__[0]


def test_an_exception_with_keywords_of_its_own() -> None:
    """Ours, too, take keywords that their text was made of."""
    error = UnknownType("which?", type_name="T", path="p", raw=1)
    back: Any = there_and_back(error)

    assert (str(back), back.type_name, back.raw) == ("which?", "T", 1)
    assert isinstance(there_and_back(StateConflict("k", first="1", second="2")), StateConflict)


@pytest.mark.parametrize(
    ("how", "kind"), [("bill", AskApproval), ("abort", ToolAbort), ("tool", ToolError)]
)
def test_what_the_loop_obeys_keeps_its_meaning(how: str, kind: type[Exception]) -> None:
    """Whatever hangs on it: a stop must not become an error that the model reads."""
    with pytest.raises(kind) as caught:
        elsewhere.fail(f"held {how}")
    back: Any = unpacked_error(*packed_error(caught.value))

    assert (type(back), str(back)) == (kind, str(caught.value))
    assert getattr(back, "schema", None) == getattr(caught.value, "schema", None)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("unportable", "Unportable: cannot leave"),
        ("exit", "raised SystemExit(3)"),
        ("stop", "raised StopIteration(1)"),
    ],
)
def test_other_exceptions_come_back_as_text(how: str, text: str) -> None:
    """What cannot be pickled, or must not be raised elsewhere, is a RuntimeError."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        elsewhere.fail(how)
    back = unpacked_error(*packed_error(caught.value))

    assert (type(back), str(back)) == (RuntimeError, text)


DEFINED = '''
from treadle import InvalidTool, tool
try:
    @tool(isolation="process")
    def own(n: int) -> int:
        """Return it."""
        return n
except InvalidTool as error:
    print(error)
'''


@pytest.mark.e2e
@pytest.mark.parametrize("way", ["-c", "-"])
def test_a_main_without_a_file_is_refused(way: str) -> None:
    """What is typed, piped or given by -c stands in no file that a worker could load."""
    program = [sys.executable, "-c", DEFINED] if way == "-c" else [sys.executable, "-"]
    done = subprocess.run(
        program, input=DEFINED, capture_output=True, text=True, timeout=60, check=False
    )

    assert "own is defined in __main__, and this __main__ is no script" in done.stdout, done.stderr
