"""One process of a run that may be killed: `python -m tests.crash.scenario URL RUN_ID FOLDER`.

It starts the run, or resumes it where the store knows it, and exits with 0 on an answer, with 3
when somebody has to approve, and with 4 when another process has taken the run over.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.crash.agent import Hold
from tests.crash.cases import AGENT, CASES
from tests.crash.going import go_on, revision_of
from tests.crash.killing import ANSWERS, EFFECTS, HELD, Killing, die, tell
from treadle.agent import lease
from treadle.errors import LeaseLost
from treadle.stores.open import open_store

ANSWERED, PAUSED, LOST = 0, 3, 4


async def carry_out(options: argparse.Namespace) -> int:
    """Do one process's part of the run; return its exit code."""
    folder = Path(options.folder)
    opened = open_store(options.url)
    store = Killing(opened, folder, before=options.kill_before, after=options.kill_after)
    hold = Hold(partial(tell, folder / HELD), *options.hold)
    case, told = CASES[options.story], partial(tell, folder / EFFECTS)
    try:
        case.begins(told, await revision_of(opened, options.run_id))
        runnable = case.build(store, told, hold)
        result = await go_on(runnable, store, options.run_id, approve=options.approve)
    except LeaseLost:
        return LOST
    finally:
        await opened.close()
    if result.stop_reason == "paused":
        return PAUSED
    tell(folder / ANSWERS, case.answer_of(result))
    return ANSWERED


def main(arguments: Sequence[str]) -> int:
    """Read the arguments, and die when they say so."""
    options = _parser().parse_args(arguments)
    if options.lease is not None:
        lease.LEASE_SECONDS, lease.RENEW_SECONDS = options.lease, options.lease / 3
    if options.kill_at is not None:
        timer = threading.Timer(options.kill_at / 1000, die)
        timer.daemon = True
        timer.start()
    return asyncio.run(carry_out(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.scenario")
    parser.add_argument("url", metavar="URL")
    parser.add_argument("run_id", metavar="RUN_ID")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--story", choices=CASES, default=AGENT.name, help="what runs (agent)")
    kills = parser.add_mutually_exclusive_group()
    kills.add_argument("--kill-before", type=int, metavar="N", help="die before the N-th append")
    kills.add_argument("--kill-after", type=int, metavar="N", help="die after the N-th append")
    kills.add_argument("--kill-at", type=float, metavar="MS", help="die after milliseconds")
    parser.add_argument("--approve", action="store_true", help="approve what waits")
    parser.add_argument("--lease", type=float, metavar="SECONDS", help="how long a lease lives")
    parser.add_argument(
        "--hold",
        type=_point,
        default=(),
        metavar="WHERE:TURN:SECONDS",
        help="linger in the model call or the tool of a turn",
    )
    return parser


def _point(text: str) -> tuple[str, int, float]:
    where, turn, seconds = text.split(":")
    return where, int(turn), float(seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
