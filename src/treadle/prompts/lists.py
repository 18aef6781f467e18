"""Lists in the text of a prompt."""

from __future__ import annotations

from collections.abc import Sequence


def bullet_list(items: Sequence[str]) -> str:
    """Return the items as lines with a dash; blank ones are left out."""
    return "\n".join(f"- {item.strip()}" for item in items if item.strip())


def numbered_list(items: Sequence[str]) -> str:
    """Return the items as numbered lines; blank ones are left out."""
    kept = [item.strip() for item in items if item.strip()]
    return "\n".join(f"{number}. {item}" for number, item in enumerate(kept, 1))
