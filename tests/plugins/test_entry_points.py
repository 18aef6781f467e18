"""Entry points of installed packages become tools, all or none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import invalidate_caches
from pathlib import Path

import pytest

from treadle import ConfigError, DuplicateTool, PluginFailed, Tool
from treadle.plugins import load_entry_points

Install = Callable[..., None]

MODULE = """
from treadle import Tool, tool

@tool
def weather(city: str) -> str:
    \"\"\"Look it up.\"\"\"
    return city

def plain(city: str) -> str:
    \"\"\"Not decorated.\"\"\"
    return city

listed = [weather, plain]

def factory():
    return [Tool.from_schema("made", "Made.", None, lambda arguments: "x")]

def one():
    return weather

class Hand:
    name = "by_hand"
    description = "Made by hand."
    parameters = {"type": "object"}

    async def execute(self, ctx, arguments):
        return "x"

hand = Hand()
number = 7

def now() -> str:
    return "12:00"

def broken():
    raise RuntimeError("out of order")

def leaving():
    raise SystemExit(3)

async def later():
    return []

def untyped(x: "NoSuchType") -> str:
    return x
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put packages with entry points of the group `t.tools` on the path, as an installer would."""

    def put(package: str, source: str = MODULE, **entries: str) -> None:
        place = tmp_path / package
        place.mkdir()
        module = package.replace("-", "_")
        (place / f"{module}_plugin.py").write_text(source)
        about = place / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {module}_plugin:{target}" for name, target in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(["[t.tools]", *lines, ""]))
        monkeypatch.delitem(sys.modules, f"{module}_plugin", raising=False)
        monkeypatch.setattr(sys, "path", [str(place), *sys.path])
        invalidate_caches()

    return put


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("weather", ["weather"]),
        ("plain", ["plain"]),
        ("listed", ["weather", "plain"]),
        ("factory", ["made"]),
        ("one", ["weather"]),
        ("Hand", ["by_hand"]),
        ("hand", ["by_hand"]),
    ],
)
def test_what_an_entry_point_may_lead_to(
    install: Install, target: str, expected: list[str]
) -> None:
    """Tools, functions, lists, objects with the protocol, and what makes these."""
    install("acme-tools", it=target)

    tools = load_entry_points("t.tools")
    assert [tool.name for tool in tools] == expected
    assert all(isinstance(tool, Tool) for tool in tools)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("number", "is 7, which is neither a tool nor gives one"),
        ("now", "gives '12:00', which is no tool; a function that is a tool itself needs @tool"),
        ("broken", "failed: RuntimeError: out of order"),
        ("leaving", "failed: SystemExit: 3"),
        ("later", "failed: InvalidTool: it is async"),
        ("untyped", "failed: InvalidTool: .*NoSuchType"),
        ("absent", "cannot be loaded: AttributeError: .*absent"),
    ],
)
def test_a_broken_one_is_named_and_none_is_loaded(
    install: Install, target: str, problem: str
) -> None:
    """The error has the package and the entry point, and what happened."""
    install("acme-tools", aright="weather", it=target)
    named = rf"entry point 'it' \(acme_tools_plugin:{target}\) of the package 'acme-tools'"
    with pytest.raises(PluginFailed, match=f"{named} {problem}"):
        load_entry_points("t.tools")
    assert [tool.name for tool in load_entry_points("t.tools", exclude=["it"])] == ["weather"]
    assert [tool.name for tool in load_entry_points("t.tools", only=["aright"])] == ["weather"]


@pytest.mark.parametrize("source", ["import no_such_module", "1 +", "raise SystemExit"])
def test_a_package_that_cannot_be_imported(install: Install, source: str) -> None:
    """Whatever its module raises, the package is named."""
    install("acme-tools", source, it="weather")
    with pytest.raises(PluginFailed, match="of the package 'acme-tools' cannot be loaded: "):
        load_entry_points("t.tools")


def test_two_packages_with_one_name(install: Install) -> None:
    """Both are named; one can be left out."""
    install("acme-tools", here="weather")
    install("other-tools", there="weather")
    with pytest.raises(DuplicateTool, match=r"'there'.*'other-tools' and .*'acme-tools' both have"):
        load_entry_points("t.tools")
    assert len(load_entry_points("t.tools", exclude={"there"})) == 1


def test_the_same_tool_twice_is_one(install: Install) -> None:
    """Two entry points of a package may lead to one tool."""
    install("acme-tools", a="weather", b="listed")

    assert [tool.name for tool in load_entry_points("t.tools")] == ["weather", "plain"]


def test_what_is_named_has_to_be_there(install: Install) -> None:
    """A misspelled name loads nothing silently; one string is no list of names."""
    install("acme-tools", weather="weather")
    with pytest.raises(PluginFailed, match="named 'wether'; there are: 'weather'"):
        load_entry_points("t.tools", only=["wether"])
    with pytest.raises(PluginFailed, match="there are: none"):
        load_entry_points("t.none", only=["x"])
    with pytest.raises(ConfigError, match="pass a list of names"):
        load_entry_points("t.tools", only="weather")
    with pytest.raises(ConfigError, match="pass a list of names"):
        load_entry_points("t.tools", exclude="weather")
    assert load_entry_points("t.tools", only=[]) == ()
    assert load_entry_points("t.tools", exclude=["absent", "weather"]) == ()
