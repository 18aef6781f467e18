"""The project's own checks find what they look for, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_changelog, check_size, check_words

ROOT = Path(__file__).parents[2]


def written(folder: Path, source: str) -> Path:
    """Return a module with this source."""
    path = folder / "module.py"
    path.write_text(source, encoding="utf-8")
    return path


def lines(count: int) -> str:
    """Return this many lines of a body."""
    return "\n".join(["    x = 1"] * count)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\n" * 401, "module of 401 lines"),
        (f"def f():\n{lines(60)}", "f has 61 lines"),
        (f"class C:\n{lines(250)}", "C has 251 lines"),
        ("def f(a, b, c, d, e, *, f, g, h, i): ...", "f takes 9 parameters"),
    ],
)
def test_what_is_too_long_is_found(source: str, words: str, tmp_path: Path) -> None:
    """Each limit is one line or parameter away from a finding."""
    found = list(check_size.findings(written(tmp_path, source)))

    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n" * 400,
        "# size: generated\n" + "x = 1\n" * 400,
        f"def f():\n{lines(59)}",
        f"def f():  # size: one table\n{lines(60)}",
        f"class C:\n{lines(249)}",
        "class C:\n    def f(self, a, b, c, d, e, f, g, h): ...",
        "def f(\n    a, b, c, d, e, f, g,  # size: a contract\n    h, i\n): ...",
    ],
)
def test_what_fits_or_says_why_not_passes(source: str, tmp_path: Path) -> None:
    """The limits themselves are allowed, and so is more, with a reason."""
    assert list(check_size.findings(written(tmp_path, source))) == []


def test_a_reason_must_be_given(tmp_path: Path) -> None:
    """An exemption without words exempts nothing."""
    assert list(check_size.findings(written(tmp_path, f"def f():  # size:\n{lines(60)}")))


@pytest.mark.parametrize("name", ["ToolManager", "HTTPHandler", "do_it", "toolUtils", "base"])
def test_words_that_name_nothing_are_found(name: str, tmp_path: Path) -> None:
    """They are found in any spelling."""
    assert list(check_words.findings(written(tmp_path, f"class {name}: ...")))


@pytest.mark.parametrize("name", ["from_base64", "data_url", "metadata", "Database", "redo"])
def test_words_inside_words_pass(name: str, tmp_path: Path) -> None:
    """A word of the world that contains such a word is no finding."""
    assert list(check_words.findings(written(tmp_path, f"def {name}(): ..."))) == []


def test_a_changelog_of_another_version_is_found() -> None:
    """The top entry, the code and the installed package have one version."""
    assert check_changelog.findings("## [99.0.0] - 2030-01-31\n")
    assert check_changelog.findings("no entry at all")


def test_lock_files_name_no_server() -> None:
    """What to install is in the lock files; where from is the machine's own business."""
    for path in ROOT.glob("*.lock"):
        assert "://" not in path.read_text(encoding="utf-8")
