"""Conversations of a store as text on a terminal: messages, waiting calls, runs, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from treadle.cli.printing import EventPrinter, call_in_brief, usage_in_brief
from treadle.cli.prompt import CONTINUED, PROMPT
from treadle.cli.terminal import Terminal, visible
from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.ports.approval import PendingCall
from treadle.run_record import RunRecord


class Transcript:
    """Prints messages as a chat shows them while they come."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shows = terminal.stdout.isatty()
        self._printer = EventPrinter(terminal, notes=terminal.stdout)
        self._paint = terminal.paint(terminal.stdout)

    def show(self, messages: Iterable[Message], *, waiting: Sequence[PendingCall] = ()) -> None:
        """Print messages, what users said behind a prompt. Calls that wait have no result yet."""
        calls = {call.call_id for call in waiting}
        for message in messages:
            if message.role in ("user", "system"):
                self._said(message)
                continue
            for part in message.parts:
                if isinstance(part, ToolResult) and part.synthetic and part.call_id in calls:
                    self._printer.note(self._paint.dim(f"   {part.name} waits for a decision"))
                else:
                    self._part(part)
            if message.incomplete:
                self._printer.note("[cut off]")

    def _said(self, message: Message) -> None:
        pieces = [p.text if isinstance(p, Text) else _media(p) for p in message.parts]
        lines = self._seen("\n".join(pieces)).split("\n")
        mark = PROMPT if message.role == "user" and not message.advice else "# "
        for place, line in enumerate(lines):
            self._printer.note(self._paint.bold(f"{CONTINUED if place else mark}{line}"))

    def _part(self, part: Part) -> None:
        match part:
            case Text(text=text):
                self._printer.note(self._seen(text.removesuffix("\n")))
            case Reasoning(text=text):
                if self._paint.on and text:
                    self._printer.note(self._paint.dim(self._seen(text)))
            case ToolCall():
                self._printer.call(part.name, part.arguments)
            case ToolResult():
                media = [_media(each) for each in part.parts if not isinstance(each, Text)]
                text = "\n".join([*([part.text] if part.text else []), *media])
                self._printer.result(part.name, text, failed=part.is_error)
            case _:
                self._printer.note(_media(part))

    def _seen(self, text: str) -> str:
        return visible(text) if self._shows else text


def last_exchanges(messages: Sequence[Message], *, exchanges: int, most: int) -> Sequence[Message]:
    """Return the end of a history: from what a user said on, `most` messages at most."""
    said = [
        place
        for place, message in enumerate(messages)
        if message.role == "user" and not message.advice
    ]
    start = said[-exchanges] if len(said) >= exchanges else 0
    return messages[max(start, len(messages) - most) :]


def waiting_lines(calls: Sequence[PendingCall]) -> list[str]:
    """Return a line for each call that waits for a decision."""
    return [
        f"  {visible(call.call_id)}  {call_in_brief(call.name, call.arguments)}"
        f"{f'  ({visible(call.reason)})' if call.reason else ''}"
        for call in calls
    ]


def run_lines(runs: Iterable[RunRecord]) -> list[str]:
    """Return two lines for each run: how it stands, and what it used."""
    lines: list[str] = []
    for run in runs:
        why = run.error or run.reason
        status = run.status if run.status != "stopped" else f"stopped ({run.stop_reason})"
        lines.append(
            f"  {visible(run.run_id)}  {visible(run.agent)}  {status}, "
            f"{_counted(run.turns, 'turn')}, {local(run.started_at)}, {run.seconds:.1f} s"
        )
        lines.append(f"    {usage_in_brief(run.usage)}")
        if why:
            lines.append(f"    {visible(' '.join(why.split()))}")
    return lines


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under their headings, each column as wide as it has to be."""
    shown = [[visible(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]


def local(at: datetime) -> str:
    """Return a time as the clock on the wall shows it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _media(part: Part) -> str:
    """Return what stands in place of what a terminal cannot show."""
    if isinstance(part, Hosted):
        return visible(f"[{part.name}, run by the provider]")
    if not isinstance(part, Image | Audio | File):
        return ""
    kind = type(part).__name__.lower()
    name = getattr(part, "name", None) or part.url or part.media_type or ""
    size = f", {len(part.content)} bytes" if part.content else ""
    return visible(f"[{kind} {str(name)[:80]}{size}]")
