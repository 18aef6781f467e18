"""Tools in native shared libraries, in C, Rust or whatever has a C interface."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any

from treadle.errors import ConfigError, DuplicateTool, InvalidTool, PluginFailed
from treadle.plugins.names import check_names
from treadle.plugins.native import NativeTool, list_tools, read_library
from treadle.tools.normalize import normalize_schema
from treadle.tools.timing import CallExpired
from treadle.tools.tool import DEFAULT_TIMEOUT, Tool
from treadle.tools.worker_process import ProcessCall, ProcessDied, WorkerProcess
from treadle.values import is_array, is_object

LIST_SECONDS = 30.0
"""How long a library may take to load and to list its tools."""
SHA256 = re.compile(r"[0-9a-f]{64}")


def load_library(
    path: str | Path,
    sha256: str | None = None,
    *,
    timeout: float | None = DEFAULT_TIMEOUT,
    send_metadata: Sequence[str] = (),
) -> tuple[Tool, ...]:
    """Return the tools of a native library, which runs in child processes only.

    ```python
    from treadle import PluginFailed
    from treadle.plugins import load_library

    try:
        load_library("libnothing.so")
    except PluginFailed as error:
        print(error)
        #> There is no library 'libnothing.so'.
    ```

    The library has the functions of `treadle.h`. It is loaded from the bytes that are there now: of
    the pinned `sha256` (64 hex digits), or else of what is found; when the file changes later, a
    process that starts then refuses it. A crash, an exit or a hang ends the child process, and is
    an error result. `timeout` is in seconds, of one call. Of the run's metadata only the keys in
    `send_metadata` are sent. A library has all rights of this process: load only what you trust.

    This waits for a child process: in a running event loop use `asyncio.to_thread`.

    Raises:
        PluginFailed: the library cannot be loaded or listed, is not pinned so, or has no tools.
        DuplicateTool: it has two tools of one name.
    """
    check_names(send_metadata=send_metadata)
    file = Path(path)
    pin = None if sha256 is None else sha256.strip().lower()
    if pin is not None and not SHA256.fullmatch(pin):
        raise ConfigError(f"sha256={sha256!r:.80} is no SHA-256; that has 64 hex digits.")
    _, digest = read_library(file)
    if pin not in (None, digest):
        raise PluginFailed(
            f"The library {str(path)!r} is not the pinned one: its SHA-256 is {digest}, not {pin}."
        )
    file = file.resolve()
    tools: dict[str, Tool] = {}
    for item in _listed(file, digest):
        found = _tool_of(item, file, digest, tuple(send_metadata)).replace(timeout=timeout)
        if found.name in tools:
            raise DuplicateTool(f"The library {file.name!r} has two tools {found.name!r}.")
        tools[found.name] = found
    return tuple(tools.values())


def _tool_of(item: Any, file: Path, digest: str, send_metadata: tuple[str, ...]) -> Tool:
    named = is_object(item) and isinstance(item.get("name"), str)
    if not named or not isinstance(item.get("description", ""), str):
        raise PluginFailed(
            f"The library {file.name!r} lists {item!r:.80}, which is no object with a name and "
            "a description."
        )
    function = NativeTool(file, digest, item["name"], send_metadata)
    try:
        schema = normalize_schema(item.get("parameters"))
        return Tool.from_schema(
            item["name"], item.get("description", ""), schema, function, isolation="process"
        )
    except InvalidTool as error:
        raise PluginFailed(
            f"The library {file.name!r} lists the tool {item['name']!r}, which is none: {error}"
        ) from error


def _listed(file: Path, digest: str) -> list[Any]:
    """Ask a child process for the tools of a library."""
    call = ProcessCall(
        list_tools, (file, digest), {}, ctx=None, timeout=LIST_SECONDS, context=copy_context()
    )
    child = WorkerProcess()
    try:
        listed = child.run(call)
    except CallExpired:
        raise PluginFailed(
            f"The library {file.name!r} did not list its tools in {LIST_SECONDS:g} s."
        ) from None
    except ProcessDied as died:
        raise PluginFailed(f"The library {file.name!r} could not be loaded: {died}") from None
    finally:
        child.kill()
    if not is_array(listed) or not listed:
        raise PluginFailed(f"The library {file.name!r} lists no tools; it needs a JSON array.")
    return listed
