"""Every attack once more, by a user who is not root: some walls are made otherwise then."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandboxes.attacks import ATTACKS

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
NOBODY = 65534
ROOMS = ("attacks", "files", "sandbox")
NEEDED = (sys.base_prefix, sys.prefix, str(ROOT))


def hidden() -> dict[Path, list[str]]:
    """Return the folders that only root may enter, with what is needed below each."""
    found: dict[Path, list[str]] = {}
    for path in map(os.path.realpath, NEEDED):
        for folder in reversed(Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                found.setdefault(folder, []).append(path)
                break
    return found


def script(keep: Path, command: list[str]) -> str:
    """Return what shows nobody the programs that are needed, where only this script sees it."""
    lines = ["set -e"]
    for folder, paths in hidden().items():
        for number, path in enumerate(paths):
            kept = keep / f"{folder.name}-{number}"
            kept.mkdir()
            lines.append(f"mount --bind {shlex.quote(path)} {kept}")
        lines.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(folder))}")
        for number, path in enumerate(paths):
            lines.append(f"mkdir -p {shlex.quote(path)}")
            lines.append(f"mount --bind {keep / f'{folder.name}-{number}'} {shlex.quote(path)}")
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all"
    return "\n".join([*lines, f"exec {user} --bounding-set=-all {shlex.join(command)}"])


def test_attacks_of_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All are contained as for root, and what works for root works."""
    if os.getuid() != 0:
        pytest.skip("the attacks have been an ordinary user's already")
    keep = tmp_path_factory.mktemp("keep")
    base = Path("/tmp") / f"treadle-nobody-{os.getpid()}"  # noqa: S108 pytest's own is for root only
    base.mkdir(mode=0o700)
    os.chown(base, NOBODY, NOBODY)
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={base / 'tests'}"]
    environment = ["env", "-i", f"PATH={os.environ['PATH']}", f"HOME={base}", f"TMPDIR={base}"]
    tests = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ROOMS]
    command = [*environment, "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", "pytest"]

    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script(keep, [*command, *options, *tests])],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    subprocess.run(["rm", "-rf", str(base)], check=True)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"\[100%\]", ended.stdout)
    assert "skipped" not in ended.stdout
    assert ended.stdout.count(".") >= 3 * len(ATTACKS)
