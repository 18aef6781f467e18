"""What a child process does with a library; here with harmless ones, in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import compile_c
from treadle import PluginFailed, RunContext, ToolError
from treadle.limits import Budget, Limits
from treadle.plugins import native
from treadle.plugins.native import Library, NativeTool, list_tools, read_library
from treadle.ports.context import RunFacts
from treadle.state.scoped import State

pytestmark = pytest.mark.e2e

HARMLESS = """
#include <stdlib.h>
#include <string.h>
unsigned treadle_abi_version(void) { return 1; }
char *treadle_tools(void) { return strdup("[1]"); }
char *treadle_call(const char *name, const char *arguments, const char *context) {
    if (!strcmp(name, "none")) return 0;
    if (!strcmp(name, "odd")) return strdup("{");
    char *text = malloc(strlen(arguments) + strlen(context) + 32);
    strcat(strcat(strcat(strcat(strcpy(text, "{\\"result\\": ["), arguments), ","), context), "]}");
    return text;
}
void treadle_free(char *text) { free(text); }
"""


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, str]:
    """Return a library and its digest."""
    path = compile_c(HARMLESS, tmp_path / "libharmless.so")
    return path, read_library(path)[1]


def unheard(call_id: str, name: str, progress: Any) -> None:
    """Nobody watches."""


def context(**metadata: Any) -> RunContext[Any]:
    facts = RunFacts(
        run_id="r1",
        conversation_id="c1",
        agent="tester",
        deps=None,
        metadata=metadata,
        budget=Budget(Limits()),
        state=State(),
        report=unheard,
    )
    return RunContext(facts, call_id="k1")


def test_a_call(made: tuple[Path, str]) -> None:
    """Arguments and context arrive as JSON, whatever is in them."""
    assert list_tools(*made) == [1]
    tool = NativeTool(*made, "echo", ("user", "gone"))
    asked = {"text": 'ä"\n\U0001f600', "deep": [None, {"a": 1.5}]}

    answer: Any = tool(context(user="u1", token="hush"), asked)  # noqa: S106 it is none
    arguments, told = answer
    assert arguments == asked
    assert told == {
        "run_id": "r1",
        "conversation_id": "c1",
        "call_id": "k1",
        "agent": "tester",
        "attempt": 1,
        "idempotency_key": "r1:k1",
        "metadata": {"user": "u1"},
    }


@pytest.mark.parametrize(
    ("name", "problem"), [("none", "returned no text"), ("odd", "something else than JSON")]
)
def test_what_is_no_answer(made: tuple[Path, str], name: str, problem: str) -> None:
    """The model hears which function answered so."""
    with pytest.raises(ToolError, match=rf"Tool '{name}' failed: treadle_call\(\) .*{problem}"):
        NativeTool(*made, name)(context(), {})


def test_where_nothing_can_be_kept_in_memory(
    made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file of its own takes the place, and is gone once the library is loaded, or is none."""

    def refuse(name: str) -> int:
        raise PermissionError(13, "not allowed")

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(native.tempfile, "tempdir", str(place))

    assert Library(*made).tools() == [1]
    assert list(place.iterdir()) == []
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    with pytest.raises(PluginFailed, match=r"libtext\.so' cannot be loaded"):
        Library(text, read_library(text)[1])
    assert list(place.iterdir()) == []


def test_libraries_that_cannot_be_loaded_leave_no_descriptor(tmp_path: Path) -> None:
    """However often it is tried."""
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(PluginFailed):
            Library(text, read_library(text)[1])
    assert len(os.listdir("/proc/self/fd")) == before


def test_two_libraries_are_two(tmp_path: Path) -> None:
    """The system does not take the second for the first, though both come from memory."""
    answers: list[Any] = []
    for number in (1, 2):
        source = HARMLESS.replace('"[1]"', f'"[{number}]"')
        path = compile_c(source, tmp_path / f"lib{number}" / "same.so")
        answers.append(Library(path, read_library(path)[1]).tools())

    assert answers == [[1], [2]]


def test_large_files_are_not_read(made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beyond the limit is no library."""
    monkeypatch.setattr(native, "MOST_BYTES", 100)
    with pytest.raises(PluginFailed, match="more than 100 bytes"):
        read_library(made[0])
