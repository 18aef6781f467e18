"""Skills are read from folders: leniently where nothing is lost, else refused with the line."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.skills.folders import skill_in
from treadle import ConfigError, MissingExtra, Skill, SkillInvalid, load_skill, load_skills
from treadle.skills.loader import read_again

FULL = """\
name: pdf-forms
description: >
  Fill in forms.
  Use for PDF files.
license: Apache-2.0
compatibility: Needs pdftk
metadata:
  author: example-org
  version: "1.0"
allowed-tools: Bash(git add:*) Read, Write"""


def test_every_field_is_read(tmp_path: Path) -> None:
    """The front matter and the body, as they are meant."""
    skill = load_skill(skill_in(tmp_path, "pdf-forms", FULL, "\n# How\n\nSo.\n\n"), load="eager")

    assert skill == Skill(
        name="pdf-forms",
        description="Fill in forms. Use for PDF files.",
        instructions="# How\n\nSo.",
        load="eager",
        license="Apache-2.0",
        compatibility="Needs pdftk",
        metadata={"author": "example-org", "version": "1.0"},
        allowed_tools=("Bash(git add:*)", "Read", "Write"),
        folder=str(tmp_path / "pdf-forms"),
    )


def test_bs_58_windows_and_colons(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A BOM, CRLF, blanks after the dashes and a bare colon lose nothing, and are told of."""
    folder = tmp_path / "tax-help"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(
        b"\xef\xbb\xbf---  \r\nname: tax-help\r\ndescription: Use when asked: invoices, VAT\r\n"
        b"allowed-tools: Read\r\n---\t\r\nBody"
    )

    skill = load_skill(folder)

    assert (skill.name, skill.instructions) == ("tax-help", "Body")
    assert skill.description == "Use when asked: invoices, VAT"
    assert skill.allowed_tools == ("Read",)
    (told,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert told.getMessage().startswith(f"{folder}/SKILL.md:3: This is no YAML")


@pytest.mark.parametrize(
    ("head", "tools"),
    [
        ("allowed-tools:\n  - Read\n  - Bash(git:*)", ("Read", "Bash(git:*)")),
        ("allowed-tools:\n- Read", ("Read",)),
        ("allowed-tools: [Read, 'Bash(a, b)']", ("Read", "Bash(a, b)")),
        ("allowed_tools: Read", ("Read",)),
        ("Allowed-Tools: Read", ("Read",)),
        ("allowedTools: Read", ("Read",)),
    ],
)
def test_allowed_tools_are_never_lost(tmp_path: Path, head: str, tools: tuple[str, ...]) -> None:
    """Beside a description that is no YAML, too, where they can be read at all."""
    folder = skill_in(tmp_path, head=f"name: tax-help\ndescription: VAT\n{head}")
    assert load_skill(folder).allowed_tools == tools

    folder = skill_in(tmp_path, head=f"name: tax-help\ndescription: For: VAT\n{head}")
    if "[" in head:
        with pytest.raises(SkillInvalid, match=r"SKILL\.md:3: This is no YAML"):
            load_skill(folder)
    else:
        assert load_skill(folder).allowed_tools == tools


@pytest.mark.parametrize(
    ("head", "line", "why"),
    [
        ("description: VAT", 1, "`name` is missing"),
        ("name: tax-help", 1, "`description` is missing"),
        ("name: tax-help\ndescription: ''", 3, "`description` is to be a text"),
        ("name: tax-help\ndescription:\n- a", 3, "`description` is to be a text"),
        ("name: ../x\ndescription: VAT", 2, "slashes"),
        ('name: "a\\nb"\ndescription: VAT', 2, "cannot be printed"),
        ("name: tax-help\ndescription: [VAT", 3, "no YAML"),
        ("- a\n- b", 2, "no list of `key: value`"),
        ("name: tax-help\nname: other\ndescription: VAT", 3, "`name` stands twice"),
        ("name: a\ndescription: x: y\nallowed-tools: A\nallowed-tools: B", 3, "no YAML"),
        ("name: tax-help\ndescription: VAT\nallowed-tools:\n  Read: yes", 4, "`allowed-tools`"),
        ("name: tax-help\ndescription: VAT\nallowed-tools: Bash(", 4, "is left over"),
        ("name: tax-help\ndescription: VAT\nallowed-tools: A\nallowed_tools: B", 5, "same field"),
        ("name: &x tax-help\ndescription: *x", 2, "Anchors"),
        ("name: tax-help\ndescription: VAT\nmetadata: " + "[" * 2000, 4, "deep"),
        ("name: tax-help\ndescription: " + "x" * 70_000, 1, "longer than"),
        ("name: tax-help\ndescription: VAT\n\tmetadata: x", 4, "no YAML"),
        ("name: tax-help\ndescription: a \x07 bell", 3, "no YAML"),
        ('name: tax-help\ndescription: "\\U00110000"', 2, "no YAML"),
        ('name: tax-help\ndescription: "\\UFFFFFFFF"', 2, "no YAML"),
        ("%YAML 1." + "9" * 5000, 2, "no YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, head: str, line: int, why: str
) -> None:
    """One skill is an error; among others it is left out, with a warning that says the same."""
    folder = skill_in(tmp_path, head=head)
    skill_in(tmp_path, "good")

    with pytest.raises(SkillInvalid) as caught:
        load_skill(folder)
    assert str(caught.value).startswith(f"{folder}/SKILL.md:{line}: ")
    assert why in str(caught.value)
    assert [each.name for each in load_skills(tmp_path)] == ["good"]
    assert str(caught.value) in caplog.text


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"", 1, "does not begin"),
        (b"# Title\n---\nname: a\n---\n", 1, "does not begin"),
        (b"---\nname: a\ndescription: b\n", 1, "has no end"),
        (b"---\nname: a\ndescription: \xff\n---\n", 3, "no UTF-8"),
        (b"\xff\xfe-\0-\0-\0", 1, "no UTF-8"),
        (b"---\nname: a\ndescription: b\n---\n" + b"x" * 1_000_001, 1, "larger than"),
    ],
)
def test_what_is_no_skill_file(tmp_path: Path, content: bytes, line: int, why: str) -> None:
    """A file that is none is refused with its line."""
    folder = skill_in(tmp_path)
    (folder / "SKILL.md").write_bytes(content)

    with pytest.raises(SkillInvalid, match=rf"SKILL\.md:{line}: .*{why}"):
        load_skill(folder)


@pytest.mark.parametrize(
    ("head", "warns"),
    [
        ("name: Tax_Help\ndescription: VAT", "in lower case"),
        ("name: other\ndescription: VAT", "is not called 'other'"),
        ("name: tax-help\ndescription: " + "x" * 1068, "has 1068 characters"),
        ("name: tax-help\ndescription: VAT\nmetadata: text", "`metadata` is to be keys"),
        ("name: tax-help\ndescription: VAT\nlicense: [a]", "`license` is to be a text"),
        ("name: tax-help\ndescription: VAT\ncompatibility: " + "x" * 501, "501 characters"),
    ],
)
def test_what_breaks_the_rules_and_can_be_lived_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, head: str, warns: str
) -> None:
    """It is loaded, with a warning."""
    skill = load_skill(skill_in(tmp_path, head=head))

    assert skill.instructions == "Body."
    assert warns in caplog.text


def test_scalars_are_texts(tmp_path: Path) -> None:
    """Nothing becomes a number, a date or a truth value."""
    head = "name: no\ndescription: 1.0\nmetadata:\n  version: 1.10\n  when: 2026-01-01"
    skill = load_skill(skill_in(tmp_path, "no", head))

    assert (skill.name, skill.description) == ("no", "1.0")
    assert skill.metadata == {"version": "1.10", "when": "2026-01-01"}


def test_names_in_other_scripts(tmp_path: Path) -> None:
    """A name may be written in any script, and is the same however it is composed."""
    composed, taken_apart = "caf\u00e9-\u6d4b\u8bd5", "cafe\u0301-\u6d4b\u8bd5"
    head = f"name: {taken_apart}\ndescription: x"

    assert load_skill(skill_in(tmp_path, composed, head)).name == composed


def test_exclude_and_what_is_no_skill(tmp_path: Path) -> None:
    """Folders and names can be left out; folders without SKILL.md and files are none."""
    for name in ("b", "a", "c"):
        skill_in(tmp_path, name)
    skill_in(tmp_path, "folder", "name: d\ndescription: x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text("x")

    assert [each.name for each in load_skills(tmp_path)] == ["a", "b", "c", "d"]
    assert [each.name for each in load_skills(tmp_path, exclude=["a", "d"])] == ["b", "c"]
    assert [each.name for each in load_skills(tmp_path, exclude=["folder"])] == ["a", "b", "c"]
    with pytest.raises(ConfigError, match="give a list of names"):
        load_skills(tmp_path, exclude="a")
    with pytest.raises(SkillInvalid, match="cannot be read: No such file"):
        load_skills(tmp_path / "none")
    with pytest.raises(SkillInvalid, match="The file is missing"):
        load_skill(tmp_path / "empty")
    with pytest.raises(SkillInvalid, match="There is no folder"):
        load_skill(tmp_path / "none")
    with pytest.raises(ConfigError, match="none of 'on_demand', 'eager'"):
        load_skill(tmp_path / "a", load="lazy")  # pyright: ignore[reportArgumentType]


def test_a_second_skill_of_a_name_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first by the folder's name stays."""
    skill_in(tmp_path, "a", "name: same\ndescription: first")
    skill_in(tmp_path, "b", "name: same\ndescription: second")

    assert [each.description for each in load_skills(tmp_path)] == ["first"]
    assert "both called 'same'" in caplog.text


def test_bs_59_links_that_lead_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A skill that is a link to elsewhere is left out; so is one whose SKILL.md is one."""
    outside = skill_in(tmp_path / "outside", "secret")
    inside = tmp_path / "inside"
    skill_in(inside, "real")
    (inside / "linked").symlink_to(outside)
    (inside / "file").mkdir()
    (inside / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (inside / "pipe").mkdir()
    os.mkfifo(inside / "pipe" / "SKILL.md")

    assert [each.name for each in load_skills(inside)] == ["real"]
    assert "linked is a link that leads elsewhere" in caplog.text
    assert "is outside the skill" in caplog.text
    assert "no regular file" in caplog.text
    assert load_skill(inside / "linked").name == "secret"  # it was named by the developer


def test_it_is_read_again_when_it_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An edit is seen; what was broken or removed stays as it was, and what was given stays."""
    folder = skill_in(tmp_path)
    first = replace(load_skill(folder), description="Mine.")
    assert read_again(first) is first

    skill_in(tmp_path, body="Another body.")
    second = read_again(first)
    assert (second.instructions, second.description) == ("Another body.", "About tax-help.")

    (folder / "SKILL.md").write_text("broken")
    third = read_again(second)
    assert (third.instructions, read_again(third)) == ("Another body.", third)
    assert caplog.text.count("stays as it was") == 1

    (folder / "SKILL.md").unlink()
    assert read_again(third).instructions == "Another body."
    folder.rmdir()
    outside = skill_in(tmp_path / "outside")
    folder.symlink_to(outside)
    assert read_again(third).instructions == "Another body."


class TestWithoutYaml:
    """The package for YAML is not needed for plain front matter."""

    @pytest.fixture(autouse=True)
    def missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not installed."""
        monkeypatch.setitem(sys.modules, "yaml", None)
        monkeypatch.delitem(sys.modules, "treadle.skills._yaml", raising=False)

    def test_plain(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Texts, simple quotes, comments, a map and a list mean what they mean in YAML."""
        head = (
            "# first\nname: 'tax-help' # its name\ndescription: VAT #1, and more # but not this\n"
            'license: "MIT"\n\nmetadata:\n  version: "1.0"\n  # so\n'
            "allowed-tools:\n- Read\n- Write"
        )
        skill = load_skill(skill_in(tmp_path, head=head))

        assert (skill.name, skill.license) == ("tax-help", "MIT")
        assert skill.description == "VAT"
        assert skill.metadata == {"version": "1.0"}
        assert skill.allowed_tools == ("Read", "Write")
        assert not caplog.text

    def test_colons(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """What would be no YAML is read, and told of."""
        head = "name: tax-help\ndescription: For: VAT"
        assert load_skill(skill_in(tmp_path, head=head)).description == "For: VAT"
        assert "SKILL.md:3: This is no YAML" in caplog.text

    @pytest.mark.parametrize(
        "value", ["|\n  a", ">", "[a]", "{a: b}", '"a \\n"', "'it''s'", "&a b", "a\n  b", "!!str a"]
    )
    def test_the_rest_needs_it(self, tmp_path: Path, value: str) -> None:
        """What is more than plain says how to install it, in a folder of many, too."""
        skill_in(tmp_path, head=f"name: tax-help\ndescription: {value}")

        with pytest.raises(
            MissingExtra, match=r'SKILL\.md:[34]: .* pip install "treadle\[skills\]"'
        ):
            load_skills(tmp_path)
