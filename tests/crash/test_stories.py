"""Several agents on one run, in processes that are killed: the same outcome, nothing done again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.cases import Case
from tests.crash.stories import STORIES
from tests.crash.sweep import Sweep
from tests.databases import url_of

pytestmark = pytest.mark.e2e

THIRD = range(2, 40, 3)
SOME = (4, 9, 14)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize(("kind", "numbers"), [("sqlite", THIRD), ("postgresql", SOME)])
def test_killed_at_appends(story: Case, kind: Any, numbers: Iterable[int], tmp_path: Path) -> None:
    """J1, J3, J4, J5, S55: before and after appends, and a few times at random."""
    url = f"sqlite:///{tmp_path}/chat.db" if kind == "sqlite" else url_of(kind)
    sweep = Sweep(story, url, tmp_path, kills=1, seed=1, report=lambda _: None)
    sweep.run(numbers, deaths=4)

    assert sweep.violations == []
    assert sweep.kills >= len(SOME)
