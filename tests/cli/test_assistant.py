"""The built-in assistant: what it may do by itself, and what only after a yes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from treadle import Agent, ToolError, ToolResult
from treadle.cli.assistant import AskFirst, assistant, clock_tool
from treadle.cli.terminal import Terminal
from treadle.ports.clock import SystemClock
from treadle.testing import ScriptedModel, calls
from treadle.tools.registry import ToolRegistry


@pytest.fixture
def somebody() -> Iterator[Terminal]:
    """A terminal with somebody at it."""
    outer, inner = os.openpty()
    with open(inner) as stdin, open(inner, "w", closefd=False) as stderr:
        yield Terminal(stdin, stderr, stderr, {})
    os.close(outer)


async def call(agent: Agent, name: str, **arguments: object) -> ToolResult:
    """Have an agent call one tool and return the result."""
    model = ScriptedModel([calls(("c1", name, arguments)), "done"])
    (answer,) = (await agent.run("go", model=model)).tool_results
    return answer


@pytest.fixture
def reader(tmp_path: Path) -> Agent:
    """The assistant where nobody can be asked."""
    (tmp_path / "a.txt").write_text("inside")
    nobody = Terminal(sys.stdin, sys.stdout, sys.stderr, {})
    return assistant(nobody, workspace=str(tmp_path))


async def test_it_calculates_and_reads(reader: Agent) -> None:
    """The harmless tools just work."""
    assert (await call(reader, "calculator", expression="23 * 17")).text == "391"
    assert (await call(reader, "read_file", path="a.txt")).text == "inside"
    assert (await call(reader, "list_files")).text == "a.txt"
    assert (await call(reader, "read_file", path="/etc/passwd")).is_error


def test_with_nobody_there_it_only_reads(reader: Agent) -> None:
    """What would need a yes is not offered."""
    assert not {"write_file", "edit_file", "bash"} & set(ToolRegistry(reader.tools).names())


def test_with_somebody_there_it_may_ask(somebody: Terminal, tmp_path: Path) -> None:
    """Writing and commands are offered, behind the question."""
    agent = assistant(somebody, workspace=str(tmp_path))

    assert {"write_file", "edit_file", "bash"} <= set(ToolRegistry(agent.tools).names())
    assert [type(each) for each in agent.middleware] == [AskFirst]


@pytest.fixture
def writer(somebody: Terminal, tmp_path: Path) -> Agent:
    """The assistant where somebody can be asked, without the question, and beside it a secret."""
    (tmp_path.parent / "secret.txt").write_text("secret")
    return assistant(somebody, workspace=str(tmp_path)).replace(middleware=[])


@pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux")
async def test_commands_run_in_a_sandbox(writer: Agent, tmp_path: Path) -> None:
    """They change the workspace, and see nothing of what is beside it."""
    answer = await call(writer, "bash", command="echo new > a.txt; cat /etc/shadow ../*.txt")

    assert (tmp_path / "a.txt").read_text() == "new\n"
    assert "secret" not in answer.text


@pytest.mark.parametrize("yes", [True, False])
async def test_each_call_is_asked_about(reader: Agent, tmp_path: Path, yes: bool) -> None:
    """A yes runs this one call; a no tells the model, and nothing has run."""
    asked: list[str] = []

    async def ask(question: str) -> bool:
        asked.append(question)
        return yes

    ran: list[str] = []

    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ran"

    agent = reader.replace(tools=[bash], middleware=[AskFirst(frozenset({"bash"}), ask)])
    answers = [await call(agent, "bash", command=f"touch {n}") for n in range(2)]

    assert asked == [f"bash:\n  command: touch {n}\nRun this?" for n in range(2)]
    assert ran == (["touch 0", "touch 1"] if yes else [])
    assert [answer.is_error for answer in answers] == [not yes] * 2
    assert yes or "The user said no" in answers[0].text


class NoonClock(SystemClock):
    """A clock that stands still."""

    def now(self) -> datetime:
        """Return noon in winter."""
        return datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "Monday, 2026-01-05 12:00:00 UTC (UTC+0000)"),
        ("Asia/Tokyo", "Monday, 2026-01-05 21:00:00 JST (UTC+0900)"),
        ("America/New_York", "Monday, 2026-01-05 07:00:00 EST (UTC-0500)"),
    ],
)
def test_the_clock_knows_zones(zone: str, told: str) -> None:
    """The day, the date, the time and the zone."""
    assert clock_tool(NoonClock())(zone=zone) == told


def test_the_clock_knows_the_local_zone() -> None:
    """Without a zone it is the machine's."""
    local = datetime(2026, 1, 5, 12, tzinfo=UTC).astimezone()

    assert f"{local:%H:%M:%S}" in clock_tool(NoonClock())()


@pytest.mark.parametrize("zone", ["Europe/Pariss", "../../etc/passwd", "x" * 300, "Europe"])
def test_an_unknown_zone_is_told(zone: str) -> None:
    """The message shows how zones are written."""
    with pytest.raises(ToolError, match="write it like 'Europe/Paris'"):
        clock_tool(NoonClock())(zone=zone)
