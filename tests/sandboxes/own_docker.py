"""A docker engine for tests: of its own, in namespaces of its own, so that nothing of it stays."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path
from shutil import which

IMAGE = "treadle-box:1"
PYTHON = os.path.realpath(sys.executable)
PROGRAMS = (
    *("cat", "cp", "env", "grep", "head", "id", "ln", "ls", "mkdir", "mv", "rm", "sh", "sleep"),
    *("sort", "tee", "touch", "wc"),
)
MISSING = "there is no docker engine here that root could start; make sandboxes"
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def can_start() -> bool:
    """Return whether an engine can be started here."""
    found = all(map(which, ("dockerd", "docker")))
    return sys.platform == "linux" and os.getuid() == 0 and found


class OwnDocker:
    """An engine with one image, which has a shell, some programs, and what this Python needs."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="treadle-docker-"))
        self.folder.chmod(0o755)
        self.host = f"unix://{self.folder}/socket"
        self._cgroup = f"treadle-docker-{os.getpid()}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            *(*APART, "dockerd", "--iptables=false", "--ip6tables=false", "--host", self.host),
            *("--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")),
            *("--pidfile", str(self.folder / "pid"), "--cgroup-parent", f"/{self._cgroup}"),
            *self._options,
        ]
        for left in ("pid", "exec/containerd/containerd.pid"):  # numbers come again
            (self.folder / left).unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self.tell("version", check=False):
            told = (self.folder / "log").read_text()[-3000:]
            assert self._process.poll() is None, told
            assert time.monotonic() < until, told
            time.sleep(0.1)  # noqa: TID251 another process makes it true

    def make_image(self, *changes: str, name: str = IMAGE) -> None:
        """Make an image of what is on this machine: no other can be had without a network."""
        words = [word for change in changes for word in ("--change", change)]
        self.tell("import", *words, "-", name, given=_files())

    def tell(self, *words: str, check: bool = True, given: bytes = b"") -> str:
        """Return what docker answers, "" when it fails and that is no matter."""
        asked = subprocess.run(
            ["docker", "--host", self.host, *words], input=given, capture_output=True, check=False
        )
        assert not check or not asked.returncode, asked.stderr.decode()
        return "" if asked.returncode else asked.stdout.decode()

    def within(self, *words: str) -> str:
        """Run a program where the engine is: with its file systems and its network."""
        apart = ["nsenter", f"--target={self.pid()}", "--mount", "--net", "--", *words]
        return subprocess.run(apart, capture_output=True, check=True, text=True).stdout

    def containers(self) -> list[str]:
        """Return the names of all containers."""
        return self.tell("ps", "--all", "--format", "{{.Names}}").split()

    def pid(self) -> int:
        """Return the process of the engine, as it is known from outside."""
        assert self._process
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(path.read_text().split()[0])

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, and all that runs on it."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self.pid(), number)
        self._process.wait(60)
        self._process = None

    def close(self) -> None:
        """End it, and remove all that there was."""
        self.kill(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)
        found = sorted(Path("/sys/fs/cgroup").rglob(f"{self._cgroup}*"), reverse=True)
        for path in found:
            for each in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
                each.rmdir()
            path.rmdir()
        assert not self.folder.exists()


def _files() -> bytes:
    """Return an archive of programs with the libraries that they need."""
    modules = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("_ctypes*.so")
    wanted = {os.path.abspath(path) for name in PROGRAMS if (path := which(name))}
    needed = _libraries([*wanted, PYTHON, *map(str, modules)])
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for top in ("/bin", "/lib", "/lib64", "/sbin"):
            if os.path.islink(top):
                tar.add(top, top[1:])
        for path in sorted(wanted | needed):
            folder = os.path.realpath(os.path.dirname(path))
            within = os.path.join(folder, os.path.basename(path))[1:]
            tar.add(os.path.realpath(path), within, recursive=False)
    return archive.getvalue()


def _libraries(paths: list[str]) -> set[str]:
    told = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False).stdout
    return {found for found in re.findall(r"(/\S+) \(0x", told) if os.path.exists(found)}
