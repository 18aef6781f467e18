"""Stores of every format that a version of this package has written, in tests/stores/formats."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.scenarios import formats
from tests.scenarios.stores import url_in
from treadle import (
    Agent,
    Approve,
    Conversation,
    NewerJournal,
    StoreError,
    open_store,
)
from treadle.testing import ScriptedModel
from treadle.values import is_array, is_object

VERSIONS = sorted(path.name for path in formats.FORMATS.iterdir() if path.is_dir())
every_format = pytest.mark.parametrize("version", VERSIONS)
each_kind = pytest.mark.parametrize("kind", ["file", "sqlite"])


def copied(version: str, folder: Path) -> None:
    """Copy the stores of a version into a folder."""
    shutil.copytree(formats.FORMATS / version, folder, dirs_exist_ok=True)
    with suppress(OSError):
        (folder / "kept" / "temp").rmdir()  # git keeps no empty folders


def bytes_in(folder: Path) -> dict[str, bytes]:
    """Everything that is on disk."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@every_format
@each_kind
async def test_read_for_ever(version: str, kind: str, tmp_path: Path) -> None:
    """BS-42, J11: it tells what it told the version that wrote it, entry by entry."""
    copied(version, tmp_path)
    store = open_store(url_in(kind, tmp_path))
    told = await formats.told(store)
    await store.close()

    holds(told, json.loads((tmp_path / f"{kind}.json").read_text(encoding="utf-8")), kind)
    for name in formats.CONVERSATIONS:
        assert told[name]["head"]["revision"] > 1


def holds(now: Any, before: Any, place: str) -> None:
    """Check that all of what was told is told now; newer versions may tell more of a thing."""
    if is_object(before):
        for name, value in before.items():
            assert name in now, place
            holds(now[name], value, f"{place}.{name}")
    elif is_array(before):
        assert len(now) == len(before), place
        for number, value in enumerate(before):
            holds(now[number], value, f"{place}[{number}]")
    else:
        assert now == before, place


@every_format
@each_kind
async def test_gone_on_with(version: str, kind: str, tmp_path: Path) -> None:
    """BS-42, J11: what waits is decided, what died goes on, and more is appended."""
    copied(version, tmp_path)
    store = open_store(url_in(kind, tmp_path))
    paid = await formats.agent("thanks").resume("paused", store=store, decisions={"2": Approve()})
    noted = await formats.agent("fine").resume("dead", store=store)
    steered = await formats.agent("ok").run("go", conversation=formats.WAITING, store=store)
    again = await formats.agent("never").resume("answered", store=store)
    branch = await (await Conversation.open(formats.TALK, store=store)).fork("answered")
    forked = await formats.agent("other").run("on", conversation=branch.id, store=store)
    await store.close()

    assert [r.text for r in paid.messages[-2].tool_results] == ["paid 5", "noted x"]
    assert (noted.output, noted.messages[-2].tool_results[0].text) == ("fine", "noted y")
    assert [m.text for m in steered.messages] == ["new", "later", "go", "ok"]
    assert steered.messages[1].parts[1] == formats.PICTURE
    assert again.output == "done \U0001f6fc"
    assert forked.messages[2].tool_results[0].parts[1] == formats.PICTURE
    seen = forked.state.get("agent::keeper::seen")
    assert seen["t"] == (1, formats.Color.RED)
    check_answered(forked.messages)


@each_kind
async def test_newer_than_this_version(kind: str, tmp_path: Path) -> None:
    """BS-42, J11: one version on, it is refused in clear words, and not a byte is changed."""
    copied(VERSIONS[-1], tmp_path)
    if kind == "file":
        (tmp_path / "kept" / "format").write_text(f"{int(VERSIONS[-1]) + 1}\n")
    else:
        with sqlite3.connect(tmp_path / "kept.db") as connection:
            connection.execute("UPDATE meta SET value = value + 1")
        connection.close()
    before = bytes_in(tmp_path)
    store = open_store(url_in(kind, tmp_path))
    agent = Agent("keeper", ScriptedModel(["x"]), tools=formats.TOOLS, store=store)
    for ask in (
        lambda: Conversation.open(formats.TALK, store=store),
        lambda: Conversation.create("new", store=store),
        lambda: Conversation.list(store=store),
        lambda: agent.run("x", conversation=formats.TALK),
        lambda: agent.run("x", conversation="new"),
        lambda: agent.resume("paused", decisions={"2": Approve()}).result(),
    ):
        with pytest.raises(NewerJournal, match="version") as caught:
            await ask()
        assert isinstance(caught.value, StoreError)
    await store.close()

    assert bytes_in(tmp_path) == before
