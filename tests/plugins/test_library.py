"""Native libraries: compiled here, loaded in children, and whatever they do survived."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import compile_c, compile_rust, run_calls
from treadle import (
    ConfigError,
    DuplicateTool,
    Image,
    PluginFailed,
    Text,
    Tool,
    ToolError,
)
from treadle.plugins import load_library
from treadle.plugins.native import answer_of
from treadle.tools.processes import PROCESSES

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
Compile = Callable[[str], Path]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the examples in C and in Rust, and the library that misbehaves."""
    place = tmp_path_factory.mktemp("libraries")
    compile_c(EXAMPLES / "sums.c", place / "libsums.so", "-O2", "-Wall", "-Wextra", "-Werror")
    compile_c(Path(__file__).parent / "rogue.c", place / "librogue.so", "-w")
    compile_rust(EXAMPLES / "words.rs", place / "libwords.so", "-O", "-D", "warnings")
    return place


async def load(path: Path, *pin: str, **options: Any) -> tuple[Tool, ...]:
    """Load a library in a thread: it waits for a child process."""
    return await asyncio.to_thread(load_library, path, *pin, **options)


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a text in C to a library."""

    return lambda source: compile_c(source, tmp_path / "libmade.so", "-w")


@pytest.mark.e2e
async def test_the_examples_in_c_and_in_rust(libraries: Path) -> None:
    """Both list their tools and answer, in processes that are not this one."""
    tools = [*await load(libraries / "libsums.so"), *await load(libraries / "libwords.so")]
    assert [tool.name for tool in tools] == ["add", "count_words"]
    assert tools[0].parameters["required"] == ["a", "b"]

    result = await run_calls(
        tools,
        ("add", {"a": 0.1, "b": -2e3}),
        ("count_words", {"text": 'eine "Straße"\n\U0001f600 \\ zwei'}),
        ("add", {"a": 1e308, "b": 1e308}),
        ("add", {"a": "one", "b": 2}),
    )

    sums, words, large, wrong = result.tool_results
    assert sums.value == 0.1 - 2e3
    assert words.value == {"words": 5, "characters": 22}
    assert (large.is_error, large.text) == (True, "The sum is too large for a number.")
    assert wrong.is_error
    assert "expected number" in wrong.text


@pytest.mark.e2e
async def test_whatever_a_library_does_is_an_error_result(
    libraries: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Crashes, exits, hangs and nonsense end at most a child process; the next call works."""
    tools = await load(libraries / "librogue.so", timeout=1)
    expected = {
        "segfault": "SIGSEGV",
        "leave": "7",
        "abort": "SIGABRT",
        "hang": "timed out after 1 s",
        "smash": "SIG",
        "null": "returned no text",
        "text": "something else than JSON",
        "bare": "no object",
        "refuse": "Not on Sundays.",
    }
    asked: list[tuple[str, dict[str, Any]]] = []
    for name in expected:
        asked += [(name, {}), ("pid", {})]
    result = await run_calls(tools, *asked, ("print", {}))

    *found, printed = result.tool_results
    for (name, said), broken, right in zip(expected.items(), found[::2], found[1::2], strict=True):
        assert broken.is_error, name
        assert said in broken.text, name
        assert not right.is_error, name
        assert right.value["pid"] != os.getpid()
    assert printed.text == "printed"
    assert result.output == "done"
    assert "forged" in capfd.readouterr().err


@pytest.mark.e2e
async def test_a_library_stays_loaded(libraries: Path) -> None:
    """Processes are used again, and in each the library keeps what it has."""
    tools = await load(libraries / "librogue.so")
    asked: list[tuple[str, dict[str, Any]]] = [("count", {})]
    result = await run_calls(tools, *asked * 6)

    counts: dict[int, list[int]] = {}
    for found in result.tool_results:
        counts.setdefault(found.value["pid"], []).append(found.value["calls"])
    assert len(counts) < 6
    for each in counts.values():
        assert each == list(range(each[0], each[0] + len(each)))
    mapped = await asyncio.to_thread(Path("/proc/self/maps").read_text)
    assert "librogue" not in mapped


@pytest.mark.e2e
async def test_the_context_and_what_of_the_metadata_is_sent(libraries: Path) -> None:
    """IDs are told; of the metadata only what is allowed."""
    metadata = {"user_id": "u1", "token": "hush-hush"}
    for send, expected in (([], {}), (["user_id", "absent"], {"user_id": "u1"})):
        tools = await load(libraries / "librogue.so", send_metadata=send)
        result = await run_calls(tools, ("context", {}), metadata=metadata)
        told = result.tool_results[0].value
        assert told["metadata"] == expected
        assert told["run_id"] == result.run_id
        assert told["call_id"] == "c0"
        assert told["idempotency_key"] == f"{result.run_id}:c0"
        assert (told["agent"], told["attempt"]) == ("tester", 1)


@pytest.mark.e2e
async def test_pictures(libraries: Path) -> None:
    """Pictures come as parts beside the result; one without bytes is left out."""
    result = await run_calls(await load(libraries / "librogue.so"), ("pictures", {}))

    assert result.tool_results[0].parts == (
        Text('{"n": 2}'),
        Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png"),
        Image.from_url("https://x.example/a.png", detail="low"),
    )


@pytest.mark.e2e
async def test_pins(libraries: Path, tmp_path: Path) -> None:
    """Only the pinned bytes are ever loaded: not others at load, and not others later."""
    path = tmp_path / "libsums.so"
    content = await asyncio.to_thread((libraries / "libsums.so").read_bytes)
    await asyncio.to_thread(path.write_bytes, content)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(PluginFailed, match=f"is not the pinned one: its SHA-256 is {digest}, not"):
        await load(path, "0" * 64)
    with pytest.raises(ConfigError, match="64 hex digits"):
        await load(path, "abc")

    pinned, unpinned = await load(path, f" {digest.upper()}\n"), await load(path)
    await asyncio.to_thread(PROCESSES.close)  # so that no process has it loaded
    await asyncio.to_thread(shutil.copy, libraries / "librogue.so", path)
    for tools in (pinned, unpinned):
        result = await run_calls(tools, ("add", {"a": 1, "b": 2}))
        assert result.tool_results[0].is_error
        assert "is not the one that was meant" in result.tool_results[0].text
    path.unlink()
    result = await run_calls(pinned, ("add", {"a": 1, "b": 2}))
    assert "There is no library" in result.tool_results[0].text


@pytest.mark.e2e
def test_a_relative_path_is_the_same_file_later(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library is found again from wherever a call is made."""
    monkeypatch.chdir(libraries)
    (tool,) = load_library("libsums.so")

    assert str(libraries / "libsums.so") in repr(tool.function)


ABI = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
VERSION = "unsigned treadle_abi_version(void) { return 1; }\n"
REST = (
    "char *treadle_call(const char *a, const char *b, const char *c) { return 0; }\n"
    "void treadle_free(char *text) { free(text); }\n"
)


def listing(tools: str) -> str:
    return f'{ABI}{VERSION}{REST}char *treadle_tools(void) {{ return strdup("{tools}"); }}'


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("int x;", "has no function treadle_abi_version"),
        (VERSION, "has no function treadle_tools"),
        (f"{ABI}{VERSION}char *treadle_tools(void) {{ return 0; }}", "no function treadle_call"),
        ("unsigned treadle_abi_version(void) { return 2; }", "version 2 of the interface, not 1"),
        (f"{ABI}{VERSION}{REST}char *treadle_tools(void) {{ return 0; }}", "returned no text"),
        (listing("no JSON"), "something else than JSON"),
        (listing("{}"), "lists no tools"),
        (listing("[]"), "lists no tools"),
        (listing("[1]"), "no object with a name"),
        (listing('[{\\"name\\": 1}]'), "no object with a name"),
        (listing('[{\\"name\\": \\"\\"}]'), "which is none: A tool needs a name"),
        (listing('[{\\"name\\": \\"a\\", \\"parameters\\": 1}]'), "which is none"),
        (
            listing('[{\\"name\\": \\"a\\", \\"parameters\\": {\\"type\\": \\"array\\"}}]'),
            "the parameters of a tool are an object",
        ),
        (f"{ABI}{VERSION}{REST}char *treadle_tools(void) {{ exit(3); }}", "could not be loaded.*3"),
        (f"{ABI}{VERSION}{REST}char *treadle_tools(void) {{ *(int *)8 = 1; }}", "SIGSEGV"),
        (f"{ABI}__attribute__((constructor)) void go(void) {{ _exit(0); }}", "could not be loaded"),
    ],
)
def test_libraries_that_are_none(compiled: Compile, source: str, problem: str) -> None:
    """What is missing or wrong is told; a library that dies takes a child process with it only."""
    with pytest.raises(PluginFailed, match=problem):
        load_library(compiled(source))


@pytest.mark.e2e
def test_a_library_that_hangs_while_it_is_loaded(
    compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up, and its process is gone."""
    monkeypatch.setattr("treadle.plugins.library.LIST_SECONDS", 0.5)
    source = f"{ABI}{VERSION}{REST}char *treadle_tools(void) {{ for (;;) sleep(9); }}"
    path, began = compiled(source), time.monotonic()
    with pytest.raises(PluginFailed, match=r"did not list its tools in 0\.5 s"):
        load_library(path)
    assert time.monotonic() - began < 30


@pytest.mark.e2e
def test_two_tools_of_one_name(compiled: Compile) -> None:
    """A library with the same tool twice is not loaded."""
    with pytest.raises(DuplicateTool, match="has two tools 'a'"):
        load_library(compiled(listing('[{\\"name\\": \\"a\\"}, {\\"name\\": \\"a\\"}]')))


@pytest.mark.e2e
def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    """A text, a folder and nothing are told by name."""
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    with pytest.raises(PluginFailed, match=r"'.*libtext\.so' cannot be loaded: .*libtext\.so"):
        load_library(text)
    for nothing in (tmp_path, tmp_path / "gone.so"):
        with pytest.raises(PluginFailed, match="There is no library"):
            load_library(nothing)
    with pytest.raises(ConfigError, match="pass a list"):
        load_library(text, send_metadata="user_id")


@pytest.mark.parametrize(
    "answer", [1, [], {}, {"value": 1}, {"images": 1}, {"images": [1]}, {"images": [{"data": "%"}]}]
)
def test_answers_that_are_none(answer: Any) -> None:
    """Each is told, and never taken for a result."""
    with pytest.raises(PluginFailed):
        answer_of("a", answer)


def test_answers() -> None:
    """A result is any JSON value; an error is one whatever stands beside it."""
    assert answer_of("a", {"result": None}) is None
    assert answer_of("a", {"result": [1], "error": None, "images": None}) == [1]
    with pytest.raises(ToolError, match="no"):
        answer_of("a", {"result": 1, "error": "no"})


@pytest.mark.parametrize(
    ("error", "told"),
    [("no", "no"), ({"a": 1}, '{"a": 1}'), ("", "Tool 'a' failed, and does not say why.")],
)
def test_an_error_says_something(error: object, told: str) -> None:
    """The model is told the library's text, or that there is none."""
    with pytest.raises(ToolError) as caught:
        answer_of("a", {"error": error})

    assert str(caught.value) == told
