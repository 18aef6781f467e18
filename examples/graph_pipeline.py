"""A pipeline: fetch, check twice at the same time, mend what is wrong, and sum up."""

import asyncio

from treadle import END, ON_FAILURE, START, Agent, Graph, NodeContext
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FunctionModel, reply
from treadle.testing.scripted import last_text


def fetch(ctx: NodeContext) -> str:
    """Fetch a text; the first try fails."""
    if ctx.attempt == 1:
        raise ConnectionError("no line")
    return f"A text on {ctx.input}."


def count(ctx: NodeContext) -> int:
    """Count its words."""
    words = len(ctx.output("fetch").split())
    ctx.graph.set("words", words)
    return words


def spell(ctx: NodeContext) -> str:  # noqa: ARG001
    """Find out that a word is missing."""
    raise ValueError("there is no dictionary")


def sum_up(request: ModelRequest) -> ModelReply:
    """Say what there is."""
    return reply(f"Summary: {last_text(request)}")


graph = (
    Graph("pipeline", max_steps=20)
    .add_node("fetch", fetch, retries=1)
    .add_fan_out("check", ["count", "spell"], join="summarize")
    .add_node("count", count)
    .add_node("spell", spell)
    .add_node("guess", lambda ctx: f"not checked: {ctx.error('spell')}")
    .add_node(
        "summarize",
        Agent("writer", FunctionModel(sum_up)),
        input=lambda s: f"{s['words']} words, {s.output('check')['spell']}",
    )
    .add_edge(START, "fetch")
    .add_edge("fetch", "check")
    .add_edge("spell", "guess", when=ON_FAILURE)
    .add_edge("summarize", END)
)


async def main() -> None:
    """Draw it and run it."""
    print(graph.validate())
    # > []
    print(graph.to_mermaid().splitlines()[0])
    # > flowchart TD
    result = await graph.run("looms")
    print(result.execution_path)
    # > ['fetch', 'check', 'count', 'spell', 'guess', 'summarize']
    print(result.output)
    # > Summary: 4 words, not checked: ValueError: there is no dictionary
    print(result.success)
    # > False


if __name__ == "__main__":
    asyncio.run(main())
