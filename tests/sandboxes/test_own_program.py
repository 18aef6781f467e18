"""A workspace with this very package in it: what a command changes there does not run outside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandboxes.conftest import available
from treadle.sandboxes.found import Backend

pytestmark = pytest.mark.e2e

PACKAGE = Path(__file__).parents[2] / "src" / "treadle"
PROGRAM = """
import asyncio, json, sys
from treadle.ports.command_runner import Command
from treadle.sandboxes import Sandbox, __file__ as own

async def main(folder, backend):
    sandbox = Sandbox(backend=backend)
    ends = []
    for text in ("echo one", sys.argv[3], "echo two; cat ../outside/secret.txt"):
        ends.append(await sandbox.run(
            Command(text=text, workspace=folder, folder=folder, seconds=20, max_output=5000)
        ))
    print(json.dumps([own, *[(end.ending, end.exit_code, end.output) for end in ends]]))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""
REWRITE = """
cd lib/treadle || exit 9
for file in tools/builtin/*.py sandboxes/*.py; do
  echo 'open("HARMED", "w").write("x")' > "$file" && echo written
done
rm -rf tools/builtin/__pycache__ sandboxes/__pycache__; true
"""


@pytest.mark.parametrize(("backend", "written"), [("bubblewrap", False), ("landlock", True)])
def test_the_launcher_comes_from_memory(
    workspace: Path, tmp_path: Path, backend: Backend, written: bool
) -> None:
    """With bubblewrap its files cannot be written; with Landlock they are not what is run."""
    shutil.copytree(PACKAGE, workspace / "lib" / "treadle")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("CANARY")
    program = f"import sys; sys.path.insert(0, {str(workspace / 'lib')!r})\n{PROGRAM}"

    ended = subprocess.run(
        [sys.executable, "-c", program, str(workspace), available(backend), REWRITE],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert ended.returncode == 0, ended.stderr
    own, first, rewriting, second = json.loads(ended.stdout)
    assert own == str(workspace / "lib" / "treadle" / "sandboxes" / "__init__.py")
    assert first == ["exited", 0, "one\n"]
    assert ("written\n" in rewriting[2]) is written
    assert second[0] == "exited"
    assert second[2].startswith("two\n")
    assert "CANARY" not in second[2]
    assert not list(tmp_path.rglob("HARMED"))
