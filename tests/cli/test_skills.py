"""`treadle skills`: what there is, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Treadle
from tests.skills.folders import skill_in
from treadle.skills.fields import KNOWN


def test_skills_are_listed(treadle: Treadle, tmp_path: Path) -> None:
    """Each has its name, its size and its description; one folder alone can be named, too."""
    folder = skill_in(tmp_path, "a", body="Do it.")
    (folder / "x.md").write_text("x")
    skill_in(tmp_path, "b", "name: b\ndescription: " + "long words " * 50)

    ended = treadle("skills", "list", str(tmp_path))

    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:3] == [
        "a  6 bytes of instructions, 1 more files",
        "    About a.",
        "b  5 bytes of instructions, 0 more files",
    ]
    assert len(lines[3]) <= 204
    assert treadle("skills", "list", str(folder)).out == "\n".join([*lines[:2], ""])


def test_what_cannot_be_listed_is_told(treadle: Treadle, tmp_path: Path) -> None:
    """The others are listed all the same."""
    skill_in(tmp_path, "a", "name: a")
    skill_in(tmp_path, "b")

    ended = treadle("skills", "list", str(tmp_path))

    assert ended.code == 1
    assert ended.err == f"{tmp_path}/a/SKILL.md:1: `description` is missing.\n"
    assert ended.out.startswith("b  ")


def test_every_problem_is_told_with_file_and_line(treadle: Treadle, tmp_path: Path) -> None:
    """The exit code is 1 for any problem, also for one that loading can live with."""
    skill_in(tmp_path, "good")
    skill_in(tmp_path, "bad", "name: Bad\nversion: 1\ndescription: " + "x" * 1025)

    ended = treadle("skills", "check", str(tmp_path))

    file = f"{tmp_path}/bad/SKILL.md"
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"{file}:2: The name is to be in lower case.",
        f"{file}:2: The folder 'bad' is not called 'Bad'.",
        f"{file}:3: `version` is no field; there are {', '.join(KNOWN)}.",
        f"{file}:4: `description` has 1025 characters; it may have 1024.",
    ]
    assert ended.err == "2 skills, 1 with problems\n"
    assert treadle("skills", "check", str(tmp_path / "good")).code == 0


def test_a_folder_without_skills_is_wrong_usage(treadle: Treadle, tmp_path: Path) -> None:
    """So is one that is not there."""
    ended = treadle("skills", "check", str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert "has no SKILL.md" in ended.err
    assert treadle("skills", "list", str(tmp_path / "none")).code == 2
