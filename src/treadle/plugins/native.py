"""Native libraries, as seen by the child process that loads and calls them.

No library is loaded into the process of the agent: it may crash, exit or hang.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.errors import PluginFailed, ToolError
from treadle.messages import Image, Text
from treadle.plugins.images import image_at, image_of, whole
from treadle.ports.context import RunContext
from treadle.values import is_array, is_object

ABI = 1
"""The version of the interface that is spoken here; see `treadle.h` and the page on it."""
MOST_BYTES = 512 * 1024 * 1024
"""How large a library may be."""
IN_MEMORY = "/proc/self/fd/"


def read_library(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a library and their SHA-256, in hex.

    Raises:
        PluginFailed: the file cannot be read, or is too large to be a library.
    """
    try:
        if not path.is_file():
            raise PluginFailed(f"There is no library {str(path)!r}.")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PluginFailed(f"Cannot read the library {str(path)!r}: {error.strerror}.") from error
    if len(content) > MOST_BYTES:
        raise PluginFailed(f"The library {str(path)!r} has more than {MOST_BYTES} bytes.")
    return content, hashlib.sha256(content).hexdigest()


class Library:
    """A loaded library. Texts that it returns are copied, and given back to it at once."""

    def __init__(self, path: Path, digest: str) -> None:
        content, found = read_library(path)
        if found != digest:
            raise PluginFailed(
                f"The library {str(path)!r} is not the one that was meant: "
                f"its SHA-256 is {found}, not {digest}."
            )
        self._path = path
        self._functions = _loaded(path, content)
        version = self._function("treadle_abi_version", ctypes.c_uint32)()
        if version != ABI:
            raise PluginFailed(
                f"The library {str(path)!r} speaks version {version} of the interface, not {ABI}."
            )
        text = ctypes.c_void_p
        self._tools = self._function("treadle_tools", text)
        self._call = self._function("treadle_call", text, *[ctypes.c_char_p] * 3)
        self._free = self._function("treadle_free", None, text)

    def tools(self) -> Any:
        """Return what the library says of its tools."""
        return self._read("treadle_tools", self._tools())

    def call(self, name: str, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
        """Call a tool of the library, and return the JSON value that it answers."""
        given = (_json_bytes(arguments), _json_bytes(context))
        return self._read("treadle_call", self._call(name.encode(), *given))

    def _function(self, name: str, result: Any, *parameters: Any) -> Any:
        try:
            function = getattr(self._functions, name)
        except AttributeError:
            raise PluginFailed(
                f"The library {str(self._path)!r} has no function {name}(); "
                "see `treadle.h` for those that it needs."
            ) from None
        function.restype, function.argtypes = result, parameters
        return function

    def _read(self, function: str, pointer: int | None) -> Any:
        if not pointer:
            raise PluginFailed(f"{function}() of {self._path.name!r} returned no text.")
        try:
            content = ctypes.string_at(pointer)
        finally:
            self._free(pointer)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise PluginFailed(
                f"{function}() of {self._path.name!r} returned something else than JSON: {error}"
            ) from None


def list_tools(path: Path, digest: str) -> Any:
    """Return what a library says of its tools, in a process that may be lost.

    Raises:
        PluginFailed: it cannot be loaded, or says nothing that can be read.
    """
    return Library(path, digest).tools()


@dataclass(frozen=True, slots=True)
class NativeTool:
    """One tool of a library: a function that a child process can be sent."""

    path: Path
    digest: str
    name: str
    send_metadata: tuple[str, ...] = field(default=())

    def __call__(self, ctx: RunContext[Any], arguments: dict[str, Any]) -> object:
        """Run one call in this process, which must be one that may be lost."""
        library = _kept(self.path, self.digest)
        try:
            return answer_of(self.name, library.call(self.name, arguments, self._told(ctx)))
        except PluginFailed as error:
            raise ToolError(f"Tool {self.name!r} failed: {error}") from None

    def _told(self, ctx: RunContext[Any]) -> dict[str, Any]:
        return {
            "run_id": ctx.run_id,
            "conversation_id": ctx.conversation_id,
            "call_id": ctx.call_id,
            "agent": ctx.agent,
            "attempt": ctx.attempt,
            "idempotency_key": ctx.idempotency_key,
            "metadata": {
                key: ctx.metadata[key] for key in self.send_metadata if key in ctx.metadata
            },
        }


def answer_of(tool: str, answer: Any) -> object:
    """Return what a tool gives back for an answer of its library.

    Raises:
        ToolError: the library says that the call failed; the text is the library's.
        PluginFailed: the answer is none.
    """
    if not is_object(answer) or not answer.keys() & {"result", "error", "images"}:
        raise PluginFailed('its answer is no object with "result", "images" or "error".')
    if answer.get("error") is not None:
        raise ToolError(_complaint(tool, answer["error"]))
    result, images = answer.get("result"), whole(_images(tool, answer.get("images") or []))
    if not images:
        return result
    parts: list[Text | Image] = []
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        parts.append(Text(text))
    return [*parts, *images]


def _complaint(tool: str, error: object) -> str:
    text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    return text if text.strip() else f"Tool {tool!r} failed, and does not say why."


def _images(tool: str, listed: Any) -> Iterator[Image | None]:
    if not is_array(listed):
        raise PluginFailed('"images" is no list.')
    for item in listed:
        if not is_object(item):
            raise PluginFailed('"images" holds something that is no object.')
        if isinstance(item.get("url"), str):
            yield image_at(tool, item["url"], str(item.get("detail")))
            continue
        try:
            content = b64decode(item.get("data") or "", validate=True)
        except (ValueError, TypeError):
            raise PluginFailed('the "data" of an image is not base64.') from None
        yield image_of(tool, str(item.get("media_type")), content)


_LIBRARIES: dict[tuple[Path, str], Library] = {}


def _kept(path: Path, digest: str) -> Library:
    """Return a library that this process has, or now loads."""
    if (path, digest) not in _LIBRARIES:
        _LIBRARIES[path, digest] = Library(path, digest)
    return _LIBRARIES[path, digest]


def _loaded(path: Path, content: bytes) -> ctypes.CDLL:
    """Load these very bytes, from a file that nobody else has.

    The descriptor stays open: the system knows libraries by their paths, and would take one that
    is loaded from the same number for this one.
    """
    handle, place = _private_file(path.name)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        return ctypes.CDLL(place)
    except OSError as error:
        os.close(handle)
        told = str(error).replace(place, path.name)
        raise PluginFailed(f"The library {str(path)!r} cannot be loaded: {told}.") from None
    finally:
        if not place.startswith(IN_MEMORY):
            Path(place).unlink()


def _private_file(name: str) -> tuple[int, str]:
    """Return a descriptor and the path of a new file: in memory, or else on disk."""
    try:
        handle = os.memfd_create(name[:200])
    except (AttributeError, OSError):
        return tempfile.mkstemp()
    return handle, f"{IN_MEMORY}{handle}"


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
