"""The check agrees with the specification's own validator, `skills-ref`.

`VALID` and `INVALID` were put to its version 0.1.1, which said the same of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skills.folders import skill_in
from treadle.skills.check import check_skill

GOOD = "name: a\ndescription: x"
VALID = [
    GOOD,
    f"{GOOD}\nlicense: MIT",
    f"{GOOD}\nlicense: ''",
    f"{GOOD}\ncompatibility: {'x' * 500}",
    f"{GOOD}\ncompatibility: ''",
    f"{GOOD}\nmetadata:\n  author: x\n  version: '1.0'",
    f"{GOOD}\nmetadata:\n  version: 1.0",
    f"{GOOD}\nallowed-tools: Bash(git:*) Read",
    f"{GOOD}\nallowed-tools:\n  - Read\n  - Write",
    f"{GOOD}\nallowed-tools: Read, Write",
    f"# comment\n{GOOD} # another",
    f"name: a\ndescription: {'x' * 1024}",
    "name: a\ndescription: >\n  folded\n  text",
    "name: a\ndescription: |-\n  literal: text\n  more",
    "name: a\ndescription: on\n  two lines",
    "name: a\ndescription: 'it''s: quoted'",
    'name: a\ndescription: "a \\"quote\\": yes"',
    "description: x\nname: a",
    "name: 'a'\ndescription: <b>tags</b>",
    "name:   a  \ndescription: yes",
]
VALID_NAMES = ["a1", "1", "a-b-c", "caf\u00e9", "\u6d4b\u8bd5", "x" * 64, "\u0434\u0430-1"]
INVALID = [
    "name: a",
    "description: x",
    "x",
    "- a",
    "",
    "name: a\ndescription:",
    "name: a\ndescription: '  '",
    "name:\ndescription: x",
    "name: a\ndescription: use: this",
    f"name: a\ndescription: {'x' * 1025}",
    f"{GOOD}\ncompatibility: {'x' * 501}",
    f"{GOOD}\ncompatibility:\n  - x",
    f"{GOOD}\nversion: 1",
    f"{GOOD}\nallowed_tools: Read",
    f"{GOOD}\nname: a",
    f"{GOOD}\nallowed-tools: [Read, Write]",
    f"{GOOD}\nmetadata: {{a: b}}",
    "name: &x a\ndescription: *x",
    "name: !!str a\ndescription: x",
    "name: a\ndescription: [x",
    'name: a\ndescription: "x',
    "name: a\n description: x",
    "name: other\ndescription: x",
    f"{GOOD}\n\tlicense: MIT",
]
INVALID_NAMES = ["A", "a_b", "a b", "-a", "a-", "a--b", "a.b", "x" * 65, "caf\u00c9"]


@pytest.mark.parametrize("head", VALID)
def test_valid(tmp_path: Path, head: str) -> None:
    """There is nothing to say."""
    assert check_skill(skill_in(tmp_path, "a", head)) == []


@pytest.mark.parametrize("head", INVALID)
def test_invalid(tmp_path: Path, head: str) -> None:
    """There is, with file and line."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\nx\n", encoding="utf-8")

    problems = check_skill(folder)

    assert problems
    assert all(each.startswith(f"{folder}/SKILL.md:") for each in problems)


@pytest.mark.parametrize(
    ("name", "valid"),
    [*((name, True) for name in VALID_NAMES), *((name, False) for name in INVALID_NAMES)],
)
def test_names(tmp_path: Path, name: str, valid: bool) -> None:
    """Lower case of any script, digits, and hyphens that stand alone."""
    assert bool(check_skill(skill_in(tmp_path, name))) is not valid


@pytest.mark.parametrize("head", ["\ufeff", "\n", "text\n", "--"])
def test_what_comes_before(tmp_path: Path, head: str) -> None:
    """Other programs read nothing else but `---` there, even where loading does."""
    folder = skill_in(tmp_path, "a")
    text = (folder / "SKILL.md").read_text(encoding="utf-8")
    (folder / "SKILL.md").write_text(head + text, encoding="utf-8")

    assert check_skill(folder)


@pytest.mark.parametrize(
    "more", ["metadata: text", "metadata:\n  a:\n    b: c", "license:\n  - x", "allowed-tools: a("]
)
def test_what_would_be_lost_is_told(tmp_path: Path, more: str) -> None:
    """The validator does not look at these fields; loading leaves them out, or refuses them."""
    assert len(check_skill(skill_in(tmp_path, "a", f"{GOOD}\n{more}"))) == 1
