"""The process of a server: started in a group of its own, listened to, and always ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.errors import MCPFailed
from treadle.mcp.lines import Lines, TooLong, messages_in
from treadle.mcp.warden import Warden
from treadle.values.logs import logger
from treadle.values.secret import masked, names_a_secret

log = logger(__name__)

ALWAYS_PASSED = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP"),
    *("USERPROFILE",),
)
"""The variables that every server gets; others hold keys too often."""
KEPT_BYTES = 32_768
SHOWN_LINES = 12
MOST_LOGGED = 1_000
MOST_WAITING = 8 * 1024 * 1024
GRACE = 2.0
"""Seconds that a server has to end by itself, and again after it was asked to."""
KILLED = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a server's process is started. `env` is all of its environment."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None

    @property
    def secrets(self) -> set[str]:
        """The values in its environment that must not be shown."""
        return {value for name, value in self.env.items() if names_a_secret(name) and value}


def environment(env: Mapping[str, str] | None, inherit: bool | tuple[str, ...]) -> dict[str, str]:
    """Return a server's environment: a few variables of ours, those it inherits, and its own."""
    if inherit is True:
        passed = dict(os.environ)
    else:
        names = (*ALWAYS_PASSED, *(inherit or ()))
        passed = {name: os.environ[name] for name in names if name in os.environ}
    return {**passed, **(env or {})}


class Child(asyncio.SubprocessProtocol):
    """A running server. `gone` is set when it has ended, `exit_code` says how.

    What it writes to its standard error is kept to the last 32 KiB, for errors and the log.
    """

    def __init__(self, launch: Launch, server: str) -> None:
        self._launch = launch
        self._server = server
        self._lines = Lines()
        self._messages: deque[bytes] = deque()
        self._waiting = 0
        self._paused = False
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._said = bytearray()
        self._logged = 0
        self._warned = False
        self._open = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None
        self._owner = os.getpid()
        self._warden: Warden | None = None
        self.pid = 0
        self.exit_code: int | None = None
        self.exited = asyncio.Event()
        self.gone = asyncio.Event()
        self.trouble = ""

    @classmethod
    async def start(cls, launch: Launch, server: str) -> Child:
        """Start the process.

        Raises:
            MCPFailed: there is no such command or folder, or it may not run.
        """
        child = cls(launch, server)
        loop = asyncio.get_running_loop()
        try:
            await loop.subprocess_exec(
                lambda: child,
                *(launch.command, *launch.args),
                env=dict(launch.env),
                cwd=launch.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise MCPFailed(_not_started(launch, server, error), server=server) from error
        try:
            child._warden = await Warden.start(child.pid, GRACE)
        except asyncio.CancelledError:
            await child.stop()
            raise
        return child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the process."""
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport, self.pid = transport, transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what the server wrote."""
        if fd == 2:
            self._hear(data)
            return
        try:
            for line in self._lines.feed(data):
                self._take(line)
        except TooLong as error:
            self.trouble = f"wrote {error}"
            self.kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 as asyncio calls it
        """A pipe has ended; the last line may lack its end."""
        if fd == 1:
            self._take(self._lines.rest())
            self._lines = Lines()
        self._open.discard(fd)
        if fd == 0:
            self._may_write.set()
        self._look()

    def process_exited(self) -> None:
        """Take what it left behind in its group along, too."""
        if self._transport is not None:
            self.exit_code = self._transport.get_returncode()
        self._signal(signal.SIGKILL)
        self._release()
        self.exited.set()
        self._look()
        # Somebody who left the group may hold the pipes open for ever.
        asyncio.get_running_loop().call_later(0.2, self._end)

    def pause_writing(self) -> None:
        """The pipe to the server is full."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The pipe to the server has room again."""
        self._may_write.set()

    async def receive(self) -> bytes | None:
        """Return the next message of the server, None when there will be no more."""
        while not self._messages:
            if self.gone.is_set() or 1 not in self._open:
                return None
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._waiting -= len(message)
        if self._paused and self._waiting < MOST_WAITING // 2:
            self._listen(again=True)
        return message

    async def send(self, message: bytes) -> None:
        """Write a message.

        Raises:
            BrokenPipeError: the server does not listen any more.
        """
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing():
            raise BrokenPipeError
        pipe.write(message + b"\n")
        await self._may_write.wait()

    def last_words(self) -> str:
        """Return the last lines on its standard error, without secrets."""
        text = self._said.decode(errors="replace")
        lines = [line[:500] for line in text.splitlines() if line.strip()][-SHOWN_LINES:]
        return masked("\n".join(lines), self._launch.secrets)

    async def stop(self) -> None:
        """End the process and its group: ask, insist, kill. When cancelled, kill at once."""
        try:
            pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
            if pipe is not None:
                pipe.close()
            if not await self._exits(GRACE):
                self._signal(signal.SIGTERM)
                await self._exits(GRACE)
        finally:
            self.kill()
            try:
                await asyncio.shield(self._exits(KILLED))
            finally:
                self._end()
                if self._transport is not None:
                    self._transport.close()
                if self._warden is not None:
                    await self._warden.close()

    def kill(self) -> None:
        """Kill the process and its group, at once, from any thread."""
        if not self.exited.is_set():
            self._signal(signal.SIGKILL)
        self._release()

    async def _exits(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def _signal(self, number: int) -> None:
        """Send the group a signal; from a process that was forked from ours none."""
        if not self.pid or os.getpid() != self._owner:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _release(self) -> None:
        if self._warden is not None and os.getpid() == self._owner:
            self._warden.release()

    def _take(self, line: bytes) -> None:
        messages, noise = messages_in(line)
        if noise and not self._warned:
            self._warned = True
            sample = masked(noise[:80].decode(errors="replace"), self._launch.secrets)
            log.warning(
                "MCP server %r prints to its standard output, which is for messages only; "
                "such lines are skipped: %r",
                self._server,
                sample,
            )
        self._messages.extend(messages)
        self._waiting += sum(map(len, messages))
        if self._waiting > MOST_WAITING:
            self._listen(again=False)
        if messages:
            self._news.set()

    def _hear(self, data: bytes) -> None:
        self._said += data[-KEPT_BYTES:]
        if len(self._said) > KEPT_BYTES:  # and what is left of a line may be half a secret
            del self._said[: self._said.find(b"\n", len(self._said) - KEPT_BYTES) + 1 or None]
        if self._logged >= MOST_LOGGED or not log.isEnabledFor(logging.DEBUG):
            return
        for line in data.decode(errors="replace").splitlines()[: MOST_LOGGED - self._logged]:
            log.debug("MCP server %r: %s", self._server, masked(line[:500], self._launch.secrets))
            self._logged += 1

    def _listen(self, *, again: bool) -> None:
        """Stop reading what nobody takes, or go on."""
        pipe = self._transport.get_pipe_transport(1) if self._transport is not None else None
        if isinstance(pipe, asyncio.ReadTransport) and 1 in self._open:
            self._paused = not again
            pipe.resume_reading() if again else pipe.pause_reading()

    def _look(self) -> None:
        if self.exited.is_set() and not self._open:
            self._end()
        self._news.set()

    def _end(self) -> None:
        self.gone.set()
        self._may_write.set()
        self._news.set()


def _not_started(launch: Launch, server: str, error: Exception) -> str:
    start = f"MCP server {server!r} cannot be started"
    if isinstance(error, FileNotFoundError):
        if launch.cwd is not None and error.filename == launch.cwd:
            return f"{start}: there is no folder {launch.cwd!r} to run it in."
        return f"{start}: there is no command {launch.command!r} on the PATH that it is given."
    reason = getattr(error, "strerror", None) or str(error)
    return f"{start}: {launch.command!r}: {reason}."
