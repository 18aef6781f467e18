"""Skills from folders: one, or all that stand in a folder; read again when they have changed."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from treadle.errors import ConfigError, MissingExtra, SkillInvalid, ToolError
from treadle.ports.command_runner import CommandRunner
from treadle.skills.fields import SkillFields, understood
from treadle.skills.front_matter import read_front_matter
from treadle.skills.problems import Broken, NeedsYaml, Problem
from treadle.skills.skill import Load, Skill, Stamp, check_load
from treadle.tools.builtin.workspace import Workspace
from treadle.values import clean
from treadle.values.logs import logger

log = logger(__name__)

FILES = ("SKILL.md", "skill.md")
MOST_BYTES = 1_000_000
"""How large a SKILL.md may be."""


def load_skill(
    path: str | PathLike[str],
    *,
    load: Load = "on_demand",
    sandbox: CommandRunner | Literal["auto"] | None = None,
) -> Skill:
    """Read a skill from its folder, which has a SKILL.md.

    What breaks the specification and can be lived with is logged. With a `sandbox` the model may
    run its scripts in there, else not at all.

    Raises:
        SkillInvalid: the folder or its SKILL.md is none; the message has each file and line.
        MissingExtra: its front matter needs the package for YAML.
    """
    check_load(load)
    place = folder_of(path)
    fields, body, problems, stamp, file = read_skill(place)
    fatal = [each for each in problems if each.fatal]
    if fatal:
        raise SkillInvalid(told_of(file, fatal[0]), problems=[told_of(file, e) for e in problems])
    for each in problems:
        log.log(logging.INFO if each.minor else logging.WARNING, "%s", told_of(file, each))
    return Skill(
        load=load,
        folder=place.root,
        sandbox=sandbox,
        stamp=stamp,
        **_told(fields),
        instructions=clean(body),
    )


def load_skills(
    parent: str | PathLike[str],
    *,
    exclude: Collection[str] = (),
    load: Load = "on_demand",
    sandbox: CommandRunner | Literal["auto"] | None = None,
) -> list[Skill]:
    """Read the skills that stand in a folder, each in one of its own, by the folders' names.

    `exclude` are names of folders or skills to leave out: the agent does not know them. Folders
    without a SKILL.md are none. What cannot be read, or lies elsewhere by a link, is left out
    and logged.

    Raises:
        SkillInvalid: there is no such folder, or it cannot be read.
        MissingExtra: a front matter needs the package for YAML.
    """
    check_load(load)
    if isinstance(exclude, str):
        raise ConfigError(f"exclude={exclude!r}: give a list of names.")
    root, names = folders_in(parent)
    found: dict[str, Skill] = {}
    for name in names:
        if name in exclude:
            continue
        try:
            skill = load_skill(os.path.join(root, name), load=load, sandbox=sandbox)
        except SkillInvalid as error:
            log.warning("A skill is left out. %s", error)
            continue
        if skill.name in exclude:
            continue
        if skill.name in found:
            log.warning(
                "A skill is left out: %s and %s are both called %r.",
                found[skill.name].folder,
                skill.folder,
                skill.name,
            )
            continue
        found[skill.name] = skill
    return list(found.values())


def folders_in(parent: str | PathLike[str]) -> tuple[str, list[str]]:
    """Return a folder without links, and the names of the skills' folders in it, sorted.

    Raises:
        SkillInvalid: there is no such folder, or it cannot be read.
    """
    try:
        root = os.path.realpath(Path(parent).expanduser())
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SkillInvalid(f"The skills in {str(parent)!r} cannot be read: {why}.") from error
    kept: list[str] = []
    for name in names:
        path = os.path.join(root, name)
        if not any(os.path.lexists(os.path.join(path, file)) for file in FILES):
            continue
        if os.path.commonpath([os.path.realpath(path), root]) != root:
            log.warning("A skill is left out: %s is a link that leads elsewhere.", path)
            continue
        kept.append(name)
    return root, kept


def folder_of(path: str | PathLike[str]) -> Workspace:
    """Return the folder of a skill, which reading cannot leave.

    Raises:
        SkillInvalid: there is none.
    """
    try:
        return Workspace(path if isinstance(path, str) else os.fspath(path), called="skill")
    except (ConfigError, OSError, ValueError, RuntimeError) as error:
        raise SkillInvalid(f"There is no folder {str(path)!r} to read a skill from.") from error


def place_of(skill: Skill) -> Workspace:
    """Return the folder that a skill was read from.

    Raises:
        SkillInvalid: it is gone, or a link stands there now.
    """
    place = folder_of(skill.folder)
    if place.root != skill.folder:
        raise SkillInvalid(f"{skill.folder} is a link now, and is not followed.")
    return place


def read_skill(place: Workspace) -> tuple[SkillFields, str, list[Problem], Stamp | None, str]:
    """Return what a SKILL.md says, its body, what is wrong, its state, and where it is.

    Raises:
        MissingExtra: its front matter needs the package for YAML.
    """
    name = next((each for each in FILES if os.path.lexists(os.path.join(place.root, each))), None)
    file = os.path.join(place.root, name or FILES[0])
    if name is None:
        return SkillFields(), "", [Problem(1, "The file is missing.", fatal=True)], None, file
    stamp = None
    try:
        with place.open(name) as opened:
            stamp = stamp_of(os.fstat(opened.fileno()))
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise Broken(1, f"The file is larger than {MOST_BYTES} bytes.")
        found = read_front_matter(content)
    except (ToolError, OSError) as error:
        return SkillFields(), "", [Problem(1, str(error), fatal=True)], stamp, file
    except NeedsYaml as needs:
        raise MissingExtra(told_of(file, needs.problem)) from needs
    except Broken as broken:
        return SkillFields(), "", [broken.problem], stamp, file
    fields, problems = understood(found, os.path.basename(place.root))
    return fields, found.body, problems, stamp, file


def read_again(skill: Skill) -> Skill:
    """Return a skill as its folder has it now; itself where nothing has changed.

    One that cannot be read any more stays as it was, which is logged.
    """
    if not skill.folder:
        return skill
    try:
        place = place_of(skill)
    except SkillInvalid as error:
        return _kept(skill, None, str(error))
    if skill.stamp is not None and _stamp_now(place) == skill.stamp:
        return skill
    fields, body, problems, stamp, file = read_skill(place)
    fatal = [each for each in problems if each.fatal]
    if fatal:
        return _kept(skill, stamp, told_of(file, fatal[0]))
    return replace(skill, stamp=stamp, **_told(fields), instructions=clean(body))


def told_of(file: str, problem: Problem) -> str:
    """Return a problem with its file and line, as compilers write them."""
    return f"{file}:{problem.line}: {problem.text}"


def stamp_of(found: os.stat_result) -> Stamp:
    """Return what tells the state of a file from its next one."""
    return found.st_mtime_ns, found.st_size, found.st_ino


def _told(fields: SkillFields) -> dict[str, Any]:
    return {name: getattr(fields, name) for name in fields.__struct_fields__}


def _stamp_now(place: Workspace) -> Stamp | None:
    for name in FILES:
        try:
            with place.open(name) as opened:
                return stamp_of(os.fstat(opened.fileno()))
        except (ToolError, OSError):
            continue
    return None


def _kept(skill: Skill, stamp: Stamp | None, why: str) -> Skill:
    if stamp is None or stamp != skill.stamp:
        log.warning("Skill %r stays as it was. %s", skill.name, why)
    return replace(skill, stamp=stamp)
