"""The files of a skill: which there are, and what stands in one."""

from __future__ import annotations

from treadle.errors import SkillInvalid, ToolError
from treadle.skills.loader import FILES, place_of
from treadle.skills.skill import Skill
from treadle.tools.builtin.workspace import Workspace
from treadle.values import clean

MOST_FILES = 200
MOST_DEEP = 6
MOST_BYTES = 1_000_000
"""How large a file may be that the model reads."""
LEFT_OUT = ("__pycache__/", "node_modules/")


def files_of(skill: Skill) -> list[str]:
    """Return the paths of a skill's files below its folder, sorted, without hidden ones."""
    try:
        place = place_of(skill)
        found: list[str] = []
        _collect(place, "", found, MOST_DEEP)
    except (SkillInvalid, ToolError):
        return []
    more = len(found) - MOST_FILES
    return [*found[:MOST_FILES], f"[and {more} or more]"] if more > 0 else found


def read_file(skill: Skill, path: str) -> str:
    """Return the text of a skill's file.

    Raises:
        ToolError: it leads outside, is no regular file, too large, or no text.
    """
    try:
        place = place_of(skill)
    except SkillInvalid as error:
        raise ToolError(f"The files of skill {skill.name!r} are gone.") from error
    with place.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ToolError(f"{path!r} is larger than {MOST_BYTES} bytes, too large to read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path!r} is no text in UTF-8, and cannot be read.") from error
    if "\0" in text:
        raise ToolError(f"{path!r} is no text, and cannot be read.")
    return clean(text) or "[The file is empty.]"


def _collect(place: Workspace, folder: str, found: list[str], deep: int) -> None:
    for name in place.entries(folder or "."):
        if name.startswith(".") or name in LEFT_OUT or (not folder and name in FILES):
            continue
        if len(found) > MOST_FILES:
            return
        if not name.endswith("/"):
            found.append(clean(folder + name))
        elif deep > 1:
            _collect(place, folder + name, found, deep - 1)
        else:
            found.append(clean(f"{folder}{name}"))
