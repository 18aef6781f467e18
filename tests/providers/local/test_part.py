"""Part files: what a full disk leaves behind, and what is said about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.providers.local.made_up import CONTENT, FakeSource, Heard, tiny
from treadle.errors import ModelFilesError
from treadle.providers.local.part import PartFile
from treadle.providers.local.weights import fetch

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of this kind are POSIX")
def test_a_full_disk_is_told_and_costs_nothing(tmp_path: Path) -> None:
    """The message says how much is missing and where; what is there is taken up later."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from tests.providers.local.made_up import FakeSource, Heard, tiny\n"
        "from treadle.errors import ModelFilesError\n"
        "from treadle.providers.local.weights import fetch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))\n"
        "try:\n"
        "    fetch(tiny(), Path(sys.argv[1]), [FakeSource()], Heard())\n"
        "except ModelFilesError as error:\n"
        "    print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout

    assert "The disk is full" in said
    assert str(tmp_path / "tiny.gguf.part") in said
    assert "TREADLE_CACHE" in said
    assert (tmp_path / "tiny.gguf.part").stat().st_size == 120_000
    assert not (tmp_path / "tiny.gguf").exists()

    source = FakeSource()
    assert fetch(tiny(), tmp_path, [source], Heard()).read_bytes() == CONTENT
    assert source.asked_from == [120_000]


def test_no_download_begins_without_room_for_it(tmp_path: Path) -> None:
    """The message says what is needed, what is free, and where."""
    with (
        PartFile(tiny(), tmp_path / "tiny.gguf", Heard()) as part,
        pytest.raises(ModelFilesError, match=rf"Not enough space in '{tmp_path}'.*1,000,000,000"),
    ):
        part.require_space(10**15)


def test_a_whole_file_replaces_what_was_there_in_one_step(tmp_path: Path) -> None:
    """The name always stands for a whole file: the old one, or the new one."""
    target = tmp_path / "tiny.gguf"
    target.write_bytes(b"old")

    with PartFile(tiny(), target, Heard()) as part:
        part.write(CONTENT)
        assert target.read_bytes() == b"old"
        assert part.is_right()
        part.finish()

    assert target.read_bytes() == CONTENT
    assert not part.path.exists()
