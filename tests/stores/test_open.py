"""From a URL to a store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from treadle import ConfigError, MemoryStore
from treadle.errors import MissingExtra
from treadle.stores.file import FileStore
from treadle.stores.open import open_store
from treadle.stores.sqlite import SQLiteStore


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MemoryStore),
        ("memory://", MemoryStore),
        ("file:{}", FileStore),
        ("FILE:{}", FileStore),
        ("sqlite:///{}/chat.db", SQLiteStore),
        ("sqlite:///:memory:", SQLiteStore),
    ],
)
def test_a_url_names_a_store(url: str, kind: type[object], tmp_path: Path) -> None:
    """Nothing is made before it is used."""
    assert type(open_store(url.format(tmp_path / "x"))) is kind
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["nope:x", "chat.db", "", ":", "secret@host:x", "x" * 500])
def test_what_names_no_store_is_refused(url: str) -> None:
    """The error lists what there is."""
    with pytest.raises(ConfigError, match='write one of "file:…", "memory:…"') as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_memory_store_takes_nothing() -> None:
    """There is nothing to say about it."""
    with pytest.raises(ConfigError, match='"memory:"'):
        open_store("memory:chat")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; no secret of the URL is told."""
    monkeypatch.delitem(sys.modules, "treadle.stores.sqlite")
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(MissingExtra, match=r'"sqlite:" needs .*sqlite3') as caught:
        open_store("sqlite://me:secret@host/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("postgres://me:secret@host/x", "postgres"),
        ("mariadb://me:secret@host/x", "mysql"),
        ("rediss://me:secret@host/0", "redis"),
    ],
)
def test_a_missing_extra_is_named(url: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other names of a scheme are understood."""
    for name in [each for each in sys.modules if each.startswith("treadle.stores.")]:
        if name.rpartition(".")[2].split("_")[0] in ("postgres", "mysql", "redis", "sql"):
            monkeypatch.delitem(sys.modules, name)
    for package in ("sqlalchemy", "redis"):
        for name in [each for each in sys.modules if each.startswith(f"{package}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf'pip install "treadle\[{extra}\]"') as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
