"""Worker processes end with the program that began them, and belong to no event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.tools import elsewhere, hanging
from tests.tools.apart import is_alive
from tests.tools.parts import asked
from tests.tools.programs import goes_away, run, script
from treadle import Agent, ToolProgress
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES, ToolProcesses
from treadle.tools.timing import CallExpired

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("all_gone")]

ROOT = Path(__file__).parents[2]


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
    assert goes_away(pid)
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

    assert goes_away(int(done.stdout)), done.stderr


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
    assert goes_away(int(pid))


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
        assert goes_away(pid)
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
    assert goes_away(pids[0])


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
