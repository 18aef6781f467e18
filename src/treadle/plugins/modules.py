"""Modules of folders, imported under names that tell where they are.

`treadle.plugins.modules.at_<path in hex>.weather` is `weather.py` in the folder of that path: no
two folders share a name, `sys.path` stays as it is, and a child process can import what its parent
sends by name. Every file is checked as it is read, and only source is read.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from treadle.errors import PluginFailed

MOST_BYTES = 1_000_000
"""How large one module may be."""

__path__: Sequence[str] = ()  # makes room for modules below this one
_PREFIX = f"{__name__}.at_"


def package_of(folder: Path) -> str:
    """Return the name under which the modules of a folder are imported; the path is absolute."""
    return _PREFIX + os.fsencode(folder).hex()


def folder_of(name: str) -> Path | None:
    """Return the folder that a module of this name belongs to, None for any other module."""
    if not name.startswith(_PREFIX):
        return None
    try:
        encoded = bytes.fromhex(name.removeprefix(_PREFIX).partition(".")[0])
    except ValueError:
        return None
    return Path(os.fsdecode(encoded))


def shown(value: object) -> str:
    """Return the beginning of how a value is written, without the long names of modules here."""
    return re.sub(rf"{re.escape(_PREFIX)}[0-9a-f]*\.", "", repr(value))[:60]


def check_folder(folder: Path) -> None:
    """Refuse a folder in which anybody could put code.

    Raises:
        PluginFailed: others may write to it, or may put another in its place.
    """
    mode = folder.stat().st_mode
    if not stat.S_ISDIR(mode):
        raise PluginFailed(f"{str(folder)!r} is not a folder.")
    if mode & stat.S_IWOTH:
        raise PluginFailed(
            f"Everybody on this machine may write to {str(folder)!r}, and so run code here; "
            "take that right away: chmod o-w."
        )
    for above in folder.parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PluginFailed(
                f"Everybody on this machine may write to {str(above)!r}, and so put another folder "
                f"in the place of {str(folder)!r}; take that right away: chmod o-w."
            )


class _Finder:
    """Finds modules below this one, and leaves all others to Python."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is; the parameters are those of every finder."""
        folder = folder_of(name)
        if folder is None:
            return None
        if "." not in name.removeprefix(_PREFIX):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(folder)]
            return spec
        for place in path or ():
            found = FileFinder(place, (_Source, [".py"])).find_spec(name, target)
            if found is not None and found.loader is not None:
                return found
        return None


class _Source(SourceFileLoader):
    """Compiles the very bytes that it has checked; it neither reads nor writes bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code."""
        path, folder = Path(self.get_filename(fullname)), folder_of(fullname)
        if folder is None:
            raise ImportError(f"{fullname!r} is in no folder of plugins.", name=fullname)
        return self.source_to_code(_checked(path, folder), str(path))


def _checked(path: Path, folder: Path) -> bytes:
    """Return the content of a file that only its owner and group may change."""
    real = path.resolve()
    if not real.is_relative_to(folder):
        raise PluginFailed(
            f"{str(path)!r} is a link that leads out of its folder, to {str(real)!r}."
        )
    for above in real.parents:
        check_folder(above)
        if above == folder:
            break
    handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise PluginFailed(f"{str(path)!r} is not a regular file.")
        if status.st_mode & stat.S_IWOTH:
            raise PluginFailed(
                f"Everybody on this machine may write to {str(path)!r}, and so run code here; "
                "take that right away: chmod o-w."
            )
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise PluginFailed(f"{str(path)!r} has more than {MOST_BYTES} bytes; that is no tool.")
    return content


sys.meta_path.insert(0, _Finder)
