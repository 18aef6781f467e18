"""The bash tool: what a command prints, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.tools.builtin.conftest import Call
from tests.tools.builtin.left import running
from treadle import Agent, Tool, ToolError, ToolResult
from treadle.testing import ScriptedModel, calls
from treadle.tools import bash_tool

STUBBORN = """
echo partial
sh -c 'sleep MARK & (trap "" TERM; echo >> traps; sleep MARK) & echo >> ready; sleep MARK'
"""
"""Leaves a shell, a child and a child that ignores TERM; MARK is in all their command lines."""

PROGRAM = """
import sys
from treadle import Agent
from treadle.testing import ScriptedModel, calls
from treadle.tools import bash_tool
sandbox = "auto" if sys.argv[2] == "auto" else None
model = ScriptedModel([calls(("c1", "bash", {"command": sys.argv[1]})), "done"])
Agent("coder", model, tools=[bash_tool(sandbox=sandbox)]).run_sync("go")
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """How long a test's sleepers sleep: a number of its own, by which they are found."""
    found = f"{300 + secrets.randbelow(600)}.{secrets.randbelow(10**9):09}"
    yield found
    assert running(found) == []


@pytest.fixture(params=["auto", None], ids=["in a sandbox", "without"])
def sandbox(request: pytest.FixtureRequest) -> Literal["auto"] | None:
    """Where commands run."""
    if request.param and sys.platform != "linux":
        pytest.skip("sandboxes are for Linux")
    return request.param


@pytest.fixture
def bash(workspace: Path, sandbox: Literal["auto"] | None) -> Tool:
    """The tool itself, for tests that need the run's handle."""
    return bash_tool(workspace, sandbox=sandbox)


@pytest.fixture
def call(bash: Tool) -> Call:
    """Call it as an agent does."""

    async def make(name: str, **arguments: object) -> ToolResult:
        model = ScriptedModel([calls(("c1", name, arguments)), "done"])
        (answer,) = (await Agent("coder", model, tools=[bash]).run("go")).tool_results
        return answer

    return make


async def until(true: Callable[[], bool], seconds: float = 5) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.01)


async def test_output_and_exit_code_are_told(call: Call, workspace: Path) -> None:
    """Both outputs come in their order, and a failing command is no failing call."""
    command = "pwd; echo to stderr >&2; printf last; exit 3"

    answer = await call("bash", command=command)

    assert answer.text == f"{workspace}\nto stderr\nlast\n[exit code 3]"
    assert not answer.is_error


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("true", "[exit code 0]"),
        ("kill -9 $$", "[exit code 137, signal 9]"),
        ("cat; echo end", "end\n[exit code 0]"),
        ("-s 2>&1 | grep -c found", "1\n[exit code 0]"),
        ("printf 'a\\377b'", "a\ufffdb\n[exit code 0]"),
        ("no-such-program 2>&1 | grep -c found", "1\n[exit code 0]"),
    ],
)
async def test_however_a_command_ends_is_told(call: Call, command: str, told: str) -> None:
    """There is no input, bytes that are no text are shown as such, signals have their number."""
    assert (await call("bash", command=command)).text == told


@pytest.mark.parametrize(
    ("command", "seconds", "told"),
    [
        (" ", 30, "The command is blank"),
        ("true", 0, "give more than 0, at most 600"),
        ("x" * 131_072, 30, "has 131072 bytes, and a shell takes 131071 at most; write a script"),
    ],
)
async def test_what_cannot_run_is_told(call: Call, command: str, seconds: float, told: str) -> None:
    """A command that cannot be started is a text for the model."""
    answer = await call("bash", command=command, timeout_seconds=seconds)

    assert answer.is_error
    assert told in answer.text


async def test_a_command_may_be_long(call: Call) -> None:
    """As long as a shell takes it."""
    answer = await call("bash", command=": " + "x" * (131_071 - 2))

    assert answer.text == "[exit code 0]"


async def test_a_command_with_a_nul_is_refused(bash: Tool) -> None:
    """No shell can be given a NUL, not even by a program that calls the tool itself."""
    with pytest.raises(ToolError, match="holds a NUL character"):
        await bash(command="echo \0")


async def test_a_workspace_that_is_gone_is_told(call: Call, workspace: Path) -> None:
    """The folder may have been removed since the tools were made."""
    os.rmdir(workspace)

    answer = await call("bash", command="true")

    assert answer.is_error
    assert "o such file or directory" in answer.text


async def test_long_output_is_cut_to_head_and_tail(call: Call) -> None:
    """Of more than 64 KB the middle is left out, and nothing but the ends is held (S26)."""
    command = "echo head; head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo tail"

    text = (await call("bash", command=command)).text

    assert text.startswith("head\nxxx")
    assert text.endswith("xxx\ntail\n[exit code 0]")
    assert "\n[... 3000011 bytes in all, 29345" in text
    assert " in the middle are left out ...]\n" in text
    assert 60_000 < len(text.encode()) <= 65_600


async def test_cuts_go_between_characters(call: Call) -> None:
    """Neither end of a cut shows half a character."""
    text = (await call("bash", command="for i in $(seq 9000); do printf 'x€€€'; done")).text

    assert "\ufffd" not in text
    assert len(text.encode()) <= 65_600


async def test_secrets_stay_out_of_the_environment(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command sees the path and the language, and no key of any kind (BS-62)."""
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "LC_SECRET", "DATABASE_URL"):
        monkeypatch.setenv(name, "CANARY")
    monkeypatch.setenv("LC_NUMERIC", "C")

    text = (await call("bash", command="env")).text

    assert "CANARY" not in text
    assert "PATH=" in text
    assert "LC_NUMERIC=C" in text


async def test_out_of_time_nothing_is_left(call: Call, mark: str) -> None:
    """A command out of time ends with its children, also one that ignores TERM (BS-51)."""
    async with asyncio.timeout(6):
        answer = await call("bash", command=STUBBORN.replace("MARK", mark), timeout_seconds=0.5)

    assert answer.is_error
    assert answer.text.startswith("partial\n[timed out after 0.5 s;")


async def test_a_command_out_of_time_may_clean_up(call: Call, workspace: Path) -> None:
    """It is asked to end before it is killed, and what it still prints is told (BS-51)."""
    command = "trap 'echo cleaned up; exit 0' TERM; echo begun; sleep 300 & wait"

    answer = await call("bash", command=command, timeout_seconds=0.5)

    assert answer.text.startswith("begun\ncleaned up\n[timed out after 0.5 s;")


async def test_a_background_child_ends_with_its_command(call: Call, mark: str) -> None:
    """What a command leaves in the background does not keep it, and does not outlive it (BS-51)."""
    command = f"for i in 1 2 3; do sleep {mark} & done; echo started"

    async with asyncio.timeout(5):
        answer = await call("bash", command=command)

    assert answer.text == "started\n[exit code 0]"


async def test_a_daemon_ends_with_its_command(call: Call, mark: str) -> None:
    """So does what has left its group, its session and its parent (W34)."""
    command = f"setsid sh -c 'setsid sleep {mark} & exec sleep {mark}' >log 2>&1 & echo started"

    async with asyncio.timeout(5):
        answer = await call("bash", command=command)

    assert answer.text == "started\n[exit code 0]"


async def test_cancelling_the_run_ends_the_command(workspace: Path, bash: Tool, mark: str) -> None:
    """Nothing of a command outlives the run that was cancelled (BS-50, BS-51)."""
    command = STUBBORN.replace("MARK", mark)
    model = ScriptedModel([calls(("c1", "bash", {"command": command})), "never"])
    run = Agent("coder", model, tools=[bash]).start("go")
    await until((workspace / "ready").exists)

    async with asyncio.timeout(6):
        result = await run.cancel("stop")

    assert result is not None
    assert result.stop_reason == "cancelled"
    assert running(mark) == []


async def test_cancelling_while_it_starts_leaves_nothing(bash: Tool, mark: str) -> None:
    """However early a cancel comes, the command is not left running."""
    script = [calls(("c1", "bash", {"command": f"sleep {mark}"})), "never"]
    for pauses in range(0, 80, 6):
        run = Agent("coder", ScriptedModel(script), tools=[bash]).start("go")
        for _ in range(pauses):
            await asyncio.sleep(0.001)
        await run.cancel()
        assert running(mark) == []


@pytest.mark.e2e
async def test_killing_the_program_ends_the_command(
    workspace: Path, mark: str, sandbox: Literal["auto"] | None
) -> None:
    """Nothing of a command outlives a program that was killed (BS-51)."""
    command = STUBBORN.replace("MARK", mark)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, command, str(sandbox), cwd=workspace
    )
    await until((workspace / "ready").exists, 20)

    program.send_signal(signal.SIGKILL)
    await program.wait()

    await until(lambda: not running(mark))
