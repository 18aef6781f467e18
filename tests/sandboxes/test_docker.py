"""Commands in containers: what they find there, and what is told of their ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sandboxes.attack import Place
from tests.sandboxes.conftest import Run
from tests.sandboxes.own_docker import IMAGE, OwnDocker
from tests.tools.builtin.left import running
from treadle import ConfigError
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox, SandboxLimits

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("docker")]

SOMEBODY = 12345
MB = 1_000_000


@pytest.fixture
def box() -> Sandbox:
    """A sandbox with its defaults."""
    return Sandbox(backend="docker", image=IMAGE)


async def test_a_command_works(run: Run, box: Sandbox, workspace: Path) -> None:
    """It reads, writes, pipes, uses programs, temporary files and its home."""
    (workspace / "in.txt").write_text("b\na\n")
    command = """
set -e
sort in.txt | tee out.txt
mkdir -p deep/er && mv out.txt deep/er/ && rm in.txt && ln -s deep way
echo x > "$TMPDIR/x" && cat < "$TMPDIR/x" && touch "$HOME/y" && cd && ls x y
cat /dev/null; head -c 1 /dev/urandom | wc -c; echo on stderr >&2; exit 3
"""
    end = await run(box, command)

    assert (end.ending, end.exit_code) == ("exited", 3)
    assert end.output == "a\nb\nx\nx\ny\n1\non stderr\n"
    assert (workspace / "way" / "er" / "out.txt").read_text() == "a\nb\n"
    assert 0 < end.seconds < 20


@pytest.mark.parametrize("owner", [SOMEBODY, 0])
async def test_a_command_is_who_has_the_workspace(
    run: Run, box: Sandbox, workspace: Path, owner: int
) -> None:
    """So that whoever that is can go on with what it made; it has no rights beyond."""
    os.chown(workspace, owner, owner)

    end = await run(box, "id -u; id -g; touch made; cat /proc/self/status")

    lines = end.output.splitlines()
    assert lines[:2] == [str(owner)] * 2
    status = dict(line.split(":\t", 1) for line in lines[2:])
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "0" * 16
    }
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert (workspace / "made").stat().st_uid == owner


async def test_outputs_keep_their_order(run: Run, box: Sandbox) -> None:
    """Both streams are one."""
    end = await run(box, "for n in 1 2 3 4 5; do echo $n; echo -$n >&2; done")

    assert end.output.split() == ["1", "-1", "2", "-2", "3", "-3", "4", "-4", "5", "-5"]


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        ("exit 125", 125, ""),
        ("exit 126", 126, ""),
        ("no-such-program", 127, "1: no-such-program: not found\n"),
        ("kill -9 $$", 137, ""),
        ("kill -15 $$", 143, ""),
        ("-n", 127, "1: -n: not found\n"),
    ],
)
async def test_exit_codes_are_the_commands(
    run: Run, box: Sandbox, text: str, code: int, output: str
) -> None:
    """Those that docker has for its own troubles, too."""
    end = await run(box, text)

    assert (end.ending, end.exit_code) == ("exited", code)
    assert end.output.endswith(output)


async def test_of_the_environment_what_is_named_is_passed(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The language comes along, with values of many lines; nothing of docker's settings does."""
    for name in [name for name in os.environ if name in ("LANG", "TZ") or name.startswith("LC_")]:
        monkeypatch.delenv(name)
    for name in ("OTHER", "OPENAI_API_KEY", "LC_SECRET", "HTTP_PROXY"):
        monkeypatch.setenv(name, "CANARY")
    (tmp_path / "config.json").write_text(
        '{"proxies": {"default": {"httpProxy": "http://user:CANARY@127.0.0.1:9"}}}'
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("LC_NUMERIC", "C")
    monkeypatch.setenv("WANTED", 'one\ntwo, "three" $four')
    box = Sandbox(backend="docker", image=IMAGE, env=("WANTED", "NOT_SET"))

    end = await run(box, "env -0 | sort -z")

    found = dict(each.split("=", 1) for each in end.output.strip("\0").split("\0"))
    assert sorted(set(found) - {"_", "PWD", "SHLVL", "OLDPWD"}) == [
        *("HOME", "HOSTNAME", "LANG", "LC_NUMERIC", "PATH", "TMPDIR", "WANTED"),
    ]
    assert found["WANTED"] == 'one\ntwo, "three" $four'
    assert "CANARY" not in end.output


async def test_any_path_can_be_a_workspace(box: Sandbox, tmp_path: Path) -> None:
    """Commas, colons, quotes, spaces and new lines are in names, too."""
    folder = tmp_path / "a,b:c=d \"e\" 'f'\ng ,readonly"
    below = folder / "-in"
    below.mkdir(parents=True)
    command = Command(
        text="pwd; echo x > made",
        workspace=str(folder),
        folder=str(below),
        seconds=20,
        max_output=1000,
    )
    end = await box.run(command)

    assert end.output == f"{below}\n"
    assert (below / "made").read_text() == "x\n"


async def test_a_workspace_may_be_read_only(run: Run, workspace: Path, docker: OwnDocker) -> None:
    """With what is mounted in it."""
    (workspace / "a.txt").write_text("text")
    box = Sandbox(backend="docker", image=IMAGE, read_only=True)
    with mounted(docker, workspace / "disk"):
        end = await run(box, "cat a.txt; cat disk/b.txt; rm -f a.txt; echo > b; echo > disk/c")

        assert end.output.startswith("textmounted")
        assert sorted(os.listdir(workspace)) == ["a.txt", "disk"]
        assert docker.within("ls", str(workspace / "disk")) == "b.txt\n"
        assert end.exit_code != 0


@contextmanager
def mounted(docker: OwnDocker, folder: Path) -> Generator[None]:
    """Another file system in a folder, as this machine and the engine see it."""
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "none", str(folder))
    subprocess.run(mount, check=True)
    try:
        docker.within(*mount)
        docker.within("sh", "-c", 'echo -n mounted > "$1"', "sh", str(folder / "b.txt"))
        yield
        docker.within("umount", str(folder))
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


@pytest.fixture
def wider(place: Place) -> Sandbox:
    """A sandbox that reaches one folder more for reading, and another for writing."""
    (place.outside / "in").mkdir()
    (place.outside / "in" / "a.txt").write_text("text")
    (place.outside / "both").mkdir()
    return Sandbox(
        backend="docker",
        image=IMAGE,
        readable=(place.outside / "in", place.outside / "in" / "a.txt"),
        writable=(str(place.outside / "both"), place.outside / "both"),
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


async def test_a_folder_that_became_a_link_is_not_given(
    run: Run, wider: Sandbox, place: Place
) -> None:
    """The engine would follow it with the rights of root."""
    (place.outside / "both").rmdir()
    (place.outside / "both").symlink_to("/etc")

    end = await run(wider, "echo ran")

    assert end.ending == "not_started"
    assert "/both' was a file or folder, and is a link now" in end.reason


async def test_limits_are_limits(run: Run) -> None:
    """Each as it is written, or none."""
    limits = SandboxLimits(
        cpu_seconds=7, memory=64 * MB, processes=9, file_size=11 * MB, open_files=64, tmp_size=MB
    )
    none = SandboxLimits(
        cpu_seconds=None, memory=None, processes=None, file_size=None, open_files=None
    )
    text = "ulimit -t; ulimit -f; ulimit -n; ulimit -c"

    bound = await run(Sandbox(backend="docker", image=IMAGE, limits=limits), text)
    free = await run(Sandbox(backend="docker", image=IMAGE, limits=none), text)

    assert bound.output == f"7\n{11 * MB // 512}\n64\n0\n"
    assert free.output.split()[:2] == ["unlimited"] * 2


async def test_how_a_command_is_stopped_is_told(run: Run, box: Sandbox) -> None:
    """What it took too much of is said; what it has printed by then is there."""
    limits = SandboxLimits(cpu_seconds=1, memory=50 * MB)
    small = Sandbox(backend="docker", image=IMAGE, limits=limits)

    spun = await run(small, "echo begun; while :; do :; done")
    large = await run(small, "echo begun; exec sort /dev/zero")
    late = await run(box, "trap 'echo ending; exit 0' TERM; echo begun; sleep 60 & wait", seconds=2)

    assert (spun.ending, spun.output) == ("exited", "begun\n")
    assert spun.exit_code in (128 + 9, 128 + 24)  # KILL or XCPU
    assert (large.ending, large.output) == ("stopped", "begun\n")
    assert large.reason == "it held more than 50000000 bytes of memory"
    assert (late.ending, late.exit_code, late.output) == ("timed_out", -1, "begun\nending\n")


async def test_orphans_are_collected(run: Run, box: Sandbox) -> None:
    """The first process of a container does that."""
    end = await run(
        box,
        "sh -c 'for n in 1 2 3; do sleep 0.1 & done'; sleep 0.5; cat /proc/[0-9]*/stat",
    )

    assert len([line for line in end.output.splitlines() if ") Z " in line]) == 0
    assert end.output.startswith("1 (docker-init)")


async def test_much_output_does_not_fill_this_process(run: Run, box: Sandbox) -> None:
    """The head and the tail are kept, while it is read; the engine keeps none of it."""
    end = await run(box, "echo head; head -c 50000000 /dev/zero; echo; echo tail", seconds=60)

    assert end.output.startswith("head\n")
    assert end.output.endswith("\ntail\n")
    assert "50000011 bytes in all" in end.output
    assert len(end.output.encode()) <= 10_000


async def test_a_cancelled_command_leaves_nothing(
    run: Run, box: Sandbox, workspace: Path, docker: OwnDocker
) -> None:
    """Whenever that comes: while the container is made, starts or runs."""
    for seconds in (0.02, 0.1, 0.2, 0.3, 0.5, 0.7, 1.5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await run(box, "setsid sleep 60 & sleep 60")

        assert docker.containers() == []
        assert running(str(workspace)) == []


async def test_many_at_once(run: Run, box: Sandbox) -> None:
    """Each has a container of its own."""
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        ends = [tasks.create_task(run(box, f"sleep 0.2; echo {n}", seconds=60)) for n in range(8)]

    assert [end.result().output for end in ends] == [f"{n}\n" for n in range(8)]


async def test_volumes_of_an_image_are_in_memory(run: Run, docker: OwnDocker) -> None:
    """Else a command could fill the disk with one, and it would stay."""
    docker.make_image(
        'VOLUME ["/data", "/more"]', "ENV FROM=image", 'ENTRYPOINT ["/bin/false"]', name="vols:1"
    )
    box = Sandbox(backend="docker", image="vols:1", limits=SandboxLimits(tmp_size=MB))

    end = await run(box, "echo $FROM; cp /dev/zero /data/x; grep ' /data ' /proc/mounts; ls /more")

    assert end.output.startswith("image\ncp: error writing '/data/x': No space left on device\n")
    assert docker.tell("volume", "ls", "--quiet") == ""


async def test_auto_takes_docker_last(run: Run) -> None:
    """With bubblewrap and Landlock here, it is one of those."""
    box = Sandbox(image=IMAGE)

    end = await run(box, "cat /proc/1/comm")

    assert "docker-init" not in end.output


def test_the_back_end_is_told(box: Sandbox) -> None:
    """After a command really ran there."""
    assert box.check() == "docker"


def test_an_image_that_is_not_here_is_not_fetched(docker: OwnDocker) -> None:
    """What to do is told."""
    with pytest.raises(ConfigError, match=r"[Nn]o such image: none:1; fetch .* pull none:1"):
        Sandbox(backend="docker", image="none:1").check()


def test_an_image_without_a_shell_is_told(docker: OwnDocker) -> None:
    """It could run no command."""
    archive = subprocess.run(
        ["tar", "-c", "-C", "/etc", "hostname"], capture_output=True, check=True
    ).stdout
    docker.tell("import", "-", "bare:1", given=archive)

    with pytest.raises(ConfigError, match=r"docker: .*exec /bin/sh failed: No such file"):
        Sandbox(backend="docker", image="bare:1").check()
