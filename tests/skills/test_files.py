"""No name and no path leads out of a skill."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.skills.asking import loading, reading, result_of
from tests.skills.folders import skill_in
from treadle import load_skill, load_skills

BAD = ["../x", "/etc/hostname", "a/../../x", "C:\\x", "a\0b", "%2e%2e/x", "cafe\u0301", "", "."]


async def test_bs_59_names_are_no_paths(tmp_path: Path) -> None:
    """A name is looked up, exactly; nothing that looks like a path leads anywhere."""
    skill_in(tmp_path, "caf\u00e9")
    skill_in(tmp_path.parent / f"{tmp_path.name}x", "x")

    results = await result_of(
        await asyncio.to_thread(load_skills, tmp_path),
        *(loading(name, f"c{n}") for n, name in enumerate(BAD)),
    )

    assert len(results) == len(BAD)
    assert all(each.is_error for each in results)
    assert all("About" not in each.text and "Body" not in each.text for each in results)


async def test_bs_59_files_stay_in_the_skill(tmp_path: Path) -> None:
    """No path and no link leads outside; pipes, folders, binary and large files are refused."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("CONTENT")
    (tmp_path / "outside" / "SKILL.md").write_text("CONTENT")
    folder = skill_in(tmp_path, "s")
    (folder / "caf\u00e9").write_text("CONTENT")
    (folder / "x").write_text("inside")
    (folder / "good").symlink_to("x")
    (folder / "file").symlink_to(tmp_path / "outside" / "x")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    (folder / "binary").write_bytes(b"\x89PNG\r\n\0")
    (folder / "zeros").write_bytes(b"CONTENT\0")
    (folder / "large").write_bytes(b"x" * 1_000_001)
    bad = [*BAD, "file", "folder/x", "folder", "loop", "pipe", "binary", "zeros", "large"]

    results = await result_of(
        [await asyncio.to_thread(load_skill, folder)],
        *(reading("s", path, f"c{n}") for n, path in enumerate(bad)),
        reading("s", "good", "last"),
        reading("s", str(folder / "x"), "absolute"),
    )

    assert [each.is_error for each in results] == [True] * len(bad) + [False, False]
    assert not any("CONTENT" in each.text for each in results)
    assert [each.text for each in results[-2:]] == ["inside", "inside"]
    assert "no text" in results[bad.index("zeros")].text
    assert "outside the skill" in results[bad.index("folder/x")].text


async def test_a_skill_whose_folder_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    """What was read stays; its files are gone."""
    folder = skill_in(tmp_path, "s")
    skill = await asyncio.to_thread(load_skill, folder)
    folder.rename(tmp_path / "moved")
    other = skill_in(tmp_path / "other", "s", body="OTHER")
    (other / "x").write_text("OTHER")
    folder.symlink_to(other)

    results = await result_of([skill], loading("s"), reading("s", "x", "c2"))

    assert results[0].text == "# Skill: s\n\nBody."
    assert (results[1].is_error, results[1].text) == (True, "The files of skill 's' are gone.")
