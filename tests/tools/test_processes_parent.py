"""Worker processes live and die with the program that began them, whatever kind it is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.tools import elsewhere, hanging
from tests.tools.parts import asked
from treadle import Agent, ToolProgress
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES, ToolProcesses
from treadle.tools.timing import CallExpired

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]

SCRIPT = """
import asyncio, os, sys, threading, time
from dataclasses import dataclass
from treadle import Agent, RunContext, tool
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES

print("loaded as", __name__, file=sys.stderr, flush=True)

@dataclass
class Point:
    x: int

@tool(isolation="process")
def move(x: int) -> Point:
    "Move."
    return Point(x + 1)

@tool(isolation="process", timeout=None)
def spin() -> None:
    "Loop."
    print("spinning", flush=True)
    while True:
        pass

def ask(made, **arguments):
    model = ScriptedModel([calls(("1", made.name, arguments)), "ok"])
    return Agent("a", model, tools=[made]).run_sync("x").tool_results[0]

def begin(made):
    "Run a tool in another thread; return the ID of its process."
    threading.Thread(target=ask, args=(made,), daemon=True).start()
    while not PROCESSES.pids:
        time.sleep(0.01)
    time.sleep(1)
    return PROCESSES.pids[0]
"""


def script(folder: Path, end: str, begin: str = "") -> Path:
    """A program in a file, with the tools above."""
    path = folder / "program.py"
    path.write_text(begin + SCRIPT + textwrap.dedent(end))
    return path


def run(*program: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program with this interpreter, to its end."""
    command = [sys.executable, *map(str, program)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    """Whether a process goes away within some seconds."""
    for _ in range(500):
        if not is_alive(pid):
            return True
        time.sleep(0.01)  # noqa: TID251
    return False


@pytest.fixture(scope="module", autouse=True)
def all_gone() -> Iterator[None]:
    """End the worker processes with the last test."""
    yield
    PROCESSES.close()


# --- what kind of program it is -----------------------------------------------------------------


def test_a_script(tmp_path: Path) -> None:
    """Its functions and classes are had from its file, without running its `__main__` block."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            found = ask(move, x=1)
            print(found.value, type(found.value) is Point, found.text)
        """,
    )
    done = run(program)

    assert done.stdout == 'Point(x=2) True {"x":2}\n', done.stderr
    assert done.stderr == "loaded as __main__\nloaded as __treadle_main__\n"


def test_a_module_that_is_run(tmp_path: Path) -> None:
    """`python -m package.program` is a script, too; relative imports work."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "beside.py").write_text("ONE = 1\n")
    script(
        tmp_path / "package",
        """
        if __name__ == "__main__":
            print(ask(move, x=ONE).value)
        """,
        begin="from .beside import ONE\n",
    )
    done = run("-m", "package.program", cwd=tmp_path)

    assert done.stdout == "Point(x=2)\n", done.stderr


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    """A run at the top level of a script is refused in the worker; the error says what to do."""
    done = run(script(tmp_path, "print(ask(move, x=1).text)\n"))

    assert 'put what it runs under `if __name__ == "__main__":`' in done.stdout, done.stderr
    assert done.returncode == 0


def test_a_script_that_cannot_be_loaded_again(tmp_path: Path) -> None:
    """What its loading raises in the worker is the call's error."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            print(ask(move, x=1).text)
        else:
            raise OSError("only once")
        """,
    )
    done = run(program)

    assert done.stdout == "Tool 'move' failed: OSError: only once\n", done.stderr


def test_a_program_whose_standard_descriptors_are_closed(tmp_path: Path) -> None:
    """The channel is none of 0, 1 and 2, which the program may have closed."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            for each in (0, 1, 2):
                os.close(each)
            found = ask(move, x=1)
            with open("found.txt", "w") as file:
                print(found.text, file=file)
        """,
    )
    done = run(program, cwd=tmp_path)

    assert (tmp_path / "found.txt").read_text() == '{"x":2}\n', done.stderr


def test_modules_that_are_found_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has begun already hears of a longer `sys.path`."""
    (tmp_path / "found_later.py").write_text("def one() -> int:\n    return 1\n")

    async def both() -> tuple[int, int, int]:
        processes = ToolProcesses()
        first = (await processes.run(elsewhere.keep, (1,), {}))[0]
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        one = import_module("found_later").one
        found: int = await processes.run(one, (), {})
        second = (await processes.run(elsewhere.keep, (1,), {}))[0]
        await asyncio.to_thread(processes.close)
        return first, found, second

    first, found, second = asyncio.run(both())
    assert (found, first) == (1, second)


def test_options_of_the_interpreter(tmp_path: Path) -> None:
    """A worker's interpreter behaves as its parent's."""
    program = script(
        tmp_path,
        """
        @tool(isolation="process")
        def flags() -> list[object]:
            "Tell."
            return [sys.flags.optimize, sys.flags.utf8_mode, sys.warnoptions, sys.argv[1:]]

        if __name__ == "__main__":
            print(ask(flags).text)
        """,
    )
    done = run("-O", "-X", "utf8", "-W", "error::UserWarning", program, "argument")

    assert done.stdout == '[1,1,["error::UserWarning"],["argument"]]\n', done.stderr


def test_a_system_that_gives_no_more(tmp_path: Path) -> None:
    """Without free descriptors a call has an error, and none is lost by trying."""
    program = script(
        tmp_path,
        """
        import resource

        def limit(number):
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, 4096))

        if __name__ == "__main__":
            ask(move, x=1)
            PROCESSES.close()
            before = len(os.listdir("/proc/self/fd"))
            for more in range(6):
                limit(before + more)
                print(ask(move, x=1).text)
                PROCESSES.close()
            limit(4096)
            print(ask(move, x=1).text)
            PROCESSES.close()
            print(len(os.listdir("/proc/self/fd")) - before)
        """,
    )
    done = run(program)
    first, *_, last, left = done.stdout.splitlines()

    assert "Too many open files" in first, done.stderr
    assert (last, left) == ('{"x":2}', "0")


# --- how it ends --------------------------------------------------------------------------------


END = {
    "kill": "os.kill(os.getpid(), 9)",
    "exit": "sys.exit(0)",
    "raise": "raise ValueError",
    "leave": "os._exit(0)",
    "term": "os.kill(os.getpid(), 15); time.sleep(60)",
}


@pytest.mark.parametrize("how", END)
def test_workers_end_with_the_program(how: str, tmp_path: Path) -> None:
    """Be it killed: a worker that loops is gone, and the program does not wait for it."""
    program = script(
        tmp_path,
        f"""
        if __name__ == "__main__":
            print(begin(spin), flush=True)
            {END[how]}
        """,
    )
    done = run("-W", "error", program)
    pid = int(done.stdout)

    assert "spinning" in done.stderr
    assert gone(pid)
    assert "ResourceWarning" not in done.stderr


def test_workers_that_hold_the_interpreter_end_with_the_program(tmp_path: Path) -> None:
    """No thread of theirs could have seen that the program was killed; the system did."""
    program = script(
        tmp_path,
        """
        from tests.tools.hanging import hold_the_interpreter

        if __name__ == "__main__":
            print(begin(tool(isolation="process", timeout=None)(hold_the_interpreter)), flush=True)
            os.kill(os.getpid(), 9)
        """,
    )
    done = run(program, env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert gone(int(done.stdout)), done.stderr


def test_an_interrupt_from_the_terminal_reaches_the_program_only(tmp_path: Path) -> None:
    """Ctrl-C goes to a whole group; a worker is in none that a terminal knows."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            pid = begin(spin)
            print(os.getpgid(0) != os.getpgid(pid), os.getsid(0) != os.getsid(pid), flush=True)
            try:
                os.killpg(0, 2)
                time.sleep(60)
            except KeyboardInterrupt:
                print(PROCESSES.pids == [pid], flush=True)
        """,
    )
    done = run(program, start_new_session=True)

    assert done.stdout.split() == ["True", "True", "True"], done.stderr


def test_a_program_that_forks(tmp_path: Path) -> None:
    """The child begins with workers of its own; those of the parent go on, and end with it."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            ask(move, x=1)
            before = PROCESSES.pids
            child = os.fork()
            if child == 0:
                print(PROCESSES.pids == [], ask(move, x=2).text, flush=True)
                print(set(before).isdisjoint(PROCESSES.pids), flush=True)
                PROCESSES.close()
                os._exit(0)
            print(os.waitpid(child, 0)[1], flush=True)
            print(ask(move, x=3).text, PROCESSES.pids == before)
            print(before[0])
        """,
    )
    done = run(program)
    *lines, pid = done.stdout.splitlines()

    assert lines == ['True {"x":3}', "True", "0", '{"x":4} True'], done.stderr
    assert gone(int(pid))


def test_a_forked_child_does_not_keep_workers_alive(tmp_path: Path) -> None:
    """When the parent is killed its workers end, though a child of it lives on."""
    program = script(
        tmp_path,
        """
        if __name__ == "__main__":
            pid = begin(spin)
            child = os.fork()
            if child == 0:
                os.close(1)
                os.close(2)
                time.sleep(60)
                os._exit(0)
            print(pid, child, flush=True)
            os.kill(os.getpid(), 9)
        """,
    )
    done = run(program)
    pid, child = map(int, done.stdout.split())
    try:
        assert gone(pid)
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


# --- event loops --------------------------------------------------------------------------------


def test_many_event_loops() -> None:
    """Loops in several threads, and one after another, share the processes."""
    found: list[int] = []

    def ask() -> None:
        add = elsewhere.add.function
        found.extend(asyncio.run(PROCESSES.run(add, (number, 1), {})) for number in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert sorted(found) == sorted(list(range(1, 6)) * 4)


def test_a_loop_that_is_left_in_the_middle() -> None:
    """A run whose loop ends under it leaves no process that works."""

    async def begin() -> None:
        agent = Agent(
            "a",
            ScriptedModel([calls(asked("1", "hang_long", how="spin")), "done"]),
            tools=[hanging.hang_long],
        )
        run = agent.start("x")
        async for event in run:
            if isinstance(event, ToolProgress):
                pids.append(int(str(event.progress)))
                return

    pids: list[int] = []
    asyncio.run(begin())

    assert len(pids) == 1
    assert gone(pids[0])


def test_the_event_loop_is_never_blocked() -> None:
    """A ticker goes on while a process starts, large values travel and calls are killed."""

    async def tick(gaps: list[float]) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def work() -> float:
        gaps: list[float] = []
        processes = ToolProcesses()
        ticker = asyncio.ensure_future(tick(gaps))
        large = b"x" * 30_000_000
        for _ in range(3):
            assert await processes.run(bytes, (large,), {}) == large
            with pytest.raises(CallExpired):
                await processes.run(hanging.spin, (), {}, timeout=0.01)
        ticker.cancel()
        await asyncio.to_thread(processes.close)
        return max(gaps)

    assert asyncio.run(work()) < 1.0
