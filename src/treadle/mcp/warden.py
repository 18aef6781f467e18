"""What ends a server that does not end by itself when this process was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from typing import Self

PROGRAM = """
read -r _
sleep "$1"; kill -s TERM -- "-$2"
sleep "$1"; kill -s KILL -- "-$2"
"""


class Warden(asyncio.SubprocessProtocol):
    """A shell that waits for the end of this process, and then for that of a group of others.

    It hears of the first by its input, which ends with this process however that is ended. The
    input of the group has ended then, too.
    """

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def start(cls, group: int, seconds: float) -> Self:
        """Watch over a group: it has so many seconds to end, and again after it was asked to.

        Where there is no shell, nobody watches.
        """
        warden = cls()
        with suppress(OSError):
            await asyncio.get_running_loop().subprocess_exec(
                lambda: warden,
                *("/bin/sh", "-c", PROGRAM, "sh", str(seconds), str(group)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        return warden

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the shell."""
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport

    def process_exited(self) -> None:
        """Note that it has ended."""
        self._ended.set()

    def release(self) -> None:
        """The group has ended: there is nothing to wait for. From any thread."""
        if self._transport is not None and not self._ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self._transport.get_pid(), signal.SIGKILL)

    async def close(self) -> None:
        """Wait until the shell is gone."""
        self.release()
        if self._transport is not None:
            try:
                await self._ended.wait()
            finally:
                self._transport.close()
