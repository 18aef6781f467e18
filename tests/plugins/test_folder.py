"""Modules of a folder become tools, all or none, and only where nobody else may write."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.conftest import run_calls
from treadle import ConfigError, DuplicateTool, PluginFailed, Tool
from treadle.plugins import load_folder
from treadle.plugins.modules import MOST_BYTES, folder_of, package_of

Write = Callable[[str, str], Path]

ADD = "from treadle import tool\n\n\n@tool\ndef {}(a: int) -> int:\n    return a + 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "plugins of mine"
    place.mkdir()
    return place


@pytest.fixture
def write(folder: Path) -> Write:
    def put(name: str, source: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    return put


def names_of(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


def mine(folder: Path) -> list[str]:
    return sorted(name for name in sys.modules if folder_of(name) == folder)


def test_modules_and_packages_in_order(folder: Path, write: Write) -> None:
    """Files and packages count, by name; hidden ones, those with `_`, and other files do not."""
    write("b.py", ADD.format("second"))
    write("a/__init__.py", "from .inner import first\n")
    write("a/inner.py", ADD.format("first"))
    write("c-d.py", ADD.format("third"))
    for ignored in ("_z.py", ".z.py", "z.txt", "z/z.py", "__pycache__/z.py", "z.pyc", "z.so"):
        write(ignored, "1/0")
    path = list(sys.path)

    assert names_of(load_folder(folder)) == ["first", "second", "third"]
    assert names_of(load_folder(str(folder), only=["b", "a"])) == ["first", "second"]
    assert names_of(load_folder(folder, exclude=["b"])) == ["first", "third"]
    assert sys.path == path
    assert not {"a", "b", "inner"} & sys.modules.keys()
    assert not (folder / "a" / "__pycache__").exists()


def test_what_counts_in_a_module(folder: Path, write: Write) -> None:
    """`tools`, else `__all__`, else every tool under a public name; one under two names is one."""
    write("a.py", ADD.format("x") + "_hidden = x.replace(name='y')\nalso = x\nnumber = 1\n")
    write("b.py", ADD.format("b1") + "tools = [b1.replace(name='b2'), b1.replace(name='b3')]\n")
    write("c.py", ADD.format("c1") + "c2 = c1.replace(name='c2')\n__all__ = ['c2', 'gone']\n")
    write("d.py", "def tools():\n    return []\n")
    write("e.py", "from .a import x\nfrom . import b as tools\n")

    assert names_of(load_folder(folder)) == ["x", "b2", "b3", "c2"]


def test_two_folders_have_nothing_in_common(tmp_path: Path) -> None:
    """Modules of one name in two folders are two, and each imports its own neighbour."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_shared.py").write_text(f"NAME = {name!r}\n")
        source = (
            ADD.format("called") + "from ._shared import NAME\ncalled = called.replace(name=NAME)"
        )
        (tmp_path / name / "it.py").write_text(source)

    tools = [*load_folder(tmp_path / "one"), *load_folder(tmp_path / "two")]
    assert [tool.name for tool in tools] == ["one", "two"]
    assert package_of(tmp_path / "one") != package_of(tmp_path / "two")


def test_loading_again_runs_again(folder: Path, write: Write) -> None:
    """What was changed counts, even within a moment and with the same size."""
    write("it.py", ADD.format("one"))
    assert names_of(load_folder(folder)) == ["one"]
    write("it.py", ADD.format("two"))
    assert names_of(load_folder(folder)) == ["two"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x = 1\n1/0\n", "line 2: ZeroDivisionError"),
        ("def f(:\n", "line 1: SyntaxError"),
        ("import no_such_module\n", "line 1: ModuleNotFoundError"),
        ("from .absent import x\n", r"line 1: ModuleNotFoundError: No module named '\.absent'"),
        ("\nfrom ._bad import x\n", r"_bad\.py, line 3: NameError"),
        ("raise SystemExit(3)\n", "line 1: SystemExit"),
        ("from treadle import tool\n@tool\ndef f(x): ...\nf.y = 1\n", "line 4: "),
        ("x = '\udcff'\n".encode("utf-8", "surrogateescape").decode("latin-1"), None),
    ],
)
def test_an_error_has_file_and_line(
    folder: Path, write: Write, source: str, problem: str | None
) -> None:
    """Where it went wrong is told, and nothing of the folder stays loaded."""
    write("_bad.py", "\n\nnothing\n")
    write("aright.py", ADD.format("aright"))
    write("it.py", source)
    if problem is None:
        assert names_of(load_folder(folder)) == ["aright"]
        return
    with pytest.raises(PluginFailed, match=f"The plugin 'it' failed, .*{problem}"):
        load_folder(folder)
    assert mine(folder) == []


def test_bytes_that_are_no_text(folder: Path) -> None:
    """A file that is not UTF-8 is told by name."""
    (folder / "it.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(PluginFailed, match=r"The plugin 'it' failed, .*SyntaxError"):
        load_folder(folder)


def test_what_was_loaded_before_stays_when_loading_again_fails(folder: Path, write: Write) -> None:
    """A failure leaves the modules that tools in use belong to."""
    write("it.py", ADD.format("it"))
    load_folder(folder)
    before = [sys.modules[name] for name in mine(folder)]
    write("more.py", "1/0")
    with pytest.raises(PluginFailed):
        load_folder(folder)

    assert [sys.modules[name] for name in mine(folder)] == before


def test_two_modules_with_one_tool_name(folder: Path, write: Write) -> None:
    """Both are named."""
    write("a.py", ADD.format("same"))
    write("b.py", ADD.format("same"))
    with pytest.raises(DuplicateTool, match=r"plugin 'b' .* and The plugin 'a' .* 'same'"):
        load_folder(folder)


@pytest.mark.parametrize("name", ["it.py", "pack/__init__.py", "pack/inner.py"])
def test_files_that_everybody_may_write(folder: Path, write: Write, name: str) -> None:
    """Such a file is refused wherever it is, and the reason is told."""
    write("pack/__init__.py", "from . import inner\n")
    write("pack/inner.py", "")
    write(name, ADD.format("it") + ("from . import inner\n" if "__init__" in name else ""))
    (folder / name).chmod(0o666)
    with pytest.raises(PluginFailed, match=rf"Everybody .* write to '.*{Path(name).name}'.*chmod"):
        load_folder(folder)


@pytest.mark.parametrize("which", [".", "pack", ".."])
def test_folders_that_everybody_may_write(folder: Path, write: Write, which: str) -> None:
    """So is a folder, one inside it, and one above it in which it could be exchanged."""
    write("pack/__init__.py", ADD.format("it"))
    assert names_of(load_folder(folder)) == ["it"]
    place = (folder / which).resolve()
    place.chmod(0o777)
    with pytest.raises(PluginFailed, match="Everybody on this machine may write to"):
        load_folder(folder)
    if which == "..":
        place.chmod(0o1777)  # as /tmp is: each can exchange only their own
        assert names_of(load_folder(folder)) == ["it"]


def test_links(folder: Path, write: Write, tmp_path: Path) -> None:
    """A link inside the folder is followed, one that leads out is refused, also of a package."""
    write("_it.py", ADD.format("it"))
    (folder / "linked.py").symlink_to("_it.py")
    assert names_of(load_folder(folder)) == ["it"]

    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("out.py", "__init__.py"):
        (outside / name).write_text("raise AssertionError('it ran')")
    for name, target in (("out.py", outside / "out.py"), ("pack", outside)):
        (folder / name).symlink_to(target)
        with pytest.raises(PluginFailed, match="is a link that leads out of its folder"):
            load_folder(folder)
        (folder / name).unlink()
    (folder / "gone.py").symlink_to("nowhere.py")
    with pytest.raises(PluginFailed, match=r"gone\.py' is not a regular file"):
        load_folder(folder)


def test_the_folder_itself_may_be_a_link(folder: Path, write: Write, tmp_path: Path) -> None:
    """Whoever names a link means what it leads to."""
    write("it.py", ADD.format("it"))
    (tmp_path / "link").symlink_to(folder)

    assert names_of(load_folder(tmp_path / "link")) == ["it"]


def test_what_is_no_module(folder: Path, write: Write) -> None:
    """A pipe is not waited for, a large file is not read, and a name with a dot is told."""
    os.mkfifo(folder / "pipe.py")
    with pytest.raises(PluginFailed, match="is not a regular file"):
        load_folder(folder)
    (folder / "pipe.py").unlink()
    large = write("large.py", "#" * (MOST_BYTES + 1))
    with pytest.raises(PluginFailed, match="more than 1000000 bytes"):
        load_folder(folder)
    large.write_text("#" * MOST_BYTES)
    assert load_folder(folder) == ()
    write("two.parts.py", "")
    with pytest.raises(PluginFailed, match="its name has a dot"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("__all__ = 5", "has an __all__ that is no list of names"),
        ("__all__ = [['f']]", "has an __all__ that is no list of names"),
        ("__all__ = 'f'", "has an __all__ that is no list of names"),
        ("tools = {}", "is {}, which is neither a tool nor gives one"),
        ("tools = []\ntools.append(tools)", "failed: RecursionError"),
        ("class C: ...\ntools = [C]", "gives <it.C object at .*, which is no tool"),
        ("class C:\n    def __repr__(self): 1/0\ntools = C()", "failed: ZeroDivisionError"),
        ("class C:\n    def __getattr__(self, name): 1/0\ntools = C()", "ZeroDivisionError"),
    ],
)
def test_what_a_module_calls_its_tools_and_is_none(
    folder: Path, write: Write, source: str, problem: str
) -> None:
    """Whatever it is, the error is ours, and says of which module."""
    write("it.py", source)

    with pytest.raises(PluginFailed, match=f"The plugin 'it' in '.*' .*{problem}"):
        load_folder(folder)
    assert mine(folder) == []


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_names_nothing_is_refused(path: str) -> None:
    """An empty one, of a setting that is missing, is not the folder that one happens to be in."""
    with pytest.raises(ConfigError, match=r"name a folder, with '\.' for the one you are in"):
        load_folder(path)


def test_what_is_no_folder(tmp_path: Path) -> None:
    """Nothing, and a file, are told; an empty folder has no tools."""
    with pytest.raises(PluginFailed, match=r"Cannot read the folder '.*gone': No such file"):
        load_folder(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(PluginFailed, match="is not a folder"):
        load_folder(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert load_folder(tmp_path / "empty") == ()


def test_what_is_named_has_to_be_there(folder: Path, write: Write) -> None:
    """A misspelled name is told; one string is no list of names."""
    write("weather.py", ADD.format("weather"))
    with pytest.raises(PluginFailed, match=r"no module .* named 'wether'; there are: 'weather'"):
        load_folder(folder, only=["wether"])
    with pytest.raises(ConfigError, match="pass a list of names"):
        load_folder(folder, only="weather")


def test_names_that_lead_nowhere() -> None:
    """Only names that were made for folders are taken for such."""
    assert folder_of("treadle.plugins.modules.at_zz.weather") is None
    assert folder_of("treadle.plugins.modules") is None
    assert folder_of(f"{package_of(Path('/a/b'))}.c.d") == Path("/a/b")
    with pytest.raises(ModuleNotFoundError):
        __import__("treadle.plugins.modules.weather")


@pytest.mark.e2e
async def test_tools_of_a_folder_run_in_processes(folder: Path, write: Write) -> None:
    """A worker process imports the module by its name, with its neighbours, and checks it, too."""
    write("_shared.py", "import os\n\n\ndef process() -> int:\n    return os.getpid()\n")
    source = "from treadle import tool\nfrom ._shared import process\n\n\n"
    source += '@tool(isolation="process")\ndef where() -> int:\n    return process()\n'
    write("it.py", source)
    tools = await asyncio.to_thread(load_folder, folder)

    result = await run_calls(tools, ("where", {}))
    assert not result.tool_results[0].is_error
    assert result.tool_results[0].value != os.getpid()
