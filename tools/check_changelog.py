"""Refuse a version that the changelog does not open with or the installed package lacks."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import treadle

ENTRY = re.compile(
    r"^## \[(?P<version>[^\]]+)\] - (?P<date>unreleased|\d{4}-\d{2}-\d{2})$", re.MULTILINE
)
KINDS = {"Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"}


def findings(changelog: str) -> list[str]:
    """Say what is wrong with the changelog, or with the version beside it."""
    found: list[str] = []
    top = ENTRY.search(changelog)
    if top is None:
        return [
            "CHANGELOG.md: no entry like '## [1.2.3] - 2030-01-31' or '## [1.2.3] - unreleased'"
        ]
    named = {
        "the top entry of CHANGELOG.md": top["version"],
        "treadle.__version__": treadle.__version__,
        "the installed package (run `make setup`)": version("treadle"),
    }
    if len(set(named.values())) > 1:
        found += [f"{where} says {what}" for where, what in named.items()]
    strange = sorted(set(re.findall(r"^### (.+)$", changelog, re.MULTILINE)) - KINDS)
    found += [
        f"CHANGELOG.md: {kind!r} is not one of {', '.join(sorted(KINDS))}" for kind in strange
    ]
    return found


if __name__ == "__main__":
    wrong = findings(Path("CHANGELOG.md").read_text(encoding="utf-8"))
    print("\n".join(wrong) or f"changelog: opens with {treadle.__version__}")
    sys.exit(bool(wrong))
