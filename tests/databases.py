"""PostgreSQL, MariaDB and Redis of our own: private, on this machine, gone with the process.

Each server is a process of an installed binary in a folder under /tmp, on a free port of
127.0.0.1. `TREADLE_TEST_STORES=url,url` names servers to use instead.
"""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, NoReturn
from urllib.parse import urlsplit

import pytest

from tests.servers import free_port

Kind = Literal["postgresql", "mysql", "redis"]
KINDS: tuple[Kind, ...] = ("postgresql", "mysql", "redis")

PASSWORD = "s3cret-pass"  # noqa: S105 of servers that live for seconds
LONGEST_START = 60.0

PACKAGES = {"postgresql": "postgresql", "mysql": "mariadb-server", "redis": "redis-server"}
OWNERS = {"postgresql": "postgres", "mysql": "mysql", "redis": "redis"}
FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")


class Missing(Exception):
    """A server cannot be started here; the text says how to get it."""


@dataclass(kw_only=True)
class Server:
    """One server: where it listens, and how it is started, asked, killed and stopped."""

    kind: Kind
    folder: Path
    port: int
    url: str
    command: list[str]
    asks: list[str]
    says: bytes = b""
    prepare: Callable[[], None] = lambda: None
    stops_at: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Start it, and return when it really answers."""
        until = time.monotonic() + LONGEST_START
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                self.process = self._launch()
            if self.answers():
                return
            time.sleep(0.02)  # noqa: TID251 nothing tells when a server is ready
        self.stop()
        raise AssertionError(f"{self.kind} does not answer: {self.log()}")

    def answers(self) -> bool:
        """Whether it serves clients; an open port is not enough."""
        asked = subprocess.run(self.asks, capture_output=True, check=False)
        return asked.returncode == 0 and self.says in asked.stdout

    def kill(self) -> None:
        """End it as a power cut ends a process: nothing is written any more."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in peace."""
        self._end(self.stops_at)

    def log(self) -> str:
        """Return the end of what it said."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _launch(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=_surroundings(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


@contextmanager
def running(kind: Kind, *, durable: bool = False) -> Generator[Server]:
    """Start a server of its own for the block; `durable` ones lose nothing that they confirmed.

    Raises:
        Missing: it is not installed.
    """
    builders = {"postgresql": _postgresql, "mysql": _mysql, "redis": _redis}
    folder = Path(tempfile.mkdtemp(prefix=f"treadle-{kind}-"))
    server: Server | None = None
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, OWNERS[kind])
        server = builders[kind](folder, free_port(), durable)
        server.start()
        server.prepare()
        yield server
    except LookupError as error:
        raise Missing(f"{PACKAGES[kind]} is not installed ({error})") from error
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@lru_cache
def shared_url(kind: Kind) -> str:
    """Return the URL of the one server of this kind that this process uses.

    Raises:
        Missing: it is not installed, and TREADLE_TEST_STORES names none.
    """
    named = os.environ.get("TREADLE_TEST_STORES")
    if named is not None:
        for url in named.split(","):
            if urlsplit(url.strip()).scheme.partition("+")[0] == kind:
                return url.strip()
        raise Missing(f"TREADLE_TEST_STORES names no {kind} server")
    return _servers().enter_context(running(kind)).url


def absent(why: str) -> NoReturn:
    """Skip a test whose server is not installed; fail it where all have to be (in CI)."""
    if os.environ.get("TREADLE_NEED_STORES"):
        pytest.fail(why)
    pytest.skip(why)


def url_of(kind: Kind) -> str:
    """Return the URL of the server of this kind, or skip the test and say how to get one."""
    try:
        return shared_url(kind)
    except Missing as error:
        absent(f"{error}; `make databases` or: apt-get install {PACKAGES[kind]}")


def started(kind: Kind, stack: ExitStack) -> Server:
    """Start a durable server for one test that will kill it, or skip the test."""
    try:
        return stack.enter_context(running(kind, durable=True))
    except Missing as error:
        absent(f"{error}; `make databases` or: apt-get install {PACKAGES[kind]}")


@lru_cache
def _servers() -> ExitStack:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack


def _postgresql(folder: Path, port: int, durable: bool) -> Server:
    program = _program("postgres")
    (folder / "password").write_text(PASSWORD)
    made = [_program("initdb"), "-D", f"{folder}/held", "-U", "treadle", "--auth=trust"]
    made += ["--no-sync", "-E", "UTF8", "--locale=C"]
    _run(_dropped("postgresql", made), folder)
    rules = "local all all trust\nhost all guarded 127.0.0.1/32 scram-sha-256\n"
    (folder / "held/pg_hba.conf").write_text(f"{rules}host all all 127.0.0.1/32 trust\n")
    fast = [] if durable else ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
    options = [f"port={port}", "listen_addresses=127.0.0.1", "max_connections=200", *fast]
    command = [program, "-D", f"{folder}/held", "-k", str(folder)]
    command += [word for option in options for word in ("-c", option)]
    where = ["-h", "127.0.0.1", "-p", str(port)]

    def prepare() -> None:
        made = f"create role guarded login password '{PASSWORD}'"
        _run([_program("psql"), *where, "-U", "treadle", "-d", "postgres", "-qc", made], folder)

    return Server(
        kind="postgresql",
        folder=folder,
        port=port,
        url=f"postgresql://treadle@127.0.0.1:{port}/postgres",
        command=_dropped("postgresql", command, stops_at="INT"),
        asks=[_program("pg_isready"), "-q", *where],
        prepare=prepare,
        stops_at=signal.SIGINT,  # it would wait for its clients otherwise
    )


def _mysql(folder: Path, port: int, durable: bool) -> Server:
    program = _program("mariadbd")
    made = [_program("mariadb-install-db"), "--no-defaults", f"--datadir={folder}/held"]
    made += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    _run(_dropped("mysql", made), folder)
    command = [program, "--no-defaults", f"--datadir={folder}/held", f"--port={port}"]
    command += [f"--socket={folder}/socket", f"--pid-file={folder}/pid", "--skip-name-resolve"]
    command += ["--bind-address=127.0.0.1", "--performance-schema=OFF", "--max-connections=200"]
    command += [f"--innodb-flush-log-at-trx-commit={int(durable)}"]
    where = ["--no-defaults", "-h", "127.0.0.1", "-P", str(port), "-u", "root"]

    def prepare() -> None:
        user = f"'treadle'@'127.0.0.1' identified by '{PASSWORD}'"
        made = f"create database treadle; create user {user}; grant all on *.* to {user}"
        _run([_program("mariadb"), *where, "-e", made], folder)

    return Server(
        kind="mysql",
        folder=folder,
        port=port,
        url=f"mysql://treadle:{PASSWORD}@127.0.0.1:{port}/treadle",
        command=_dropped("mysql", command),
        asks=[_program("mariadb-admin"), *where, "ping"],
        says=b"is alive",
        prepare=prepare,
    )


def _redis(folder: Path, port: int, durable: bool) -> Server:
    command = [_program("redis-server"), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(folder), "--save", "", "--requirepass", PASSWORD]
    command += ["--appendonly", "yes", "--appendfsync", "always" if durable else "no"]
    return Server(
        kind="redis",
        folder=folder,
        port=port,
        url=f"redis://:{PASSWORD}@127.0.0.1:{port}/0",
        command=_dropped("redis", command),
        asks=[_program("redis-cli"), "--no-auth-warning", "-a", PASSWORD, "-p", str(port), "ping"],
        says=b"PONG",
    )


def _program(name: str) -> str:
    """Return the path of a program, also where it is not on the PATH.

    Raises:
        LookupError: there is none.
    """
    folders = [folder for each in FOLDERS for folder in sorted(glob.glob(each), reverse=True)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    found = shutil.which(name, path=path)
    if found is None:
        raise LookupError(f"there is no {name}")
    return found


def _dropped(kind: Kind, command: list[str], *, stops_at: str = "TERM") -> list[str]:
    """Return the command without the rights of root, and ended with this process.

    More exactly, with the thread that starts it: servers that are shared start in the main one.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return command
    dropped = [setpriv, "--pdeathsig", stops_at]
    if os.geteuid() == 0:
        owner = OWNERS[kind]
        dropped += [f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--inh-caps=-all"]
    return [*dropped, *command]


def _surroundings(folder: Path) -> dict[str, str]:
    """Return the variables of a server; MariaDB clears TMPDIR of other servers' tables."""
    return {**os.environ, "TMPDIR": str(folder)}


def _run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(
        command, cwd=folder, env=_surroundings(folder), capture_output=True, check=False
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode(errors="replace")
