"""Processes with agents in the background are killed: on every store all go on where they were."""

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

from tests.agent.parts import check_answered
from tests.crash.going import conversation_of
from tests.crash.killing import ANSWERS, EFFECTS
from tests.crash.nursery import ROOT
from tests.crash.sweep import KILLED
from tests.databases import KINDS, url_of
from tests.workflows.crews import Crewed
from treadle.fold import fold
from treadle.journal import CallEnded, ChildBegan, ChildEnded, ModelReplied
from treadle.stores.open import open_store

pytestmark = pytest.mark.e2e

ALL = range(2, 19)
SOME = (4, 7, 10, 13, 16)
LONGEST = 60.0


def live(url: str, folder: Path, dies: int) -> int:
    """Let one process do its part; return how it ended."""
    command = [sys.executable, "-m", "tests.crash.crewed", url, str(folder), str(dies)]
    return subprocess.run(command, cwd=ROOT, timeout=LONGEST, check=False).returncode


@pytest.mark.parametrize("kind", ["sqlite", "file", *KINDS])
def test_a_run_with_delegates_that_is_killed(kind: Any, tmp_path: Path) -> None:
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
    whole = await Crewed().boss.run("Begin.")
    store = open_store(url)
    try:
        batches = await store.read(conversation_of(folder.name))
    finally:
        await store.close()
    view = fold((batch.revision, batch.entries) for batch in batches)
    check_answered(list(view.messages))
    record, entries = view.last_run, [entry for batch in batches for entry in batch.entries]
    if record is None or record.status != "answered":
        return [f"the run is {record}"]
    problems = [] if record.usage == whole.usage else [f"usage is {record.usage}"]
    times = Counter[str]()
    for entry in entries:
        if isinstance(entry, CallEnded):
            times[f"end of {entry.result.call_id}"] += 1
        elif isinstance(entry, ChildBegan | ChildEnded):
            times[f"{type(entry).__name__} {entry.path}"] += 1
        elif isinstance(entry, ModelReplied):
            times[f"reply {entry.message} of {entry.path}"] += 1
    problems += [f"twice: {what}" for what, number in times.items() if number > 1]
    did = Counter((folder / EFFECTS).read_text().splitlines())
    if any(number > 1 for line, number in did.items() if line.startswith("add ")):
        problems.append(f"took effect: {did}")
    ended = [entry for entry in entries if isinstance(entry, CallEnded)]
    unknown = sum("took effect is unknown" in entry.result.text for entry in ended)
    answer = (folder / ANSWERS).read_text().splitlines()[-1]
    if not unknown and answer != f"answer: {whole.output}":
        problems.append(f"it answered {answer}")
    return problems
