"""Processes that run a tree of agents are killed: on every store it goes on where it was."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.agent.nested import Tree
from tests.agent.parts import check_answered
from tests.crash.going import conversation_of
from tests.crash.killing import ANSWERS, EFFECTS
from tests.crash.nursery import ROOT
from tests.crash.sweep import KILLED
from tests.databases import KINDS, url_of
from treadle.fold import fold
from treadle.journal import CallEnded, ChildEnded, ModelReplied
from treadle.ports.store import NESTED, Batch
from treadle.stores.open import open_store
from treadle.view import View

pytestmark = pytest.mark.e2e

ALL = range(2, 20)
SOME = (3, 6, 9, 13, 17)
LONGEST = 60.0


def live(url: str, folder: Path, dies: int) -> int:
    """Let one process do its part; return how it ended."""
    command = [sys.executable, "-m", "tests.crash.tree", url, str(folder), str(dies)]
    return subprocess.run(command, cwd=ROOT, timeout=LONGEST, check=False).returncode


@pytest.mark.parametrize("kind", ["sqlite", "file", *KINDS])
def test_a_tree_of_agents_that_is_killed(kind: Any, tmp_path: Path) -> None:
    """J1, J3, J4, J5: at every append of the run on SQLite, and at some elsewhere; twice each."""
    urls = {"sqlite": f"sqlite:///{tmp_path}/chat.db", "file": f"file:{tmp_path}/chats"}
    url = urls[kind] if kind in urls else url_of(kind)
    mark = secrets.token_hex(3)

    def killed(number: int) -> list[str]:
        folder = tmp_path / f"{mark}-{number}"
        folder.mkdir()
        codes = [live(url, folder, number), live(url, folder, 3), live(url, folder, 0)]
        problems = asyncio.run(wrong(url, folder))
        if codes[0] != KILLED or codes[-1] != 0:
            problems.append(f"processes ended with {codes}")
        return [f"killed before append {number}: {each}" for each in problems]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(killed, ALL if kind == "sqlite" else SOME))
    assert [problem for problems in found for problem in problems] == []


async def wrong(url: str, folder: Path) -> list[str]:
    """Return what is wrong with a run that has ended, in words."""
    whole = await Tree().boss.run("Begin.")
    store = open_store(url)
    try:
        batches = await store.read(conversation_of(folder.name))
        head = await store.head(conversation_of(folder.name))
    finally:
        await store.close()
    view = fold((batch.revision, batch.entries) for batch in batches)
    record = view.last_run
    problems: list[str] = []
    if record is None or (record.status, head.reader) != ("answered", NESTED):
        return [f"the run is {record}, its journal takes reader {head.reader}"]
    if record.usage != whole.usage:
        problems.append(f"usage is {record.usage}, not {whole.usage}")
    unknown = (folder / ANSWERS).read_text().count("interrupted")
    if not unknown and list(view.messages) != list(whole.messages):
        problems.append(f"the history is {list(view.messages)}")
    return problems + _entries(batches) + _effects(folder, unknown)


def _entries(batches: list[Batch] | Any) -> list[str]:
    """Say what stands in a journal too often, and where it is no valid history."""
    view, times = View(), Counter[str]()
    for batch in batches:
        view.take_in(batch.revision, batch.entries)
        check_answered(list(view.messages))
        for entry in batch.entries:
            if isinstance(entry, CallEnded):
                times[f"end of {entry.result.call_id}"] += 1
            elif isinstance(entry, ChildEnded):
                times[f"end of {entry.path}"] += 1
            elif isinstance(entry, ModelReplied):
                times[f"reply {entry.message} of {entry.path}"] += 1
    twice = [what for what, number in times.items() if number > 1]
    return [f"twice: {what}" for what in twice] + [f"left: {name}" for name in view.children]


def _effects(folder: Path, unknown: int) -> list[str]:
    """Say which tools took effect too often."""
    did = Counter((folder / EFFECTS).read_text().splitlines())
    once = {line: times for line, times in did.items() if line.startswith("add ")}
    if not 3 - unknown <= len(did) <= 3 or set(once.values()) - {1} or unknown > 1:
        return [f"took effect: {did}, with {unknown} outcomes unknown"]
    return []
