"""Two processes in one conversation: one runs, the other is refused, waits, or takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.agent.parts import check_answered
from tests.databases import KINDS, url_of
from tests.scenarios.stores import SHARED, Kept, keeping, url_in

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e]


class Racer:
    """A process that waits for the start."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._asked, self._told = process.stdin, process.stdout

    def ready(self) -> None:
        """Return when it waits."""
        assert pipe(self._told).readline() == b"ready\n"

    def go(self, way: str) -> None:
        """Let it run once, this way."""
        pipe(self._asked).write(f"{way}\n".encode())
        pipe(self._asked).flush()

    def end(self) -> str:
        """Return how its run ended, or "dead"."""
        said = pipe(self._told).readline().decode().strip()
        return said or ("dead" if self._process.wait(20) < 0 else "crashed")


def pipe(end: IO[bytes] | None) -> IO[bytes]:
    """Return the pipe that is there."""
    assert end is not None
    return end


@contextmanager
def racer(*arguments: str) -> Generator[Racer]:
    """Start a process."""
    command = [sys.executable, "-m", "tests.scenarios.racer", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Racer(process)
        finally:
            process.kill()


def counted(kept: Kept) -> int:
    """How often the tool ran, in any process."""
    return len((kept.folder / "counted").read_text().split())


@pytest.mark.parametrize("kind", SHARED)
async def test_two_processes(kind: str, tmp_path: Path) -> None:
    """BS-41, S11, J7: one of two runs, or waits; when it dies the other takes over at once."""
    url = url_of(kind) if kind in KINDS else url_in(kind, tmp_path)
    async with keeping(kind, tmp_path) as kept:
        arguments = (url, kept.id(), str(kept.folder))
        with racer(*arguments) as one, racer(*arguments) as two:
            one.ready()
            two.ready()

            def both(way: str) -> list[str]:
                one.go(way)
                two.go(way)
                return sorted([one.end(), two.end()])

            assert both("raise") == ["answer 3", "busy"]
            assert counted(kept) == 1
            assert both("wait") == ["answer 11", "answer 7"]
            assert counted(kept) == 3
            one.go("die")
            assert one.end() == "dead"
            two.go(f"resume {kept.id()}-dead")
            assert two.end() == "answer 15"
            two.go("raise")
            assert two.end() == "answer 19"
        assert counted(kept) == 5
        messages = await kept.messages()
    synthetic = [r.synthetic for message in messages for r in message.tool_results]
    assert synthetic == [False, False, False, True, False]
    check_answered(messages)
