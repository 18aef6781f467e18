"""What was decided on the calls of a conversation, by whom or by which rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.cli.terminal import visible
from treadle.cli.transcript import local
from treadle.journal import AnyEntry, ApprovalDecided, ModelReplied

MOST_LINES = 50
_VERDICTS = {"approve": "approved", "edit": "approved with other arguments", "deny": "denied"}


class Decided:
    """The decisions of a conversation, with the names of the tools that they are about."""

    def __init__(self, entries: Iterable[AnyEntry]) -> None:
        self._names: dict[str, str] = {}
        self._entries: list[ApprovalDecided] = []
        for entry in entries:
            if isinstance(entry, ModelReplied):
                self._names.update((call.id, call.name) for call in entry.message.tool_calls)
            elif isinstance(entry, ApprovalDecided):
                self._entries.append(entry)

    def lines(self) -> list[str]:
        """Return a line for each decision, the newest ones where there are many."""
        left_out = len(self._entries) - MOST_LINES
        lines = [f"  ({left_out} before these; --entries shows all)"] if left_out > 0 else []
        return lines + [self._line(entry) for entry in self._entries[-MOST_LINES:]]

    def records(self) -> Sequence[dict[str, object]]:
        """Return all decisions as JSON values."""
        return [
            {
                "at": entry.at,
                "call_id": entry.call_id,
                "name": self._name(entry),
                "verdict": entry.verdict,
                "by": entry.by,
                "rule": entry.rule,
                "reason": entry.reason,
                "note": entry.note,
                "asked": not entry.name,
            }
            for entry in self._entries
        ]

    def _name(self, entry: ApprovalDecided) -> str:
        return entry.name or self._names.get(entry.call_id, "")

    def _line(self, entry: ApprovalDecided) -> str:
        who = entry.by or ("a rule" if entry.name else "somebody")
        rule = f", rule {entry.rule!r}" if entry.rule else ""
        why = " ".join("; ".join(filter(None, (entry.reason, entry.note))).split())
        call = f"{self._name(entry)} ({entry.call_id})"
        line = f"{local(entry.at)}  {call}: {_VERDICTS[entry.verdict]} by {who}{rule}"
        return visible(f"  {line}{f' ({why})' if why else ''}")
