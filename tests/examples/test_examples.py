"""Every file in `examples/` runs, and prints what its `#>` comments say, in that order.

A model of `openai:` answers from `examples/replies/<name>.json`; one with a real local model
is an e2e test.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Loopback

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 900  # seconds; a real model may have to be fetched first
SHOWN = re.compile(r"^\s*# ?> ?(.*)$", re.MULTILINE)  # ruff writes "# >"


def needs_weights(program: Path) -> bool:
    """Return whether a program names a real local model."""
    texts = ast.walk(ast.parse(program.read_text(encoding="utf-8")))
    return any(
        isinstance(text, ast.Constant) and str(text.value).startswith("local:") for text in texts
    )


def compiles(program: Path) -> bool:
    """Return whether a program calls a compiler of C."""
    return '"cc"' in program.read_text(encoding="utf-8")


def programs() -> list[Any]:
    """Return each example; those with a real model or a compiler are marked."""
    return [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.e2e] if needs_weights(path) or compiles(path) else [],
        )
        for path in sorted(EXAMPLES.glob("*.py"))
    ]


@pytest.mark.parametrize("program", programs())
def test_program(
    program: Path, scripted_openai: Callable[[Path], Loopback], tmp_path: Path
) -> None:
    """An example ends well and prints what it says it prints."""
    server = scripted_openai(EXAMPLES / "replies" / f"{program.stem}.json")
    ended = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    at = 0
    for expected in SHOWN.findall(program.read_text(encoding="utf-8")):
        found = ended.stdout.find(expected, at)
        assert found >= 0, f"{expected!r} is not in what is left of the output: {ended.stdout[at:]}"
        at = found + len(expected)
    assert server.left == 0, f"{server.left} replies were never asked for"
