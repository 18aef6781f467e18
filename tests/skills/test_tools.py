"""The tools of skills: which an agent has, and when."""

from __future__ import annotations

import pytest

from tests.skills.asking import add, loading, names_in, pay
from treadle import Agent, Limits, MemoryStore, Skill, tool
from treadle.testing import ScriptedModel, calls


async def test_tools_of_a_skill_come_when_it_is_loaded() -> None:
    """Before that they are neither offered nor run; they stay for the conversation."""
    skill = Skill(name="sums", description="Sums", instructions="Add.", tools=[add])
    call = ("c2", "add", {"a": 1, "b": 2})
    model = ScriptedModel([calls(call), calls(loading("sums", "c3")), calls(call), "3", "again"])
    store = MemoryStore()
    agent = Agent("a", model, skills=[skill], store=store)

    result = await agent.run("1 + 2?", conversation="c")
    await agent.run("And?", conversation="c")

    assert [names_in(model, n) for n in range(3)] == [
        ["load_skill"],
        ["load_skill"],
        ["load_skill", "add"],
    ]
    assert result.tool_results[0].text.startswith("There is no tool 'add'.")
    assert "You have these tools from now on: add" in result.tool_results[1].text
    assert result.tool_results[2].text == "3"
    assert names_in(model, 4) == ["load_skill", "add"]


async def test_nobody_is_asked_about_a_tool_that_is_not_there() -> None:
    """A call of a tool that waits for a yes is refused until its skill is loaded, then waits."""
    skill = Skill(name="shop", description="Buy", tools=[pay])
    call = ("c1", "pay", {"euros": 5})
    script = [calls(call), calls(loading("shop", "c2")), calls(("c3", "pay", {"euros": 5})), "ok"]
    store = MemoryStore()
    agent = Agent("a", ScriptedModel(script), skills=[skill], store=store)

    paused = await agent.run("Buy", conversation="c")

    assert paused.tool_results[0].text.startswith("There is no tool 'pay'.")
    assert [each.name for each in paused.pending] == ["pay"]


async def test_a_resume_has_the_tools_of_skills_that_were_loaded() -> None:
    """The history says which they are; another process finds them there."""
    skill = Skill(name="sums", description="Sums", tools=[add])
    store = MemoryStore()
    first = Agent("a", ScriptedModel([calls(loading("sums"))]), skills=[skill], on_limit="pause")
    paused = await first.run("1 + 2?", conversation="c", store=store, limits=Limits(max_turns=1))
    assert paused.stop_reason == "paused"
    model = ScriptedModel([calls(("c2", "add", {"a": 1, "b": 2})), "3"])

    result = await first.replace(model=model).resume(
        paused.run_id, store=store, limits=Limits(max_turns=5)
    )

    assert result.output == "3"
    assert result.tool_results[-1].text == "3"
    assert names_in(model, 0) == ["load_skill", "add"]


async def test_an_eager_skill_has_its_tools_at_once() -> None:
    """It needs no tool to be read."""
    skill = Skill(name="sums", description="Sums", instructions="x", tools=[add], load="eager")
    model = ScriptedModel(["ok"])
    await Agent("a", model, skills=[skill]).run("Hi")

    assert names_in(model, 0) == ["add"]


async def test_s_19_the_tool_of_the_agent_goes_first(caplog: pytest.LogCaptureFixture) -> None:
    """One of a skill with the same name is left out; between skills the first stays."""

    @tool(name="add")
    async def other(a: int, b: int) -> str:
        """Another one."""
        return "other"

    one = Skill(name="one", description="x", tools=[other], load="eager")
    two = Skill(name="two", description="x", tools=[add], load="eager")
    asked = calls(("c1", "add", {"a": 1, "b": 2}))

    result = await Agent("a", ScriptedModel([asked, "ok"]), tools=[add], skills=[one]).run("Hi")
    assert result.tool_results[0].text == "3"
    result = await Agent("a", ScriptedModel([asked, "ok"]), skills=[one, two]).run("Hi")
    assert result.tool_results[0].text == "other"
    assert "Tool 'add' of skill 'two' is left out" in caplog.text


async def test_two_skills_with_one_tool() -> None:
    """It comes with either of them."""
    skills = [Skill(name=name, description="x", tools=[add]) for name in ("one", "two")]
    model = ScriptedModel([calls(loading("two")), "ok"])
    await Agent("a", model, skills=skills).run("Hi")

    assert names_in(model, 1) == ["load_skill", "add"]
