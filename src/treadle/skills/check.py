"""All that is wrong with skills, by the specification."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike

from treadle.errors import SkillInvalid
from treadle.skills.loader import FILES, folder_of, folders_in, read_skill, told_of


def check_skill(path: str | PathLike[str]) -> list[str]:
    """Return every problem of one skill's folder, each with file and line; none for a good one.

    Raises:
        SkillInvalid: there is no such folder.
    """
    place = folder_of(path)
    _, _, problems, _, file = read_skill(place)
    return [told_of(file, each) for each in problems]


def skill_folders(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the folder itself where it is a skill, else the skills' folders in it.

    Raises:
        SkillInvalid: there is no such folder, or no skill in it.
    """
    root, names = folders_in(path)
    if any(os.path.lexists(os.path.join(root, file)) for file in FILES):
        yield root
        return
    if not names:
        raise SkillInvalid(f"{root} has no SKILL.md, and no folder in it has one.")
    for name in names:
        yield os.path.join(root, name)
