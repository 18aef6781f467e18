"""Folders of skills, for tests."""

from __future__ import annotations

from pathlib import Path


def skill_in(parent: Path, name: str = "tax-help", head: str = "", body: str = "Body.") -> Path:
    """Make a skill's folder; `head` is its front matter, by default a good one."""
    folder = parent / name
    folder.mkdir(parents=True, exist_ok=True)
    head = head or f"name: {name}\ndescription: About {name}."
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n{body}\n", encoding="utf-8")
    return folder
