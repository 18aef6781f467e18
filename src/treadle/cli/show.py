"""`treadle show`: what one run said, used and had in its window."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from treadle.agent.context_use import ContextUse, recorded_use
from treadle.agent.conversation import Conversation
from treadle.cli.keeping import Keeping, in_store
from treadle.cli.options import add_debug, add_store
from treadle.cli.printing import usage_in_brief
from treadle.cli.records import plain_record, run_record, to_json
from treadle.cli.terminal import Terminal, visible
from treadle.cli.transcript import Transcript, run_lines, table
from treadle.errors import RunNotFound
from treadle.journal import AnyEntry, Compacted, ModelReplied
from treadle.run_record import RunRecord
from treadle.view import View

EPILOG = """\
examples:
  treadle show run_01 --store sqlite:///chat.db
  treadle show run_01 --store sqlite:///chat.db --context

Exit codes: 0 ok, 1 not found or unreachable, 2 wrong usage, 130 interrupted.
"""
PARTS = ("instructions", "tools", "skills", "output", "history", "media")


def describe_show(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Show one run of a stored conversation: what was said, how it ended, what it used.\n"
        "With --context, what filled the model's window at its last request, and which old turns\n"
        "have left it. Tokens are estimates, brought to what the provider counted."
    )
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", metavar="RUN", help="the run's ID")
    add_store(parser, required=True)
    parser.add_argument("--context", action="store_true", help="show what fills the window")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_debug(parser)
    parser.set_defaults(command=show_run)


@in_store
async def show_run(options: argparse.Namespace, terminal: Terminal, keeping: Keeping) -> int:
    """Print one run.

    Raises:
        RunNotFound: the store has no such run.
    """
    found = await keeping.store.find(options.run)
    conversation = await Conversation.open(found, store=keeping.store)
    view, record = await _at_its_end(conversation, options.run)
    entries = [entry for _, entry in await conversation.entries() if entry.run_id == options.run]
    if options.context:
        _show_context(view, record, entries, terminal, as_json=options.json)
    elif options.json:
        messages = [plain_record(message) for message in view.messages[record.place :]]
        print(to_json({**run_record(record), "messages": messages}), file=terminal.stdout)
    else:
        Transcript(terminal).show(view.messages[record.place :])
        print("\n".join(run_lines([record])), file=terminal.stdout)
    return 0


async def _at_its_end(conversation: Conversation, run_id: str) -> tuple[View, RunRecord]:
    view = await conversation.view()
    record = view.runs.get(run_id)
    if record is None:
        raise RunNotFound(f"There is no run {run_id!r} in conversation {conversation.id!r}.")
    if record.revision and record.revision < view.revision:
        view = await conversation.view(record.revision)
    return view, view.runs[run_id]


def _show_context(
    view: View,
    record: RunRecord,
    entries: Sequence[AnyEntry],
    terminal: Terminal,
    *,
    as_json: bool,
) -> None:
    counts = [
        entry.usage.input_tokens
        for entry in entries
        if isinstance(entry, ModelReplied) and not entry.path
    ]
    counted = counts[-1] if counts else 0
    use = recorded_use(view, record, counted)
    left = [entry for entry in entries if isinstance(entry, Compacted)]
    if as_json:
        print(to_json(_as_record(record, use, counted, left)), file=terminal.stdout)
        return
    bold = terminal.paint(terminal.stdout).bold
    rows = [
        (part, f"{size:,}", f"{size / max(use.total, 1):.0%}")
        for part in PARTS
        if (size := getattr(use, part))
    ]
    rows.append(("in all", f"{use.total:,}", "" if counted else "estimated"))
    lines = [bold(f"the last request of {visible(record.run_id)}, in tokens")]
    lines += table(("WHAT", "TOKENS", "SHARE"), rows)
    if left:
        lines.append(bold("\nold turns that have left the history"))
    for entry in left:
        gone = sum(cut.stop - cut.start for cut in entry.cuts)
        where = f" in {visible(entry.path)}" if entry.path else ""
        what = f"{gone} messages" if gone else "none: the note failed"
        yielded = f", of protected kinds: {', '.join(entry.yielded)}" if entry.yielded else ""
        lines.append(f"  {entry.strategy}{where}: {what}{yielded}")
        lines.append(f"    {usage_in_brief(entry.usage)}")
    print("\n".join(lines), file=terminal.stdout)


def _as_record(
    record: RunRecord, use: ContextUse, counted: int, left: Sequence[Compacted]
) -> dict[str, object]:
    return {
        "run_id": record.run_id,
        "counted": counted or None,
        "total": use.total,
        **{part: getattr(use, part) for part in PARTS},
        "compactions": [plain_record(entry) for entry in left],
    }
