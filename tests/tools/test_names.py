"""Tool names: safe, unique, stable, and found again when misspelled."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import DuplicateTool
from treadle.tools.names import NamedTool, Source, likely, nearest, resolve_names, safe_name

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONG = (
    "northwind.inventory/reporting gateway_get_stock_levels_for_every_warehouse_by_region_current"
)

names = st.text(max_size=100) | st.sampled_from(
    ["search", "search web", "search/web", "tool", LONG]
)
sources: st.SearchStrategy[Source] = st.sampled_from(["agent", "skill", "remote"])


def named(name: str, source: Source = "agent") -> NamedTool:
    """Return a tool's name and origin."""
    return NamedTool(name, source)


@given(names)
def test_every_name_becomes_safe(name: str) -> None:
    """Whatever a tool is called, providers take the name it is offered under."""
    assert SAFE.fullmatch(safe_name(name))


@given(st.from_regex(SAFE, fullmatch=True))
def test_a_safe_name_stays(name: str) -> None:
    """Nothing is changed that need not be."""
    assert safe_name(name) == name


@given(names.filter(bool), names.filter(bool))
def test_different_names_stay_different(first: str, second: str) -> None:
    """Two names that are spelled alike with safe characters are still two (S18)."""
    assert (safe_name(first) == safe_name(second)) is (first == second)


def test_odd_names_keep_what_they_can() -> None:
    """An alias still tells a reader which tool it is."""
    assert safe_name("search web/工具").startswith("search_web_")
    assert safe_name("search web/工具") != safe_name("search web/器具")
    assert safe_name("") == "tool"
    assert safe_name("工具").startswith("tool_")


def test_an_alias_is_the_same_in_every_process() -> None:
    """The alias of a long name does not depend on the process that makes it (BS-07)."""
    program = f"from treadle.tools.names import safe_name; print(safe_name({LONG!r}))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert ended.stdout.decode().strip() == safe_name(LONG)
    assert len(safe_name(LONG)) == 64


@given(st.lists(st.builds(NamedTool, names, sources), max_size=12))
def test_resolved_names_are_unique(tools: list[NamedTool]) -> None:
    """With suffixes for all, every tool gets a safe name of its own."""
    resolved = resolve_names(tools, {"agent": "suffix", "skill": "suffix", "remote": "suffix"})

    assert len(set(resolved)) == len(tools)
    assert all(name is not None and SAFE.fullmatch(name) for name in resolved)


@given(st.lists(st.builds(NamedTool, names, st.sampled_from(["skill", "remote"])), max_size=12))
def test_resolving_is_stable(tools: list[NamedTool]) -> None:
    """A tool keeps its name when others come after it."""
    for size in range(len(tools)):
        remote = [tool for tool in tools[:size] if tool.source == "remote"]
        more = [*remote, named("brand new and odd", "remote")]
        assert resolve_names(more)[:-1] == resolve_names(remote)


def test_remote_tools_of_one_name_are_numbered() -> None:
    """The first keeps the name, and a number never takes a name that is somebody's own (S18)."""
    remote = [named(name, "remote") for name in ("search", "search", "search_2", "search")]

    assert resolve_names(remote) == ["search", "search_3", "search_2", "search_4"]


def test_a_number_fits_into_the_longest_name() -> None:
    """Numbering cuts the name, not the limit."""
    first, second = resolve_names([named("a" * 64, "remote")] * 2)

    assert (first, second) == ("a" * 64, "a" * 62 + "_2")


def test_the_agents_tool_wins() -> None:
    """A skill's tool of the same name is left out, wherever it stands in the list (S19)."""
    tools = [named("read", "skill"), named("read", "remote"), named("read")]

    assert resolve_names(tools) == [None, "read_2", "read"]


def test_two_local_tools_of_one_name_are_an_error() -> None:
    """The message names the tool and says what to do."""
    with pytest.raises(DuplicateTool, match=r"'read'.*rename one") as caught:
        resolve_names([named("read"), named("read")])
    assert "agent and agent" in str(caught.value)


def test_the_policy_is_that_of_the_later_tool() -> None:
    """A policy can be set for one source; the others keep theirs."""
    tools = [named("read", "skill"), named("read", "remote")]

    assert resolve_names(tools, {"remote": "shadow"}) == ["read", None]
    with pytest.raises(DuplicateTool):
        resolve_names(tools, {"remote": "error"})


def test_nearest_names_come_first() -> None:
    """All names are told, the likely one first (BS-03)."""
    known = ["get_time", "get_weather", "send_mail"]

    assert nearest("get_wether", known) == ["get_weather", "get_time", "send_mail"]
    assert nearest("GET_WEATHER", known)[0] == "get_weather"
    assert likely("citty", ["city", "unit"]) == "city"
    assert likely("zzz", ["city", "unit"]) is None
    assert likely("city", []) is None
