"""Every Python fence in the README, the docs and the docstrings runs, with the output it shows.

A page is one test: its fences run in order, each on its own unless it is fenced as
```` ```python continues ````. Models of providers answer from `docs/replies/<page>.json`,
`README.json` or `guide/tools.json`. `--update-examples` writes the `#>` lines anew.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from tests.loopback import Loopback

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REPLIES = DOCS / "replies"
PLACES = [ROOT / "README.md", DOCS, ROOT / "src"]


def by_page() -> list[Any]:
    """Return the fences of each page; one that calls a compiler is marked."""
    pages = [
        (path, list(fences))
        for path, fences in groupby(find_examples(*PLACES), key=lambda fence: fence.path)
    ]
    return [
        pytest.param(
            fences,
            id=path.relative_to(ROOT).as_posix(),
            marks=[pytest.mark.e2e] if any('"cc"' in fence.source for fence in fences) else [],
        )
        for path, fences in pages
    ]


def replies_of(page: Path) -> Path:
    """Return the file with the replies that a page's models give."""
    where = page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)
    return REPLIES / where.with_suffix(".json")


@pytest.mark.parametrize("fences", by_page())
def test_page(
    fences: list[CodeExample],
    eval_example: EvalExample,
    scripted_openai: Callable[[Path], Loopback],
) -> None:
    """A page's programs do what the page says."""
    server = scripted_openai(replies_of(fences[0].path))
    eval_example.set_config(line_length=100, ruff_line_length=100, target_version="py310")
    run = eval_example.run_print_check
    if eval_example.update_examples:
        run = eval_example.run_print_update
    names: dict[str, Any] = {}
    for fence in fences:
        names = run(fence, module_globals=names if "continues" in fence.prefix_tags() else None)
    assert server.left == 0, f"{server.left} replies were never asked for"


def test_replies_belong_to_a_page() -> None:
    """No file of replies outlives its page."""
    read = {replies_of(fence.path) for fence in find_examples(*PLACES)}

    assert set(REPLIES.rglob("*.json")) <= read
