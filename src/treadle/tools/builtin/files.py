"""Tools that read, write and edit the files of a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from treadle.errors import ToolError
from treadle.tools.builtin.workspace import Workspace
from treadle.tools.tool import Tool, tool

MOST_READ = 1_000_000
MOST_SKIPPED = 100_000_000
MOST_EDITED = 10_000_000
MOST_LISTED = 500
MOST_COMPARED = 2000  # lines; comparing them is slow

Root = str | Path | Workspace


def read_tool(workspace: Root = ".") -> Tool:
    """Return the tool `read_file`: a text file's content, or some lines of it."""
    place = as_workspace(workspace)

    def read_file(path: str, offset: int = 1, limit: int | None = None) -> str:
        """Read a text file. Of a large file the middle is left out: read it in pieces.

        Args:
            path: Path of the file, relative to the workspace.
            offset: First line to read, counting from 1.
            limit: How many lines to read; all when left out.
        """
        if offset < 1 or (limit is not None and limit < 1):
            raise ToolError(f"offset={offset} and limit={limit}: both count from 1.")
        with place.open(path) as file:
            _skip(file, offset - 1, path)
            content = b"".join(_lines(file, limit))
            cut_off = len(content) >= MOST_READ and bool(file.read(1))
        if not content:
            return "[The file is empty.]" if offset == 1 else _beyond(path, offset)
        text = _decode(content, path, whole=not cut_off)
        note = f"\n[Only {MOST_READ} bytes were read; read on with offset and limit.]"
        return text + note if cut_off else text

    return tool(parallel=True)(read_file)


def write_tool(workspace: Root = ".") -> Tool:
    """Return the tool `write_file`: it creates or overwrites a file, and the folders it needs."""
    place = as_workspace(workspace)

    def write_file(path: str, content: str) -> str:
        """Write a text file, replacing all that was in it. Missing folders are created.

        Args:
            path: Path of the file, relative to the workspace.
            content: The whole new content.
        """
        encoded = _encode(content, path)
        created = place.write(path, encoded)
        return f"{'Created' if created else 'Overwrote'} {path!r}: {len(encoded)} bytes."

    return tool(write_file)


def edit_tool(workspace: Root = ".") -> Tool:
    """Return the tool `edit_file`: it replaces a text that occurs exactly once in a file."""
    place = as_workspace(workspace)

    def edit_file(path: str, old_string: str, new_string: str) -> str:
        """Replace a text in a file. The old text must occur exactly once.

        Args:
            path: Path of the file, relative to the workspace.
            old_string: The text to replace, exactly as in the file, with spaces and line breaks.
            new_string: The text to put in its place.
        """
        if not old_string:
            raise ToolError("old_string is empty; give the text to replace, or use write_file.")
        if old_string == new_string:
            raise ToolError("old_string and new_string are the same: nothing to change.")
        with place.open(path) as file:
            content = file.read(MOST_EDITED + 1)
        if len(content) > MOST_EDITED:
            raise ToolError(f"{path!r} is larger than {MOST_EDITED} bytes, too large to edit.")
        text = _decode(content, path)
        old, new = _with_line_ends_of(text, old_string, new_string)
        places = list(_occurrences(text, old))
        if len(places) != 1:
            raise ToolError(_refusal(text, old, path, places))
        at = places[0]
        place.write(path, _encode(text[:at] + new + text[at + len(old) :], path))
        return f"Edited {path!r} at line {_line(text, at)}."

    return tool(edit_file)


def list_tool(workspace: Root = ".") -> Tool:
    """Return the tool `list_files`: the names in a folder."""
    place = as_workspace(workspace)

    def list_files(folder: str = ".") -> str:
        """List the files and folders in a folder.

        Args:
            folder: Path of the folder, relative to the workspace.
        """
        names = place.entries(folder)
        more = len(names) - MOST_LISTED
        shown = "\n".join(names[:MOST_LISTED]) or "[The folder is empty.]"
        return f"{shown}\n[{more} more names are left out.]" if more > 0 else shown

    return tool(parallel=True)(list_files)


def as_workspace(root: Root) -> Workspace:
    """Return the workspace itself, or the one in this folder.

    Raises:
        ConfigError: there is no such folder.
    """
    return root if isinstance(root, Workspace) else Workspace(root)


def _skip(file: BinaryIO, lines: int, path: str) -> None:
    """Read over these lines; a line is read in pieces, however long it is."""
    skipped, size = 0, 0
    while skipped < lines:
        piece = file.readline(MOST_READ)
        size += len(piece)
        if not piece:
            return
        if size > MOST_SKIPPED:
            raise ToolError(
                f"Line {lines + 1} of {path!r} is beyond its first {MOST_SKIPPED} bytes."
            )
        skipped += piece.endswith(b"\n")


def _lines(file: BinaryIO, limit: int | None) -> Iterator[bytes]:
    """Yield lines, or pieces of lines, until there are enough of them or of bytes."""
    lines, room = 0, MOST_READ
    while room > 0 and (limit is None or lines < limit):
        piece = file.readline(room)
        if not piece:
            return
        yield piece
        room -= len(piece)
        lines += piece.endswith(b"\n")


def _beyond(path: str, offset: int) -> str:
    raise ToolError(f"offset={offset} is beyond the end of {path!r}.")


def _decode(content: bytes, path: str, *, whole: bool = True) -> str:
    """Return the text; of one that was cut off, without the character that the cut went through."""
    if b"\0" in content:
        raise ToolError(f"{path!r} is a binary file, not text.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        if not whole and error.start > len(content) - 4:
            return content[: error.start].decode()
        byte = content[error.start]
        raise ToolError(
            f"{path!r} is not UTF-8 text: byte 0x{byte:02X} at position {error.start}."
        ) from error


def _encode(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text for {path!r} has half of a character at position {error.start}."
        ) from error


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Fit the texts of an edit to a file with Windows line ends, which models do not write."""
    if "\r\n" in text and "\r" not in old and old not in text:
        return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    return old, new


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    """Yield where a text occurs; occurrences may overlap."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _refusal(text: str, old: str, path: str, places: list[int]) -> str:
    if places:
        lines = ", ".join(str(_line(text, at)) for at in places[:5])
        more = ", ..." if len(places) > 5 else ""
        return (
            f"old_string occurs {len(places)} times in {path!r} (lines {lines}{more}), not once: "
            "nothing was changed. Add lines around it until it is unique."
        )
    return f"old_string occurs 0 times in {path!r}: nothing was changed. {_nearest(text, old)}"


def _nearest(text: str, old: str) -> str:
    """Say which line of a file the first line of an edit may have meant."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if wanted and line.strip() == wanted:
            return f"Line {number} is like its first; spaces or later lines differ: {line[:200]!r}."
    candidates = {line.strip(): number for number, line in enumerate(lines[:MOST_COMPARED], 1)}
    short = [line for line in candidates if len(line) <= 300]
    close = get_close_matches(wanted[:300], short, n=1)
    if close:
        return f"The nearest line is {candidates[close[0]]}: {close[0][:200]!r}."
    return "Read the file and copy the text exactly."


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
