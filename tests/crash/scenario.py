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
from typing import Any

from tests.crash.agent import Hold, build
from tests.crash.killing import ANSWERS, EFFECTS, HELD, Killing, die, tell
from treadle import Agent, RunResult
from treadle.agent import lease
from treadle.agent.conversation import Conversation
from treadle.agent.views import views_of
from treadle.errors import LeaseLost, RunNotFound
from treadle.ports.approval import Approve
from treadle.stores.open import open_store
from treadle.view import View

ANSWERED, PAUSED, LOST = 0, 3, 4


def conversation_of(run_id: str) -> str:
    """Return the ID of the conversation that the run is in."""
    return f"talk-{run_id}"


async def go_on(
    agent: Agent[None, str], store: Any, run_id: str, *, approve: bool = False
) -> RunResult[str]:
    """Start the run, or resume it from wherever it was left."""
    try:
        await store.find(run_id)
    except RunNotFound:
        conversation = conversation_of(run_id)
        known = await store.create(conversation)
        views_of(store).put(known, View())  # so that the first batch takes the conversation
        return await agent.run("Begin.", conversation=conversation, run_id=run_id, store=store)
    decisions: dict[str, Approve] = {}
    if approve:
        conversation = await Conversation.open(conversation_of(run_id), store=store)
        decisions = {call.call_id: Approve() for call in await conversation.pending()}
    return await agent.resume(run_id, store=store, decisions=decisions)


async def carry_out(options: argparse.Namespace) -> int:
    """Do one process's part of the run; return its exit code."""
    folder = Path(options.folder)
    opened = open_store(options.url)
    store = Killing(opened, folder, before=options.kill_before, after=options.kill_after)
    hold = Hold(partial(tell, folder / HELD), *options.hold)
    agent = build(store, partial(tell, folder / EFFECTS), hold)
    try:
        result = await go_on(agent, store, options.run_id, approve=options.approve)
    except LeaseLost:
        return LOST
    finally:
        await opened.close()
    if result.stop_reason == "paused":
        return PAUSED
    tell(folder / ANSWERS, f"{result.stop_reason}: {result.output}")
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
