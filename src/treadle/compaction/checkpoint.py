"""A record of facts with every exact reference stands for what has left the view."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode

from treadle.compaction.facts import Facts, Superseded
from treadle.compaction.json_reply import beginning_in, object_in
from treadle.compaction.known import Known
from treadle.compaction.patterns import LONGEST
from treadle.compaction.records import Record, records_of, returned_in, said_in
from treadle.compaction.references import Reference
from treadle.compaction.strategy import Ask, Gone
from treadle.compaction.transcript import RULE, quoted, shortened
from treadle.compaction.turns import Kind
from treadle.compaction.writing import note_size, pieces, question, written
from treadle.errors import CompactionFailed
from treadle.values import is_array

_SYSTEM = (
    "You keep the memory of an AI agent as a checkpoint. Older messages of its conversation leave "
    "its view, and the checkpoint is all that it will know of them. Bring the checkpoint so far "
    "up to date with them.\n"
    "Answer with one JSON object and nothing else. Its keys, each of which may be left out:\n"
    '"user_goal", "hard_constraints", "pinned_facts" (must never be lost), "preferences", '
    '"confirmed_facts", "decisions", "artefacts" (what was made, and where), "tool_outcomes", '
    '"failed_attempts", "open_questions", "next_actions": each a list of short texts that say one '
    "thing, and end with the records that say so, for example "
    '"The service listens on port 8443. [M0007 M0012]".\n'
    '"rolling_summary": one text on what happened, old and new.\n'
    '"superseded": a list of {"was": a fact of the checkpoint so far that no longer holds, was '
    'answered or done, word for word; "now": what holds instead}.\n'
    '"exact_references": a list of names, addresses and codes to keep as they are spelled.\n'
    "Facts of the checkpoint so far stay by themselves: do not repeat them. To change or join "
    'some, write the new fact, and list the old ones under "superseded". Write all next actions '
    "each time. Say only what the messages say, in their language; spell numbers, names, paths, "
    f"dates and identifiers exactly.\n{RULE}"
)


class Checkpoint:
    """The tool traffic goes but for the newest messages; facts and exact references are kept.

    A model says what the facts are. Code keeps what it forgets, finds the exact references (URLs,
    paths, dates, identifiers, numbers with units) and never leaves one out that there is room for.
    """

    name = "checkpoint"
    keep_recent = 8
    protect: tuple[Kind, ...] = ("user", "final", "skills")
    share = 1.0

    async def note(self, gone: Gone, ask: Ask) -> str:
        """Return the checkpoint as compact JSON, at most `gone.tokens` long.

        An answer that breaks off, even when it is asked for again, counts as far as it goes.

        Raises:
            ModelError: the model could not be asked.
            CompactionFailed: it wrote no JSON at all.
        """
        known, records = _read(gone)
        writer = _Writer(gone, ask)
        for piece in pieces(gone, records, _SYSTEM, gone.tokens):
            told = await writer.told(known.facts, piece)
            new = Facts.of(told, known.count)
            before = len(known.facts.superseded)
            known.facts = known.facts.merged(new)
            _keep_spelled(known, told.get("exact_references"), records)
            _outdate(known, known.facts.superseded[before:])
        return known.fitted(gone.tokens, gone.weigh)

    def without_model(self, gone: Gone) -> str | None:
        """Return the checkpoint as far as code can bring it: for when no model can be asked.

        The facts so far stay, and the exact references of what leaves. None where there is nothing.
        """
        known, _ = _read(gone)
        if gone.note is None and not known.references.known:
            return None
        return known.fitted(gone.tokens, gone.weigh)


def _read(gone: Gone) -> tuple[Known, list[Record]]:
    """Return what the note so far says, with the references of what leaves; and its records."""
    known = Known.of(gone.note)
    records = records_of(gone.turns, known.count + 1)
    known.count += len(records)
    known.references.read(records)
    return known, records


class _Writer:
    """Asks the model what is new in a piece; once more where it writes no JSON object."""

    def __init__(self, gone: Gone, ask: Ask) -> None:
        self._gone = gone
        self._ask = ask

    async def told(self, facts: Facts, piece: str) -> dict[str, Any]:
        gone = self._gone
        wanted = f"Write the JSON object now, of at most {note_size(gone):,} tokens."
        text = question(self._shown(facts), "The checkpoint", piece, wanted)
        first = await written(gone, self._ask, _SYSTEM, text)
        try:
            return object_in(first)
        except ValueError as error:
            problem = f"{error!s:.120}"
        again = f"{text}\nYour last answer was of no use: {problem}. Write only the JSON object."
        reply = await written(gone, self._ask, _SYSTEM, again)
        try:
            return object_in(reply)
        except ValueError as error:
            if beginning := beginning_in(reply) or beginning_in(first):
                return beginning  # what it does not say of the rest is kept by code
            raise CompactionFailed(
                f"The model wrote a checkpoint that is no JSON object, twice: {error!s:.120}. "
                f"It begins {reply[:80]!r}."
            ) from error

    def _shown(self, facts: Facts) -> str:
        """Return the facts as the model is shown them: what was superseded is of no use to it."""
        told = facts.plain()
        told.pop("superseded", None)
        if not told:
            return ""
        text = encode(told).decode().replace("],", "],\n")
        return shortened(text, self._gone.tokens, lambda each: self._gone.weigh(quoted(each)))


def _keep_spelled(known: Known, named: Any, records: list[Record]) -> None:
    """Keep what the model names as references, where the records do have it."""
    if not is_array(named):
        return
    values = {
        value.strip(): None
        for value in named
        if isinstance(value, str) and 1 < len(value.strip()) <= LONGEST
    }
    values = {each: None for each in values if each not in known.references.known}
    for record in records if values else ():
        text = "\n".join((*said_in(record.message), *returned_in(record.message)))
        for value in [value for value in values if value in text]:
            del values[value]
            known.references.known[value] = Reference(value, "names", "said", record.number)


def _outdate(known: Known, superseded: list[Superseded]) -> None:
    for each in superseded:
        known.references.outdate(each.was.text, (each.now, *known.facts.texts()))
