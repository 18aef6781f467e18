"""One free text stands for what has left the view."""

from __future__ import annotations

from treadle.compaction.records import records_of
from treadle.compaction.strategy import Ask, Gone
from treadle.compaction.transcript import RULE, quoted, shortened
from treadle.compaction.turns import Kind
from treadle.compaction.writing import note_size, pieces, question, written
from treadle.errors import CompactionFailed

_SYSTEM = (
    "You keep the memory of an AI agent. Older messages of its conversation leave its view, and "
    "your summary is all that it will know of them. Say what the user wants, every constraint and "
    "preference, what was found out, decided, made and tried in vain, and what is still open. "
    "Spell names, numbers, dates, paths, addresses and identifiers exactly. Where a summary so far "
    "is given, write one new summary of both: what it says stays, unless the newer messages change "
    "it. Leave out pleasantries and how things were found. Write plain text in the language of the "
    f"conversation, and nothing but the summary.\n{RULE}"
)


class Summary:
    """Everything that is old goes, what users said too, and one summary stands for it."""

    name = "summary"
    keep_recent: float = 0.5
    protect: tuple[Kind, ...] = ()
    share = 1.0

    async def note(self, gone: Gone, ask: Ask) -> str:
        """Return a summary of `gone`, at most `gone.tokens` long.

        It is rolled on from piece to piece where not all fits one request.

        Raises:
            ModelError: the model could not be asked.
            CompactionFailed: it wrote nothing, or more than what it stands for.
        """
        most = note_size(gone)
        wanted = f"Write the new summary now, of at most {most:,} tokens."
        summary = _fitted(gone.note or "", gone)
        weight = sum(turn.tokens for turn in gone.turns) + gone.weigh(summary)
        for piece in pieces(gone, records_of(gone.turns, 1), _SYSTEM, gone.tokens):
            text = question(summary, "The summary", piece, wanted)
            found = await written(gone, ask, _SYSTEM, text)
            if gone.weigh(found) > weight:
                raise CompactionFailed("The summary is longer than what it stands for.")
            summary = _fitted(found, gone)
        return summary


class Aggressive(Summary):
    """The tool traffic goes but for the newest messages, and one summary stands for it."""

    name = "aggressive"
    keep_recent = 4
    protect: tuple[Kind, ...] = ("user", "final", "skills")


def _fitted(text: str, gone: Gone) -> str:
    return shortened(text, gone.tokens, lambda each: gone.weigh(quoted(each)))
