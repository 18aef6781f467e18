"""SQLite files as their tests fill, change and count them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from treadle.journal import MessageAdded
from treadle.messages import Image, Message
from treadle.stores.sqlite import SQLiteStore
from treadle.testing.store_handles import AT, queued

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4000, "image/png")
LOOK = MessageAdded(run_id="r", at=AT, message=Message.user("look", PICTURE))


async def filled(path: Path, *texts: str, name: str = "c") -> SQLiteStore:
    """Return a store with one conversation of these texts."""
    store = SQLiteStore(path)
    await store.create(name)
    for revision, text in enumerate(texts):
        await store.append(name, revision, [queued(text)])
    return store


def changed(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def counted(path: Path, query: str) -> int:
    """Return what a query counts in the file."""
    connection = sqlite3.connect(path)
    (found,) = connection.execute(query).fetchone()
    connection.close()
    return int(found)


def content(path: Path) -> bytes:
    """Return what is in the file."""
    return path.read_bytes()


def write(path: Path, text: str) -> None:
    """Write a file that is no store."""
    path.write_text(text)
