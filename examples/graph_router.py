"""A graph that routes: an agent says what it is about, a router sends it to who can help."""

import asyncio
from collections.abc import Callable

from treadle import END, START, Agent, Graph, GraphView
from treadle.testing import FunctionModel, reply
from treadle.testing.scripted import last_text

WORDS = {"refund": "billing", "error": "technical"}


def kind(text: str) -> str:
    """Return what a question is about."""
    return next((kind for word, kind in WORDS.items() if word in text.lower()), "general")


def about(name: str) -> Callable[[GraphView], bool]:
    """Return whether the question is about that."""

    def test(s: GraphView) -> bool:
        return s.output("classify") == name

    return test


classifier = Agent("classifier", FunctionModel(lambda request: reply(kind(last_text(request)))))


def expert(name: str) -> Agent:
    """Make an agent that helps with one thing."""
    return Agent(name, FunctionModel(lambda request: reply(f"{name}: {last_text(request)}")))


graph = (
    Graph("help-desk")
    .add_node("classify", classifier)
    .add_router(
        "route",
        {"billing": about("billing"), "technical": about("technical")},
        default="general",
    )
    .add_edge(START, "classify")
    .add_edge("classify", "route")
)
for name in ("billing", "technical", "general"):
    graph.add_node(name, expert(name), input=lambda s: str(s.input)).add_edge(name, END)


async def main() -> None:
    """Ask three things."""
    for question in ("I want a refund.", "There is an error.", "Who are you?"):
        result = await graph.run(question)
        print(" -> ".join(result.execution_path), "|", result.output)
        # > classify -> route -> billing | billing: I want a refund.
        # > classify -> route -> technical | technical: There is an error.
        # > classify -> route -> general | general: Who are you?


if __name__ == "__main__":
    asyncio.run(main())
