"""What waits for somebody's decision, and what can be decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Approve(Struct, frozen=True):
    """Yes: the call runs as the model wrote it.

    With every decision, `by` is who decided and `note` why: for the journal, not for the model.
    """

    by: str = ""
    note: str = ""


class Edit(Struct, frozen=True):
    """Yes, but with these arguments in place of the model's; others stay as they are.

    For a call that wants an answer of some schema, they are that answer instead.
    """

    arguments: dict[str, Any]
    by: str = ""
    note: str = ""


class Deny(Struct, frozen=True):
    """No: the call does not run, and the model is told why."""

    reason: str = ""
    by: str = ""
    note: str = ""


Decision = Approve | Edit | Deny
Decisions = Mapping[str, Decision]


class PendingCall(Struct, frozen=True):
    """A call that waits for a decision. `reason` is "" when its tool always asks.

    `call_id` is what a decision names. Of a call that asks again it names the question, too, as in
    "c1#2": a decision that was made twice is none about what was not seen.
    With a `schema` (a JSON Schema object) it wants an answer of that schema, which `Edit` gives.
    `path` is that of the child run that made it, "" for the run itself.
    """

    call_id: str
    name: str
    arguments: dict[str, Any]
    reason: str = ""
    schema: dict[str, Any] | None = None
    path: str = ""
