"""Tools in the modules of a folder."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from treadle.errors import ConfigError, PluginFailed
from treadle.plugins.gathering import Gathering, is_listed
from treadle.plugins.modules import check_folder, package_of
from treadle.plugins.names import check_names, check_present
from treadle.tools.outcome import describe
from treadle.tools.tool import Tool

_LOADING = threading.RLock()


def load_folder(
    path: str | Path, *, only: Collection[str] | None = None, exclude: Collection[str] = ()
) -> tuple[Tool, ...]:
    """Return the tools in the modules of a folder, in the order of the modules' names.

    ```python
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from treadle.plugins import load_folder

    with TemporaryDirectory() as folder:
        source = "import treadle.tools; tools = [treadle.tools.think_tool()]"
        Path(folder, "thinking.py").write_text(source)
        print([tool.name for tool in load_folder(folder)])
        #> ['think']
    ```

    Modules are the files `*.py` and the packages directly in the folder; names with a `.` or `_`
    in front are left out. A module's tools are those in its list `tools`, or of the names in its
    `__all__`, or else all under public names. Modules may import each other relatively; `sys.path`
    stays as it is. Loading a folder again runs its modules again. When one fails, none is loaded.

    Loading runs the code in the folder. Files and folders that everybody may write to, links that
    lead out of the folder, and files of more than a megabyte are refused.

    Raises:
        PluginFailed: the folder or a module cannot be loaded; the message has file and line.
        DuplicateTool: two modules have a tool of one name.
        ConfigError: the path is empty, or `only` or `exclude` is a string.
    """
    check_names(only=only, exclude=exclude)
    if not str(path) or "\0" in str(path):
        raise ConfigError(f"load_folder({path!r}): name a folder, with '.' for the one you are in.")
    try:
        folder = Path(path).resolve(strict=True)
        check_folder(folder)
        names = sorted(_module_names(folder))
    except OSError as error:
        raise PluginFailed(f"Cannot read the folder {str(path)!r}: {error.strerror}.") from error
    check_present(only, names, f"module in {str(folder)!r}")
    wanted = [name for name in names if (only is None or name in only) and name not in exclude]
    gathering = Gathering()
    with _LOADING, _anew(package_of(folder)) as package:
        for name in wanted:
            module = _imported(f"{package}.{name}", name, folder)
            _gather(gathering, module, f"The plugin {name!r} in {str(folder)!r}")
    return gathering.tools


def _module_names(folder: Path) -> Iterator[str]:
    for place in folder.iterdir():
        name = place.name.removesuffix(".py")
        if name.startswith((".", "_")):
            continue
        is_package = place.is_dir() and (place / "__init__.py").exists()
        if not is_package and not place.name.endswith(".py"):
            continue
        if not is_package and not place.is_file():
            raise PluginFailed(f"{str(place)!r} is not a regular file.")
        if "." in name:
            raise PluginFailed(f"{str(place)!r} cannot be imported: its name has a dot; rename it.")
        yield name


@contextmanager
def _anew(package: str) -> Generator[str]:
    """Forget what was imported of a package; when loading fails, remember that and nothing else."""
    before = _taken_out(package)
    try:
        yield package
    except BaseException:
        _taken_out(package)
        sys.modules.update(before)
        raise


def _taken_out(package: str) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]
    return {name: sys.modules.pop(name) for name in names}


def _imported(full_name: str, name: str, folder: Path) -> ModuleType:
    try:
        return import_module(full_name)
    except PluginFailed:
        raise
    except (Exception, SystemExit) as error:
        where = _where(error, folder) or f"in {str(folder)!r}"
        told = describe(error).replace(package_of(folder), "")
        raise PluginFailed(f"The plugin {name!r} failed, {where}: {told}") from error


def _where(error: BaseException, folder: Path) -> str:
    """Return the file and line of the folder at which an error arose."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{inside[-1].filename}, line {inside[-1].lineno}" if inside else ""


def _gather(gathering: Gathering, module: ModuleType, origin: str) -> None:
    """Add the tools of a module: those it lists, or all it has."""
    members = vars(module)
    listed = members.get("tools")
    if listed is not None and not isinstance(listed, ModuleType):
        gathering.add(listed, origin)
        return
    public = members.get("__all__", [name for name in members if not name.startswith("_")])
    if not is_listed(public) or not all(isinstance(name, str) for name in public):
        raise PluginFailed(f"{origin} has an __all__ that is no list of names.")
    for name in map(str, public):
        if isinstance(members.get(name), Tool):
            gathering.add(members[name], origin)
