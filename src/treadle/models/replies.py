"""Where a cache keeps replies: in memory, or in a folder of files."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

import msgspec

from treadle.errors import ConfigError
from treadle.ports.replies import KeptReply


class MemoryReplies:
    """The replies that were asked for last, at most `size` of them."""

    __slots__ = ("_kept", "_lock", "_size")

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ConfigError(f"Cache(size={size!r}): give a whole number, 1 or more.")
        self._size = size
        self._kept: OrderedDict[str, KeptReply] = OrderedDict()
        self._lock = threading.Lock()

    async def get(self, key: str) -> KeptReply | None:
        """Return what is kept under a key."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    async def put(self, key: str, kept: KeptReply) -> None:
        """Keep a reply, and forget the one that was not asked for the longest."""
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)


class FolderReplies:
    """One file for each reply, readable for its owner only. Processes may share the folder.

    Nothing is deleted: a file that is too old is written anew.
    """

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, key: str) -> KeptReply | None:
        """Return what is kept under a key; a broken file is none."""
        return await asyncio.to_thread(self._read, self._file(key))

    async def put(self, key: str, kept: KeptReply) -> None:
        """Write a file, at once or not at all."""
        await asyncio.to_thread(self._write, self._file(key), msgspec.json.encode(kept))

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    @staticmethod
    def _read(file: Path) -> KeptReply | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=KeptReply)
        except (OSError, msgspec.DecodeError):
            return None

    @staticmethod
    def _write(file: Path, content: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(number, "wb") as part:
                part.write(content)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
