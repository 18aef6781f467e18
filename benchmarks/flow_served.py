"""Branches of a graph whose agents ask the provider, and the same agent in runs of its own."""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.flow_work import BRANCHES, TURNS, nothing_to_close
from benchmarks.treadle_loop import get_weather
from benchmarks.work import ANSWER, API_KEY, INSTRUCTIONS, MODEL, QUESTION, expect
from benchmarks.worker import Jobs, work
from treadle import END, START, Agent, Graph, NodeContext
from treadle.providers import OpenAI


class Served:
    """An agent of five turns: in many branches at once, and by itself."""

    def __init__(self, provider: str) -> None:
        model = OpenAI(MODEL, api_key=API_KEY, base_url=f"{provider}/tools-{TURNS - 1}/v1")
        self._agent = Agent("assistant", model, instructions=INSTRUCTIONS, tools=[get_weather])
        questions = [QUESTION] * BRANCHES
        self._graph = (
            Graph("fan", max_steps=BRANCHES + 10)
            .add_node("branch", self._agent)
            .add_node("join", _joined)
            .add_map("each", over=lambda _: questions, node="branch", join="join", limit=BRANCHES)
            .add_edge(START, "each")
            .add_edge("join", END)
        )

    async def branches(self, runs: int) -> None:
        """Run the graph."""
        for _ in range(runs):
            expect("answers", (await self._graph.run("go")).output, [ANSWER] * BRANCHES)

    async def singles(self, runs: int) -> None:
        """Do as many single runs, at the same time."""
        for _ in range(runs):
            results = await asyncio.gather(*(self._agent.run(QUESTION) for _ in range(BRANCHES)))
            expect("answers", [each.output for each in results], [ANSWER] * BRANCHES)


def _joined(ctx: NodeContext) -> list[str]:
    return ctx.output("each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow_served")
    parser.add_argument("provider", metavar="URL")
    served = Served(parser.parse_args().provider)
    work(lambda: Jobs({"branches": served.branches, "singles": served.singles}, nothing_to_close))
