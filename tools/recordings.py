"""Replay recorded provider traffic through the codecs, and print what came of it.

Run it as ``python -m tools.recordings``. The folder is named by TREADLE_RECORDINGS; the exit
status is 1 when anything is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools import recorded_anthropic, recorded_chat, recorded_gemini, recorded_responses
from tools.recorded import Check
from tools.recording import Recording, Tally, folder, load

CHECKS: dict[str, Sequence[Check]] = {
    "anthropic": recorded_anthropic.CHECKS,
    "gemini": recorded_gemini.CHECKS,
    "openai_chat": recorded_chat.CHECKS,
    "openai_responses": recorded_responses.CHECKS,
}
"""What every protocol's recordings are held to."""


def main() -> int:
    """Run every check over every recording and print a table for each protocol."""
    missed = seen = 0
    for protocol, checks in CHECKS.items():
        recordings = load(protocol)
        if not recordings:
            print(
                f"No {protocol} recordings in {folder()}; name it in TREADLE_RECORDINGS. Skipped."
            )
            continue
        tallies = [tallied(check, recordings) for check in checks]
        print(f"{protocol}: {len(recordings)} exchanges from {folder()}")
        show(tallies)
        seen += len(recordings)
        missed += sum(len(tally.missed) for tally in tallies)
    print(f"{seen} exchanges, {missed} missed")
    return 1 if missed else 0


def tallied(check: Check, recordings: Sequence[Recording]) -> Tally:
    """Return how a check goes over each recording by itself: where it crashes, that is a miss."""
    whole = Tally(check.__name__)
    for recording in recordings:
        try:
            tally = check([recording])
        except Exception as error:  # noqa: BLE001 (the others are checked all the same)
            whole.count(f"{type(error).__name__}: {error}", recording, "crashed")
            continue
        whole.name = tally.name
        whole.seen += tally.seen
        whole.missed += tally.missed
        for note, count in tally.notes.items():
            whole.notes[note] = whole.notes.get(note, 0) + count
    return whole


def show(tallies: Sequence[Tally]) -> None:
    """Print how the checks of one protocol went, and each exception with its reason."""
    print(f"{'check':<30}{'seen':>6}{'right':>7}{'missed':>8}  of which")
    for tally in tallies:
        notes = ", ".join(f"{count:,} {note}" for note, count in sorted(tally.notes.items()))
        right = tally.seen - len(tally.missed)
        print(f"{tally.name:<30}{tally.seen:>6}{right:>7}{len(tally.missed):>8}  {notes}")
    for problem in (problem for tally in tallies for problem in tally.missed):
        print(f"MISSED {problem}")


if __name__ == "__main__":
    sys.exit(main())
