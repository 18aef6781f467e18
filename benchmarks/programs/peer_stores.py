"""Hold one conversation with others' SQLite stores; print CPU and size as JSON.

Run by an interpreter that has `langgraph-checkpoint-sqlite` and `openai-agents`: see
`benchmarks/stores.py`. Each way is the one that its own documentation shows.
"""

# pyright: basic, reportMissingImports=false
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time


async def langgraph(turns: int, answer: str, path: str) -> list[float]:
    """A graph of one node, with a checkpoint after each step."""
    from langchain_core.messages import AIMessage, HumanMessage  # noqa: PLC0415
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415
    from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: PLC0415

    async def node(_: MessagesState) -> dict:
        return {"messages": [AIMessage(answer)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    clock = []
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        app = graph.compile(checkpointer=saver)
        for number in range(turns):
            asked = {"messages": [HumanMessage(f"Question {number}?")]}
            await app.ainvoke(asked, {"configurable": {"thread_id": "long"}})
            clock.append(time.process_time())
    return clock


async def agents(turns: int, answer: str, path: str) -> list[float]:
    """An agent with a session."""
    from agents import (  # noqa: PLC0415
        Agent,
        Model,
        ModelResponse,
        Runner,
        SQLiteSession,
        Usage,
        set_tracing_disabled,
    )
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText  # noqa: PLC0415

    class Fixed(Model):
        async def get_response(self, *args, **options):
            text = ResponseOutputText(type="output_text", text=answer, annotations=[])
            said = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args, **options):
            raise NotImplementedError

    set_tracing_disabled(True)
    agent, session, clock = Agent(name="a", model=Fixed()), SQLiteSession("long", path), []
    for number in range(turns):
        await Runner.run(agent, f"Question {number}?", session=session)
        clock.append(time.process_time())
    session.close()
    return clock


def figures(way, turns: int, answer: str) -> dict[str, float]:
    """Measure one way."""
    with tempfile.TemporaryDirectory() as folder:
        clock = asyncio.run(way(turns, answer, os.path.join(folder, "peer.db")))
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    return {
        "early": (clock[14] - clock[4]) / 10 * 1e3,
        "late": (clock[-1] - clock[-11]) / 10 * 1e3,
        "bytes": size,
    }


if __name__ == "__main__":
    count, text = int(sys.argv[1]), sys.argv[2]
    print(
        json.dumps(
            {
                "LangGraph, AsyncSqliteSaver": figures(langgraph, count, text),
                "OpenAI Agents SDK, SQLiteSession": figures(agents, count, text),
            }
        )
    )
