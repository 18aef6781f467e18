"""`treadle skills`: what skills there are in a folder, and what is wrong with them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from textwrap import shorten

from treadle.cli.options import add_debug, show_help
from treadle.cli.terminal import Terminal
from treadle.errors import SkillInvalid
from treadle.skills.check import check_skill, skill_folders
from treadle.skills.files import files_of
from treadle.skills.loader import load_skill
from treadle.skills.skill import Skill

LONGEST = 200
"""How much of a description is shown."""


def describe_skills(parser: argparse.ArgumentParser) -> None:
    """Describe the command and those below it."""
    parser.description = "List and check folders of skills (https://agentskills.io)."
    add_debug(parser)
    parser.set_defaults(command=show_help(parser))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    shown = below.add_parser("list", help="show each skill: name, description and size")
    shown.set_defaults(command=list_skills)
    checked = below.add_parser("check", help="show all that is wrong, with file and line")
    checked.set_defaults(command=check_skills)
    for each in (shown, checked):
        add_debug(each)
        each.add_argument("folder", help="the folder of a skill, or one that holds such folders")


def list_skills(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print each skill; what cannot be loaded is told, and makes the exit code 1.

    Raises:
        SkillInvalid: there is no such folder, or no skill in it.
    """
    code = 0
    for folder in skill_folders(options.folder):
        try:
            skill = load_skill(folder)
        except SkillInvalid as error:
            print(error, file=terminal.stderr)
            code = 1
            continue
        for line in _described(skill):
            print(line, file=terminal.stdout)
    return code


def check_skills(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print every problem of every skill; any makes the exit code 1.

    Raises:
        SkillInvalid: there is no such folder, or no skill in it.
    """
    good = bad = 0
    for folder in skill_folders(options.folder):
        problems = check_skill(folder)
        for each in problems:
            print(each, file=terminal.stdout)
        good, bad = good + (not problems), bad + bool(problems)
    print(f"{good + bad} skills, {bad} with problems", file=terminal.stderr)
    return 1 if bad else 0


def _described(skill: Skill) -> Iterator[str]:
    size, files = len(skill.instructions.encode()), len(files_of(skill))
    yield f"{skill.name}  {size} bytes of instructions, {files} more files"
    yield f"    {shorten(skill.description, LONGEST, placeholder='...')}"
