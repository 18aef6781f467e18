"""One process of a tree of agents that may be killed: `python -m tests.crash.tree URL FOLDER N`.

It starts the run, or resumes it where the store knows it, and dies before its N-th append; with 0
it does not.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from tests.agent.nested import Tree
from tests.crash.going import go_on
from tests.crash.killing import ANSWERS, EFFECTS, Killing, tell
from treadle.stores.open import open_store


async def carry_out(url: str, folder: Path, dies: int) -> None:
    """Do one process's part of the run."""
    store = open_store(url)
    tree = Tree(partial(tell, folder / EFFECTS))
    try:
        killing = Killing(store, folder, before=dies or None)
        result = await go_on(tree.boss, killing, folder.name)
    finally:
        await store.close()
    tell(folder / ANSWERS, f"{result.stop_reason}: {result.output}")


if __name__ == "__main__":
    asyncio.run(carry_out(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
