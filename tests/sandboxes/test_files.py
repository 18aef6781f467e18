"""What developers do with files: modes, times, programs that they make and run."""

from __future__ import annotations

import sys
from shutil import which

import pytest

from tests.sandboxes.conftest import PYTHON, Run
from treadle.sandboxes import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux")

MODES = """
import os, stat
os.mkdir("d")
for name in ("a", "d/b"):
    open(name, "w").close()
os.symlink("d/b", "way")
folder = os.open("d", os.O_RDONLY)
os.chmod("a", 0o755)
os.chmod(os.path.abspath("a"), 0o710)
os.chmod("b", 0o600, dir_fd=folder)
os.chmod("way", 0o640)
os.chmod(os.open("d/b", os.O_RDWR), 0o444)
os.chmod("d", 0o1750)
os.utime("a", (5, 7))
os.utime("way", (8, 9))
os.utime("way", (1, 2), follow_symlinks=False)
os.chown("a", os.getuid(), -1)
for name in ("a", "d/b", "d"):
    print(name, oct(stat.S_IMODE(os.stat(name).st_mode)), end=" ")
print(os.stat("a").st_mtime, os.stat("d/b").st_mtime, os.lstat("way").st_mtime)
for change in (
    lambda: os.chmod("missing", 0o600),
    lambda: os.chmod("a/b", 0o600),
    lambda: os.chmod("", 0o600),
    lambda: os.chmod("x" * 5000, 0o600),
    lambda: os.chmod("b", 0o600, dir_fd=99),
):
    try:
        change()
    except OSError as error:
        print(error.errno, end=" ")
"""


async def test_modes_and_times_can_be_changed(run: Run, this_python: Sandbox) -> None:
    """By all the ways there are, with the errors that there are."""
    end = await run(this_python, f"exec {PYTHON} -I -S -c '{MODES}'")

    assert end.output == "a 0o710 d/b 0o444 d 0o1750 7.0 9.0 2.0\n2 20 2 36 9 "


async def test_no_program_of_somebody_else_is_made(run: Run, this_python: Sandbox) -> None:
    """A file that runs as its owner would be one for other users of the machine."""
    program = """
import os, stat
for mode in (0o4755, 0o2755):
    for make in (
        lambda: os.chmod("a", mode),
        lambda: os.fchmod(os.open("a", os.O_RDWR | os.O_CREAT), mode),
        lambda: os.open(f"new{mode}", os.O_RDWR | os.O_CREAT, mode),
        lambda: os.mknod(f"node{mode}", stat.S_IFREG | mode),
    ):
        try:
            make()
        except OSError as error:
            print(error.errno, end=" ")
"""
    end = await run(this_python, f"touch a; exec {PYTHON} -I -S -c '{program}'")

    assert end.output == "1 1 1 1 1 1 1 1 "


@pytest.mark.parametrize(
    "command",
    [
        "printf 'int main(){return 7;}' > a.c && cc a.c -o a; ./a; test $? = 7",
        "git init -q && touch a && git add a && git -c user.name=a -c user.email=b commit -qm c",
        "mkdir d && touch d/x && tar cf t d && rm -r d && tar xf t && test -e d/x",
        "touch a && cp -p a b && install -m 755 a c && test -x c",
        "printf 'all:\\n\\ttouch x\\n' > Makefile && make -sj2 && test -e x",
    ],
    ids=["compile", "git", "tar", "copy", "make"],
)
async def test_tools_of_developers_work(run: Run, walls: Sandbox, command: str) -> None:
    """Where they are installed; they need more of a system than one would think."""
    missing = next((name for name in ("cc", "git", "tar", "make") if which(name) is None), None)
    if missing is not None:
        pytest.skip(f"there is no {missing} here")

    end = await run(walls, command, seconds=60)

    assert end.exit_code == 0, end.output
