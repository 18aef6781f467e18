"""Runs of agents with skills, for tests."""

from __future__ import annotations

from typing import Any

from treadle import Agent, tool
from treadle.testing import ScriptedModel, calls


@tool
async def add(a: int, b: int) -> str:
    """Add."""
    return str(a + b)


@tool(approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} paid"


def reading(skill: str, path: str, call_id: str = "c1") -> tuple[str, str, dict[str, Any]]:
    """A call that reads a file."""
    return call_id, "read_skill_file", {"skill": skill, "path": path}


def loading(name: str, call_id: str = "c1") -> tuple[str, str, dict[str, Any]]:
    """A call that loads a skill."""
    return call_id, "load_skill", {"name": name}


def names_in(model: ScriptedModel, request: int) -> list[str]:
    """The tools that a request offers."""
    return [spec.name for spec in model.requests[request].tools]


async def told(agent: Agent[Any, Any], **options: Any) -> str:
    """The system prompt of a run."""
    model = ScriptedModel(["ok"])
    await agent.run("Hi", model=model, **options)
    return model.requests[0].system


async def result_of(skills: Any, *asked: tuple[str, str, dict[str, Any]]) -> list[Any]:
    """The results of calls in a run of an agent with these skills."""
    agent = Agent("a", ScriptedModel([calls(*asked), "ok"]), skills=skills)
    return list((await agent.run("Hi")).tool_results)
