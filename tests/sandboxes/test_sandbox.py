"""What a developer says about a sandbox, and what a command then finds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.sandboxes.attack import Place
from tests.sandboxes.conftest import PYTHON, Run, available
from tests.tools.builtin.left import running
from treadle import ConfigError
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox, SandboxLimits
from treadle.sandboxes.found import Backend

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux")


async def test_a_command_works(run: Run, walls: Sandbox, workspace: Path) -> None:
    """It reads, writes, pipes, uses programs, temporary files and its home."""
    (workspace / "in.txt").write_text("b\na\n")
    command = """
set -e
sort in.txt | tee out.txt
mkdir -p deep/er && mv out.txt deep/er/ && rm in.txt && ln -s deep way
echo x > "$TMPDIR/x" && cat < "$TMPDIR/x" && touch "$HOME/y" && cd && ls
cat /dev/null; head -c 1 /dev/urandom | wc -c; echo on stderr >&2; exit 3
"""
    end = await run(walls, command)

    assert (end.ending, end.exit_code) == ("exited", 3)
    assert end.output.split("\n") == ["a", "b", "x", *end.output.split("\n")[3:]]
    assert "\ny\n" in end.output
    assert end.output.endswith("\n1\non stderr\n")
    assert (workspace / "way" / "er" / "out.txt").read_text() == "a\nb\n"
    assert 0 < end.seconds < 20


async def test_temporary_files_are_gone_afterwards(
    run: Run, walls: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a command puts there does not stay, however it is protected."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    end = await run(
        walls, "mkdir -p $TMPDIR/a/b/d; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b; echo done"
    )

    assert end.output == "done\n"
    assert os.listdir(tmp_path) == ["work"]


async def test_temporary_folders_are_gone_however_deep(
    run: Run, this_python: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Deeper than a path may be long, and than functions may call each other."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = """
import os
os.chdir(os.environ["TMPDIR"])
for _ in range(1500):
    os.mkdir("deeper")
    os.chdir("deeper")
open("file", "w").close()
"""
    end = await run(this_python, f"exec {PYTHON} -I -S -c '{program}'")

    assert (end.output, end.exit_code) == ("", 0)
    assert os.listdir(tmp_path) == ["work"]


@pytest.mark.parametrize("place", ["landlock", "local"])
async def test_no_room_for_temporary_files_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Backend
) -> None:
    """As why the command did not begin, and not by how this program is made."""
    sandbox = Sandbox(backend=place)
    await asyncio.to_thread(sandbox.check)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))

    end = await run(sandbox, "touch ran")

    assert end.ending == "not_started"
    assert "folder for its temporary files: No such file or directory: /" in end.reason
    assert "Traceback" not in end.reason


async def test_a_command_that_is_no_text_is_told(run: Run, walls: Sandbox) -> None:
    """However long it is, at once, and without the command."""
    end = await run(walls, "echo \ud800" + "x" * 100_000)

    assert end.ending == "not_started"
    assert "can't encode character '\\ud800' in position 5" in end.reason
    assert len(end.reason) < 200


async def test_of_the_environment_what_is_named_is_passed(
    run: Run, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is fixed, the language comes along, and nothing else that is not named."""
    for name in [name for name in os.environ if name in ("LANG", "TZ") or name.startswith("LC_")]:
        monkeypatch.delenv(name)
    for name in ("WANTED", "OTHER", "OPENAI_API_KEY", "LC_SECRET", "HISTFILE", "LD_PRELOAD"):
        monkeypatch.setenv(name, "CANARY")
    monkeypatch.setenv("LC_NUMERIC", "C")

    end = await run(Sandbox(backend=backend, env=("WANTED", "NOT_SET")), "env | sort")

    names = [line.partition("=")[0] for line in end.output.splitlines()]
    assert [name for name in names if name not in ("_", "PWD", "SHLVL", "OLDPWD")] == [
        *("HOME", "LANG", "LC_NUMERIC", "PATH", "TMPDIR", "WANTED"),
    ]
    assert end.output.count("CANARY") == 1


async def test_a_workspace_may_be_read_only(run: Run, backend: Backend, workspace: Path) -> None:
    """A command then reads it, and changes nothing."""
    (workspace / "a.txt").write_text("text")

    end = await run(Sandbox(backend=backend, read_only=True), "cat a.txt; rm -f a.txt; echo > b")

    assert end.output.startswith("text")
    assert os.listdir(workspace) == ["a.txt"]
    assert end.exit_code != 0


@pytest.fixture
def wider(backend: Backend, place: Place) -> Sandbox:
    """A sandbox that reaches one folder more for reading, and another for writing."""
    (place.outside / "in").mkdir()
    (place.outside / "in" / "a.txt").write_text("text")
    (place.outside / "both").mkdir()
    return Sandbox(
        backend=backend,
        readable=(place.outside / "in",),
        writable=(str(place.outside / "both"),),
    )


async def test_more_folders_may_be_given(run: Run, wider: Sandbox, place: Place) -> None:
    """Each is what it is said to be, and what is beside them stays out of reach."""
    out = place.outside
    command = f"cd {out}; cat in/a.txt > both/b.txt; echo > in/c; cat secret.txt; echo; cat both/*"

    end = await run(wider, command)

    assert end.output.endswith("\ntext")
    assert "CANARY" not in end.output
    assert os.listdir(out / "in") == ["a.txt"]
    assert (out / "both" / "b.txt").read_text() == "text"


@pytest.fixture
def online(backend: Backend) -> Sandbox:
    """A sandbox with a network, and this Python."""
    return Sandbox(backend=backend, network=True, readable=(sys.base_prefix,))


async def test_the_network_can_be_allowed(run: Run, online: Sandbox, place: Place) -> None:
    """Then a server on this machine is reached, but no Unix socket outside is."""
    program = f"""
import socket
socket.create_connection(("127.0.0.1", {place.tcp}), 5).sendall(b"hello")
print(socket.getaddrinfo("localhost", 80)[0][4][1])
for where in ("{place.outside}/socket", "\\0{place.abstract}"):
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(where)
        print("reached")
    except OSError:
        print("refused")
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        print("a pair that could send elsewhere")
    except OSError:
        print("refused")
"""
    end = await run(online, f"exec {PYTHON} -I -S -c '{program}'")

    assert end.output == "80\n" + "refused\n" * 4
    assert place.heard()


@pytest.mark.e2e
async def test_how_a_command_is_stopped_is_told(run: Run, backend: Backend) -> None:
    """What it took too much of is said; what it has printed by then is there."""
    limits = SandboxLimits(cpu_seconds=1, processes=20)
    sandbox = Sandbox(backend=backend, limits=limits)

    spun = await run(sandbox, "echo begun; while :; do :; done")
    late = await run(sandbox, "echo begun; sleep 60", seconds=0.5)

    assert (spun.ending, spun.output) == ("exited", "begun\n")
    assert spun.exit_code in (128 + 9, 128 + 24)  # KILL or XCPU
    assert (late.ending, late.exit_code, late.output) == ("timed_out", -1, "begun\n")


@pytest.mark.e2e
async def test_much_output_does_not_fill_this_process(run: Run, walls: Sandbox) -> None:
    """Of 300 MB the head and the tail are kept, while they are read."""
    end = await run(walls, "echo head; head -c 300000000 /dev/zero; echo; echo tail")

    assert end.output.startswith("head\n")
    assert end.output.endswith("\ntail\n")
    assert "300000011 bytes in all" in end.output
    assert len(end.output.encode()) <= 10_000


@pytest.mark.e2e
async def test_a_launcher_that_dies_takes_its_command_along(run: Run, workspace: Path) -> None:
    """bubblewrap ends with the program around it, whatever that dies of."""
    enclosed = Sandbox(backend=available("bubblewrap"))
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        command = tasks.create_task(run(enclosed, "touch begun; sleep 60"))
        while not (workspace / "begun").exists():  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.01)
        os.kill(_launcher_of(workspace), signal.SIGKILL)
        end = await command
        while running(str(workspace)):  # noqa: ASYNC110 as above
            await asyncio.sleep(0.01)

    assert (end.ending, end.reason) == ("stopped", "its launcher was ended")


PROGRAM = """
import asyncio, sys
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox

folder, text = sys.argv[1:]
command = Command(text=text, workspace=folder, folder=folder, seconds=60, max_output=1000)
asyncio.run(Sandbox(backend="landlock").run(command))
"""


@pytest.mark.e2e
async def test_a_program_that_dies_leaves_nothing(workspace: Path, tmp_path: Path) -> None:
    """No process, and no temporary files."""
    text = "touch $TMPDIR/x begun; setsid sleep 60 & sleep 60"
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(workspace), text),
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    async with asyncio.timeout(20):
        while not (workspace / "begun").exists():  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.01)
        program.kill()
        await program.wait()
        while os.listdir(tmp_path) != ["work"]:  # noqa: ASYNC110 as above
            await asyncio.sleep(0.01)

    assert running(str(workspace)) == []


def _launcher_of(workspace: Path) -> int:
    """Return the parent of the bubblewrap that runs a command here."""
    parents = {
        int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
        for pid in running(str(workspace))
    }
    (launcher,) = parents - set(running(str(workspace)))
    return launcher


@pytest.mark.parametrize("where", ["/", "/proc", "/dev"])
async def test_a_workspace_that_is_everything_is_refused(walls: Sandbox, where: str) -> None:
    """No wall would be left around it."""
    end = await walls.run(
        Command(text="true", workspace=where, folder=where, seconds=5, max_output=1000)
    )

    assert end.ending == "not_started"
    assert f"{where!r} is no folder for a sandbox" in end.reason


@pytest.mark.parametrize(
    ("sandbox", "reason"),
    [
        (Sandbox(backend="bubblewrap", bwrap="no-such-program"), "there is no program"),
        (Sandbox(backend="bubblewrap", bwrap="false"), "bubblewrap: not_started"),
        (Sandbox(backend="bubblewrap", bwrap="/etc"), "there is no program '/etc'"),
    ],
)
async def test_a_back_end_that_does_not_work_is_told(
    run: Run, sandbox: Sandbox, reason: str
) -> None:
    """It is started once before it is trusted, and without it nothing runs."""
    end = await run(sandbox, "echo ran")

    assert end.ending == "not_started"
    assert "no sandbox works here (bubblewrap: " in end.reason
    assert reason in end.reason
    assert "ran" not in end.output


async def test_without_bubblewrap_there_is_landlock(run: Run) -> None:
    """By itself it takes the first that works."""
    sandbox = Sandbox(bwrap="no-such-program")

    end = await run(sandbox, "cat /proc/self/status; echo ended")

    assert end.output.endswith("Permission denied\nended\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"backend": "podman"}, "backend='podman'): write one of 'auto', 'bubblewrap'"),
        ({"backend": "docker"}, "image=''): name an image that is on this machine"),
        ({"image": "-v"}, "image='-v'): name an image that is on this machine"),
        ({"env": "HOME"}, "env='HOME'): give a tuple, like ('HOME',)"),
        ({"env": ("A=B",)}, "'A=B' is no name of a variable"),
        ({"env": (1,)}, "1 is no name of a variable"),
        ({"env": None}, "env=None): give a tuple"),
        ({"env": ("HOME",)}, "a command has its own HOME"),
        ({"network": "off"}, "network='off'): give a bool"),
        ({"read_only": 1}, "read_only=1): give a bool"),
        ({"limits": None}, "limits=None): give a SandboxLimits"),
        ({"bwrap": None}, "bwrap=None): give a str"),
        ({"readable": (None,)}, "None is no path"),
        ({"writable": ("a\0b",)}, "'a\\x00b' is no path"),
        ({"readable": "/usr"}, "readable='/usr'): give a tuple"),
        ({"readable": ("/",)}, "readable=...): '/' is no folder for a sandbox"),
        ({"writable": ("/no/such/place",)}, "writable=...): there is no '/no/such/place'"),
    ],
)
def test_options_of_no_use_are_refused(options: dict[str, object], told: str) -> None:
    """The message says which, and what to write."""
    with pytest.raises(ConfigError) as caught:
        Sandbox(**options)  # pyright: ignore[reportArgumentType] on purpose

    assert told in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", True, 2**63])
def test_limits_of_no_use_are_refused(value: object) -> None:
    """A limit is a whole number above 0."""
    with pytest.raises(ConfigError, match="give a whole number above 0"):
        SandboxLimits(memory=value)  # pyright: ignore[reportArgumentType] on purpose


async def test_no_limits_are_no_limits(run: Run, backend: Backend) -> None:
    """None leaves one away."""
    limits = SandboxLimits(
        cpu_seconds=None, memory=None, processes=None, file_size=None, open_files=None
    )

    end = await run(Sandbox(backend=backend, limits=limits), "ulimit -t; ulimit -f; echo ok")

    assert end.output == "unlimited\nunlimited\nok\n"
