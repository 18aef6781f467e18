"""Replay recorded provider traffic through the codecs, and print what came of it.

Run it as ``python -m tools.recordings``. The folder is named by TREADLE_RECORDINGS; the exit
status is 1 when anything is missed.
"""

from __future__ import annotations

import sys

from tools import recorded_chat
from tools.recording import folder, load


def main() -> int:
    """Run every check over every recording and print the table."""
    recordings = load("openai_chat")
    if not recordings:
        print(f"No recordings in {folder()}; name their folder in TREADLE_RECORDINGS. Skipped.")
        return 0
    tallies = [check(recordings) for check in recorded_chat.CHECKS]
    print(f"openai_chat: {len(recordings)} exchanges from {folder()}")
    print(f"{'check':<30}{'seen':>6}{'right':>7}{'missed':>8}  of which")
    for tally in tallies:
        notes = ", ".join(f"{count:,} {note}" for note, count in sorted(tally.notes.items()))
        right = tally.seen - len(tally.missed)
        print(f"{tally.name:<30}{tally.seen:>6}{right:>7}{len(tally.missed):>8}  {notes}")
    for problem in (problem for tally in tallies for problem in tally.missed):
        print(f"MISSED {problem}")
    return 1 if any(tally.missed for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
