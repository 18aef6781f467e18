"""Worker processes live and die with the program that began them, whatever kind it is."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.tools import elsewhere
from tests.tools.programs import run, script
from treadle.tools.processes import ToolProcesses

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("all_gone")]

ROOT = Path(__file__).parents[2]


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
