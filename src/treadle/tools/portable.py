"""What can be had again in another process: functions by where they stand, all else pickled."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

from treadle.control import AskApproval
from treadle.errors import InvalidTool, ToolAbort, ToolError

SCRIPT = "__treadle_main__"
"""What a worker calls the script that its parent runs: its `__main__` block stays out."""
MOST_LAYERS = 16
MOST_TRACE = 100_000  # characters of a traceback, the last ones

Place = tuple[str, str, int]
"""A module, the dotted name in it, and how many wrappers (a `Tool`, for one) to look into."""
PackedError = tuple[bytes | None, str, str]
"""The exception pickled, where that can be; its name and text; its traceback."""
Source = tuple[str, str]
"""Where the code of the parent's `__main__` is: "file" and a path, or "module" and a name."""


class Script:
    """The program that the parent runs, as a worker sees it; loaded when something needs it."""

    source: Source | None = None
    loading = False


def packed(value: object) -> bytes:
    """Return the value as bytes that another process of this program can read.

    Raises:
        Exception: it cannot be pickled; anything, for a class may say how that is done.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def unpacked(content: bytes) -> Any:
    """Return the value that `packed` was given.

    Raises:
        Exception: what importing its module or building it raised.
    """
    return _Unpickler(io.BytesIO(content)).load()


def packed_error(error: BaseException) -> PackedError:
    """Return an exception for another process: as it is where that can be, and as text.

    What the loop obeys keeps its meaning, if not its class.
    """
    from traceback import format_exception  # noqa: PLC0415 (a call that goes well needs neither)

    from treadle.tools.outcome import describe  # noqa: PLC0415

    trace = "".join(format_exception(error))[-MOST_TRACE:]
    if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
        return None, f"raised {error!r}", trace  # it would end what waits for the call
    text = describe(error)
    for each in (error, _in_our_words(error)):
        with suppress(Exception):  # a class may raise anything; there is the text
            content = packed(each)
            unpacked(content)
            return content, text, trace
    return None, text, trace


def unpacked_error(content: bytes | None, text: str, trace: str) -> Exception:
    """Return what `packed_error` was given, or a RuntimeError with its text."""
    error: Exception = RuntimeError(text)
    if content is not None:
        try:
            found_error = unpacked(content)
        except Exception as failure:  # noqa: BLE001 its class is not to be had here
            error.__cause__ = failure
        else:
            error = found_error if isinstance(found_error, Exception) else error
    error.add_note(f"It was raised in a worker process:\n{trace.rstrip()}")
    return error


def check_portable(function: Callable[..., Any], tool: str) -> None:
    """Refuse a function that no other process could import.

    Raises:
        InvalidTool: it is a lambda or local, was typed in a REPL or a notebook, or holds what
            cannot be pickled; the message says which.
    """
    if not hasattr(os, "killpg") or not sys.executable or getattr(sys, "frozen", False):
        raise InvalidTool(
            f'Tool {tool!r}: isolation="process" needs a Python interpreter that can be started '
            'and POSIX process groups, and this program has not both. Use isolation="thread".'
        )
    try:
        _Checker(io.BytesIO(), pickle.HIGHEST_PROTOCOL).dump(function)
    except Exception as error:
        raise InvalidTool(
            f'Tool {tool!r}: isolation="process" needs a function that another process can '
            f"import: {error}. Put it at the top level of a module, give what it holds as "
            'arguments, or use isolation="thread".'
        ) from error


def found(module: str, name: str, layer: int) -> Any:
    """Return the function that stands in a module, under a dotted name, inside so many wrappers."""
    return next(islice(_layers(_named(module, name)), layer, None))


def main_source() -> Source | None:
    """Return where a worker finds the code of this program's `__main__`; None when it cannot."""
    if Script.source is not None:  # this is a worker itself
        return Script.source
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:  # what a package or an archive does when it is run is not for import
        return None if name.rpartition(".")[2] == "__main__" else ("module", name)
    path = getattr(main, "__file__", None)
    return ("file", os.path.abspath(path)) if path and os.path.isfile(path) else None


def rebuilt(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    """Return an exception with these `args`; an `__init__` of its own, which made them, is not run.

    That one may take other arguments than those it hands on, and would hand on others again.
    """
    if isinstance(kind.__init__, FunctionType):
        return kind.__new__(kind, *arguments)
    return kind(*arguments)


def _in_our_words(error: Exception) -> Exception | None:
    """Return an exception that the loop obeys without what it holds beside that."""
    if isinstance(error, AskApproval):
        return AskApproval(str(error.reason), error.schema)
    for kind in (ToolAbort, ToolError):
        if isinstance(error, kind):
            return kind(str(error))
    return None


class _Pickler(pickle.Pickler):
    """Pickles functions by where they stand, and exceptions whatever their `__init__` takes."""

    def reducer_override(self, value: object, /) -> Any:
        held: Any = value
        if isinstance(held, FunctionType | staticmethod) and held not in (found, rebuilt):
            return found, self.place_of(held)
        if isinstance(value, BaseException) and _is_plain(type(value)):
            return rebuilt, (type(value), value.args), vars(value) or None
        return NotImplemented

    def place_of(self, function: Any) -> Place:
        module, name = function.__module__, function.__qualname__
        try:
            standing = _named(module, name)
        except (AttributeError, ImportError):
            standing = None
        for layer, each in enumerate(_layers(standing)):
            if each is function:
                return module, name, layer
        raise pickle.PicklingError(f"what {module}.{name} names now is not {function!r}")


class _Checker(_Pickler):
    """Pickles to find out whether it can be done, when a decorated function has no place yet."""

    def reducer_override(self, value: object, /) -> Any:
        if isinstance(value, FunctionType | type) and value.__module__ == "__main__":
            _check_main(value)
        return super().reducer_override(value)

    def place_of(self, function: Any) -> Place:
        module, name = function.__module__, function.__qualname__
        if "<lambda>" in name:
            raise pickle.PicklingError("a lambda has no name to import")
        if "<locals>" in name:
            raise pickle.PicklingError(f"{name} is defined inside another function")
        if module == "__main__":
            _check_main(function)
        elif module not in sys.modules:
            raise pickle.PicklingError(f"{name} says that it is of {module!r}, which is no module")
        return module, name, 0


def _check_main(value: Any) -> None:
    source = main_source()
    if source is None:
        raise pickle.PicklingError(
            f"{value.__qualname__} is defined in __main__, and this __main__ is no script or "
            "module with a file (it is a REPL, a notebook, -c, standard input or a __main__.py)"
        )
    code: CodeType | None = getattr(_unwrapped(value), "__code__", None)
    if code is not None and not _same_file(code.co_filename, sys.modules["__main__"].__file__):
        raise pickle.PicklingError(
            f"{value.__qualname__} is defined in __main__, but not in its file ({source[1]!r})"
        )


def _unwrapped(value: Any) -> Any:
    *_, innermost = _layers(value)
    return innermost


def _same_file(one: str, other: str | None) -> bool:
    try:
        return other is not None and os.path.samefile(one, other)
    except OSError:
        return False


def _is_plain(kind: type[BaseException]) -> bool:
    """Whether an exception says nothing of its own about how it is pickled."""
    own_way = kind.__reduce__ is not BaseException.__reduce__
    return not own_way and kind.__reduce_ex__ is object.__reduce_ex__


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name in ("__main__", SCRIPT):
            return _named(module_name, global_name)
        return super().find_class(module_name, global_name)


def _named(module: str, name: str) -> Any:
    value: Any = _main() if module in ("__main__", SCRIPT) else import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _layers(value: Any) -> Iterator[Any]:
    """Yield a value and what it wraps, outermost first: tools hold functions, so do wrappers."""
    for _ in range(MOST_LAYERS):
        if value is None:
            return
        yield value
        if isinstance(value, type):
            return
        inner = getattr(value, "__wrapped__", None)
        value = getattr(value, "function", None) if inner is None else inner


def _main() -> ModuleType:
    """Return this program's main module; a worker loads it from the parent's script."""
    if Script.source is None:
        return sys.modules["__main__"]
    if SCRIPT not in sys.modules:
        sys.modules["__main__"] = sys.modules[SCRIPT] = ModuleType(SCRIPT)
        Script.loading = True
        try:
            _load(sys.modules[SCRIPT], *Script.source)
        except BaseException:
            del sys.modules[SCRIPT]
            raise
        finally:
            Script.loading = False
    return sys.modules[SCRIPT]


def _load(module: ModuleType, kind: str, where: str) -> None:
    if kind == "file":
        module.__file__ = where
        with open(where, "rb") as file:
            code = compile(file.read(), where, "exec")
    else:
        spec = find_spec(where)
        loader: Any = spec.loader if spec else None
        if spec is None or loader is None:
            raise ImportError(f"No module named {where!r}", name=where)
        module.__file__, module.__package__, module.__spec__ = spec.origin, spec.parent, spec
        code = loader.get_code(where)
    exec(code, vars(module))  # noqa: S102 it is the program that runs already
