"""`treadle conversations`: look at what a store has, fork it and forget it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from typing import get_args

from treadle.agent.approval import pending
from treadle.agent.conversation import Conversation
from treadle.cli.decisions import Decided
from treadle.cli.keeping import Keeping, in_store, open_existing
from treadle.cli.options import add_debug, add_store, show_help
from treadle.cli.records import call_record, head_record, plain_record, run_record, to_json
from treadle.cli.terminal import Terminal, visible
from treadle.cli.transcript import Transcript, local, run_lines, table, waiting_lines
from treadle.errors import ConfigError
from treadle.ports.store import ConversationStatus
from treadle.view import View

HEADS = ("ID", "STATUS", "REVISION", "NEWEST RUN", "WAITING", "LAST CHANGE")
EXITS = "Exit codes: 0 ok, 1 not found, busy or unreachable, 2 wrong usage, 130 interrupted."

EPILOG = f"""\
examples:
  treadle conversations list --store sqlite:///chat.db --status paused
  treadle conversations show ann --store sqlite:///chat.db --revision 7
  treadle conversations fork ann --store file:chats --run run_01 --id ann-again
  treadle conversations delete ann --store sqlite:///chat.db --yes

{EXITS}
"""


def describe_conversations(parser: argparse.ArgumentParser) -> None:
    """Describe the command and those below it."""
    parser.description = "Look at the conversations of a store, fork and delete them."
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_debug(parser)
    parser.set_defaults(command=show_help(parser))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary, command, describe in (
        ("list", "list conversations, the last changed first", list_conversations, _describe_list),
        ("show", "show messages, waiting calls and runs of one", show_conversation, _describe_show),
        ("fork", "copy one, as it is or was", fork_conversation, _describe_fork),
        ("delete", "forget one with all that belongs to it", delete_conversation, _describe_delete),
    ):
        each = below.add_parser(name, help=summary)
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.set_defaults(command=command)
        add_store(each, required=True)
        describe(each)
        each.epilog = f"{each.epilog}\n{EXITS}\n"
        add_debug(each)


def _describe_list(parser: argparse.ArgumentParser) -> None:
    parser.description = "List the conversations of a store, the last changed first."
    parser.epilog = (
        "WAITING counts messages that no run has taken in yet. Times are those of this machine;\n"
        "in JSON they are UTC."
    )
    parser.add_argument(
        "--status",
        choices=get_args(ConversationStatus),
        help="only those whose newest run stands like this",
    )
    parser.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="how many at most (default: 50)"
    )
    parser.add_argument(
        "--after", dest="last", metavar="ID", help="those that come after this one: a next page"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")


def _describe_show(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show a conversation: its messages, calls that wait, what was decided, and its runs."
    )
    parser.epilog = "example: treadle conversations show ann --store sqlite:///chat.db --entries"
    parser.add_argument("id", metavar="ID", help="the conversation")
    parser.add_argument(
        "--revision", type=int, metavar="N", help="show it as it was at this revision"
    )
    parser.add_argument(
        "--entries", action="store_true", help="show the journal: a line of JSON for each entry"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; with --entries one for each entry, a line each",
    )


def _describe_fork(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy a conversation, as it is now or as it was, and print the copy's ID. A run that has\n"
        "not ended there is over in the copy."
    )
    parser.epilog = "example: treadle conversations fork ann --store file:chats --revision 7"
    parser.add_argument("id", metavar="ID", help="the conversation")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--run", metavar="RUN", help="copy through the end of this run")
    where.add_argument("--revision", type=int, metavar="N", help="copy through this revision")
    parser.add_argument("--id", dest="new_id", metavar="NEW", help="the copy's ID (default: new)")


def _describe_delete(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Forget a conversation with all that belongs to it, unless a run is at work in it. On a\n"
        "terminal you are asked first."
    )
    parser.epilog = "example: treadle conversations delete ann --store file:chats --yes"
    parser.add_argument("id", metavar="ID", help="the conversation")
    parser.add_argument("--yes", action="store_true", help="do not ask")


@in_store
async def list_conversations(
    options: argparse.Namespace, terminal: Terminal, keeping: Keeping
) -> int:
    """Print a page of conversations.

    Raises:
        ConversationNotFound: the one that the page is to begin after is not there.
    """
    store, limit = keeping.store, options.limit
    after = None if options.last is None else await Conversation.open(options.last, store=store)
    found = await Conversation.list(
        store=store, status=options.status, limit=limit + 1, after=after
    )
    heads = [conversation.head for conversation in found[:limit]]
    if options.json:
        for head in heads:
            print(to_json(head_record(head)), file=terminal.stdout)
        return 0
    rows = [
        (
            head.conversation_id,
            head.status,
            str(head.revision),
            head.run_id or "-",
            str(head.pending),
            local(head.updated_at),
        )
        for head in heads
    ]
    lines = table(HEADS, rows) if rows else ["No conversations."]
    print("\n".join(lines), file=terminal.stdout)
    if len(found) > limit:
        print(_next_page(options, keeping, heads[-1].conversation_id), file=terminal.stderr)
    return 0


def _next_page(options: argparse.Namespace, keeping: Keeping, last: str) -> str:
    words = ["treadle", "conversations", "list", *keeping.words()]
    words += ["--status", options.status] if options.status else []
    return f"More: {visible(shlex.join([*words, '--limit', str(options.limit), '--after', last]))}"


@in_store
async def show_conversation(
    options: argparse.Namespace, terminal: Terminal, keeping: Keeping
) -> int:
    """Print a conversation, at a revision or as it is now.

    Raises:
        ConversationNotFound: there is no such conversation.
        InvalidInput: it has no such revision.
    """
    conversation = await Conversation.open(options.id, store=keeping.store)
    view = await conversation.view(options.revision)
    if options.entries:
        await _show_entries(conversation, view.revision, terminal, as_json=options.json)
        return 0
    decided = Decided(
        entry
        for entry_id, entry in await conversation.entries()
        if int(entry_id.partition(".")[0]) <= view.revision
    )
    if options.json:
        print(to_json(_record(conversation, view, decided)), file=terminal.stdout)
    else:
        _show(conversation, view, decided, terminal)
    return 0


async def _show_entries(
    conversation: Conversation, revision: int, terminal: Terminal, *, as_json: bool
) -> None:
    for entry_id, entry in await conversation.entries():
        if int(entry_id.partition(".")[0]) > revision:
            break
        record = plain_record(entry)
        line = to_json({"id": entry_id, **record} if as_json else record)
        print(line if as_json else f"{entry_id}  {visible(line)}", file=terminal.stdout)


def _record(conversation: Conversation, view: View, decided: Decided) -> dict[str, object]:
    forked = view.forked
    return {
        **head_record(conversation.head),
        "shown_revision": view.revision,
        "forked_from": None if forked is None else {"id": forked.parent, "at": forked.revision},
        "messages": [plain_record(message) for message in view.messages],
        "queued": [plain_record(message) for message in view.mail.inbox.values()],
        "pending": [call_record(call) for call in pending(view)],
        "decisions": decided.records(),
        "runs": [run_record(run) for run in view.runs.values()],
    }


def _show(conversation: Conversation, view: View, decided: Decided, terminal: Terminal) -> None:
    head, bold = conversation.head, terminal.paint(terminal.stdout).bold
    at = f"revision {view.revision}"
    if view.revision != head.revision:
        at += f" of {head.revision}"
    lines = [bold(f"{visible(head.conversation_id)}: {_status(view)}, {at}")]
    lines.append(f"changed {local(head.updated_at)}, begun {local(head.created_at)}")
    if view.forked is not None:
        forked = view.forked
        lines.append(f"a fork of {visible(forked.parent)} at revision {forked.revision}")
    print("\n".join([*lines, ""]), file=terminal.stdout)
    transcript = Transcript(terminal)
    calls = pending(view)
    transcript.show(view.messages, waiting=calls)
    if view.mail.inbox:
        print(bold("\nmessages that wait for a run"), file=terminal.stdout)
        transcript.show(view.mail.inbox.values())
    if calls:
        told = [bold("\ncalls that wait for a decision"), *waiting_lines(calls)]
        print("\n".join(told), file=terminal.stdout)
    if lines := decided.lines():
        print("\n".join([bold("\ndecisions"), *lines]), file=terminal.stdout)
    if view.runs:
        told = [bold("\nruns"), *run_lines(view.runs.values())]
        print("\n".join(told), file=terminal.stdout)


def _status(view: View) -> str:
    last = view.last_run
    return "new" if last is None else last.status


@in_store
async def fork_conversation(
    options: argparse.Namespace, terminal: Terminal, keeping: Keeping
) -> int:
    """Copy a conversation and print the copy's ID.

    Raises:
        ConversationNotFound: there is no such conversation.
        RunNotFound: it has no such run.
        ConfigError: it has no such revision, or the new ID cannot be used.
    """
    conversation = await Conversation.open(options.id, store=keeping.store)
    branch = await conversation.fork(options.run, revision=options.revision, new_id=options.new_id)
    print(branch.id, file=terminal.stdout)
    return 0


def delete_conversation(options: argparse.Namespace, terminal: Terminal) -> int:
    """Forget a conversation, after a yes where nobody has said it with an option.

    Raises:
        ConversationNotFound: there is no such conversation.
        ConversationBusy: a run is at work in it.
        ConfigError: there is nobody to ask.
    """
    if not options.yes and not terminal.can_ask:
        raise ConfigError("There is nobody to ask; say --yes to delete the conversation.")
    keeping = open_existing(options.store)
    with asyncio.Runner() as runner:
        try:
            conversation = runner.run(Conversation.open(options.id, store=keeping.store))
            if not options.yes and not _confirmed(conversation, terminal):
                print("Nothing was deleted.", file=terminal.stderr)
                return 1
            runner.run(conversation.delete())
            print(f"Deleted {visible(conversation.id)}.", file=terminal.stderr)
            return 0
        finally:
            runner.run(keeping.close())


def _confirmed(conversation: Conversation, terminal: Terminal) -> bool:
    head = conversation.head
    typed = terminal.ask(
        f"Delete conversation {visible(head.conversation_id)} ({head.status}, "
        f"revision {head.revision}) for good? [y/N] "
    )
    return (typed or "").lower() in ("y", "yes")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of conversations; give 1 or more")
    return int(text)
