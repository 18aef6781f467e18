"""What waits for somebody's decision, and what can be decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Approve(Struct, frozen=True):
    """Yes: the call runs as the model wrote it."""


class Edit(Struct, frozen=True):
    """Yes, but with these arguments in place of the model's; others stay as they are."""

    arguments: dict[str, Any]


class Deny(Struct, frozen=True):
    """No: the call does not run, and the model is told why."""

    reason: str = ""


Decision = Approve | Edit | Deny
Decisions = Mapping[str, Decision]


class PendingCall(Struct, frozen=True):
    """A call that waits for a decision. `reason` is "" when its tool always asks."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    reason: str = ""
