"""Agents with skills: what their prompts say, what their tools read, and which they have when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.skills.asking import add, loading, names_in, pay, reading, result_of, told
from tests.skills.folders import skill_in
from treadle import (
    Agent,
    ConfigError,
    DefinitionChanged,
    DuplicateTool,
    MemoryStore,
    PlanExecute,
    Skill,
    SkillInvalid,
    Swarm,
    ToolRequested,
    load_skill,
    load_skills,
    tool,
)
from treadle.skills.catalogue import RULES
from treadle.testing import ScriptedModel, calls


async def test_the_prompt_has_its_sections_in_their_order(tmp_path: Path) -> None:
    """Instructions, skills (eager ones, then the catalogue), planning, requirements."""
    eager = Skill(name="style", description="Tone", instructions="Be kind.", load="eager")
    lazy = Skill(name="tax", description="Use for\n\n## VAT\nand more", instructions="SECRET")
    agent = Agent("a", instructions="Base.", skills=[lazy, eager], planning="Plan it.")

    system = await told(agent, requirements=["short"])

    assert system == (
        f"Base.\n\n## Skill: style\n\nBe kind.\n\n{RULES}\n- tax: Use for ## VAT and more\n\n"
        "Plan it.\n\nRequirements:\n- short"
    )
    assert await told(agent.replace(skills=(), planning=False)) == "Base."
    assert await told(agent, skills=[], planning=False) == "Base."


async def test_s_35_eager(tmp_path: Path) -> None:
    """The instructions are in the prompt, the files are not, and can be read."""
    folder = skill_in(tmp_path, body="Do it so.")
    (folder / "references").mkdir()
    (folder / "references" / "rates.md").write_text("19 percent")
    model = ScriptedModel([calls(reading("tax-help", "references/rates.md")), "19 percent"])
    agent = Agent("a", model, skills=[await asyncio.to_thread(load_skill, folder, load="eager")])

    result = await agent.run("What is the rate?")

    system = model.requests[0].system
    assert system.startswith("## Skill: tax-help\n\nDo it so.\n\n")
    assert "references/rates.md" in system
    assert "19 percent" not in system
    assert result.tool_results[0].text == "19 percent"
    assert names_in(model, 0) == ["read_skill_file"]


async def test_s_36_on_demand(tmp_path: Path) -> None:
    """Only name and description are in the prompt; loading returns body and tree; no escapes."""
    folder = skill_in(tmp_path, body="Do it so.")
    skill_in(tmp_path, "hidden", body="HIDDEN")
    for name in ("scripts/run.py", "references/deep/a.md", ".git/config", "__pycache__/x.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    skills = await asyncio.to_thread(load_skills, tmp_path, exclude=["hidden"])

    system = await told(Agent("a", skills=skills))
    results = await result_of(
        skills,
        loading("tax-help"),
        reading("tax-help", "references/deep/a.md", "c2"),
        loading("hidden", "c3"),
        reading("hidden", "SKILL.md", "c4"),
        reading("tax-help", "../hidden/SKILL.md", "c5"),
    )

    assert system == f"{RULES}\n- tax-help: About tax-help."
    assert results[0].text == (
        "# Skill: tax-help\n\nDo it so.\n\nIts files, for read_skill_file:\n"
        "references/deep/a.md\nscripts/run.py"
    )
    assert results[1].text == "references/deep/a.md"
    assert [each.is_error for each in results] == [False, False, True, True, True]
    assert results[2].text == "There is no skill 'hidden'; nearest first: tax-help."
    assert not any("HIDDEN" in each.text for each in results)


async def test_s_37_two_runs_with_two_roots(tmp_path: Path) -> None:
    """Each prompt lists what its own root has now; each run reads it anew."""
    skill_in(tmp_path / "one", "a")
    skill_in(tmp_path / "two", "b")
    agent = Agent("a", skills=[Skill(name="own", description="Own")])

    assert await told(agent, skills=tmp_path / "one") == f"{RULES}\n- a: About a."
    assert await told(agent, skills=str(tmp_path / "two")) == f"{RULES}\n- b: About b."
    assert await told(agent) == f"{RULES}\n- own: Own"
    always = Agent("b", skills=tmp_path / "one")
    assert await told(always) == f"{RULES}\n- a: About a."
    skill_in(tmp_path / "one", "c")
    assert (await told(always)).endswith("- a: About a.\n- c: About c.")
    with pytest.raises(SkillInvalid, match="cannot be read"):
        await told(agent, skills=tmp_path / "none")


async def test_edits_are_seen_by_an_agent_that_lives_long(tmp_path: Path) -> None:
    """The next run has the new description; loading gives the new body, in the same run too."""
    folder = skill_in(tmp_path)

    @tool
    def edit() -> str:
        """Edit."""
        skill_in(tmp_path, head="name: tax-help\ndescription: New.", body="New body.")
        return "ok"

    model = ScriptedModel([calls(("c0", "edit", {})), calls(loading("tax-help")), "ok"])
    agent = Agent("a", model, skills=[await asyncio.to_thread(load_skill, folder)], tools=[edit])
    result = await agent.run("Hi")

    assert "About tax-help." in model.requests[0].system
    assert "New body." in result.tool_results[1].text
    assert (await told(agent)).endswith("- tax-help: New.")


async def test_what_cannot_be() -> None:
    """Names that clash and values of other kinds are refused before a run."""
    skill = Skill(name="a", description="x")
    model = ScriptedModel([])

    with pytest.raises(ConfigError, match="Two skills are called 'a'"):
        await Agent("a", model, skills=[skill, skill]).run("Hi")
    taken = add.replace(name="load_skill")
    with pytest.raises(DuplicateTool, match="'load_skill'"):
        await Agent("a", model, skills=[skill], tools=[taken]).run("Hi")
    wrong: Any
    for wrong in ([1], 1, [load_skill], {"a": skill}, b"x"):
        with pytest.raises(ConfigError, match="skills="):
            Agent("a", model, skills=wrong)
        with pytest.raises(ConfigError, match="skills="):
            await Agent("a", model).run("Hi", skills=wrong)
    for options in (
        {"name": ""},
        {"name": "A b"},
        {"name": "a/b"},
        {"description": " "},
        {"load": "lazy"},
        {"tools": add},
        {"allowed_tools": "Read"},
        {"instructions": None},
    ):
        given: Any = {"name": "a", "description": "x", **options}
        with pytest.raises(ConfigError):
            Skill(**given)


async def test_allowed_tools_are_told_and_give_nothing() -> None:
    """The model is told of them; neither a tool nor a yes comes of them."""
    skill = Skill(name="shop", description="Buy", allowed_tools=("pay", "bash"))
    script = [calls(loading("shop")), calls(("c2", "pay", {"euros": 5}))]
    model = ScriptedModel(script)

    paused = await Agent("a", model, skills=[skill], tools=[pay]).run("Buy", store=MemoryStore())

    assert "Carry it out with these tools: pay, bash" in paused.tool_results[0].text
    assert names_in(model, 1) == ["pay", "load_skill"]
    assert [each.name for each in paused.pending] == ["pay"]


async def test_skills_are_part_of_the_definition(tmp_path: Path) -> None:
    """A resume refuses a skill that is gone, new or changed, in words; the same one goes on."""
    folder = skill_in(tmp_path)
    model = ScriptedModel([calls(("c1", "pay", {"euros": 5})), "ok"])
    skill = await asyncio.to_thread(load_skill, folder)
    agent = Agent("a", model, tools=[pay], skills=[skill], store=MemoryStore())
    paused = await agent.run("Hi", conversation="c")

    with pytest.raises(DefinitionChanged, match="skill tax-help is gone"):
        await agent.resume(paused.run_id, skills=[])
    other = [skill, Skill(name="new", description="x")]
    with pytest.raises(DefinitionChanged, match="skill new is new"):
        await agent.resume(paused.run_id, skills=other)
    skill_in(tmp_path, body="Another.")
    with pytest.raises(DefinitionChanged, match="skill tax-help has changed"):
        await agent.resume(paused.run_id)
    skill_in(tmp_path)
    assert (await agent.resume(paused.run_id)).stop_reason == "paused"


async def test_a_root_is_part_of_the_definition(tmp_path: Path) -> None:
    """The skills that stood in it are, by name."""
    skill_in(tmp_path)
    model = ScriptedModel([calls(("c1", "pay", {"euros": 5})), "ok"])
    agent = Agent("a", model, tools=[pay], store=MemoryStore())
    paused = await agent.run("Hi", conversation="c", skills=tmp_path)

    assert (await agent.resume(paused.run_id, skills=tmp_path)).stop_reason == "paused"
    skill_in(tmp_path, "more")
    with pytest.raises(DefinitionChanged, match="skill more is new"):
        await agent.resume(paused.run_id, skills=tmp_path)


async def test_members_of_a_swarm_have_their_own(tmp_path: Path) -> None:
    """Each prompt has those of its member; an option of the run is laid over all."""
    first, second = (
        Agent(name, ScriptedModel([]), skills=[Skill(name=f"of-{name}", description="x")])
        for name in ("one", "two")
    )
    model = ScriptedModel([calls(("c1", "transfer_to_two", {})), "ok"] * 2)
    swarm = Swarm("s", agents=[first, second], entry="one")

    await swarm.run("Hi", model=model)
    skill_in(tmp_path, "shared")
    await swarm.run("Hi", model=model, skills=tmp_path)

    found = [request.system.rpartition("\n")[2] for request in model.requests]
    assert found == ["- of-one: x", "- of-two: x", *["- shared: About shared."] * 2]


async def test_the_answer_of_a_plan_is_written_without_skills() -> None:
    """Who has no tools then is not told to load any."""
    plan = '{"goal": "g", "steps": [{"id": "a", "description": "t"}]}'
    skill = Skill(name="s", description="x")
    planner = Agent("p", ScriptedModel([]), skills=[skill])
    executor = Agent("e", ScriptedModel(["done"]))
    model = ScriptedModel([plan, "answer"])
    execute = PlanExecute("x", planner=planner.replace(model=model), executor=executor)
    await execute.run("Hi")

    assert RULES in model.requests[0].system
    assert RULES not in model.requests[-1].system


async def test_events_tell_of_loading(tmp_path: Path) -> None:
    """A skill that is loaded is a call like any other."""
    skill = Skill(name="s", description="x", instructions="i")
    agent = Agent("a", ScriptedModel([calls(loading("s")), "ok"]), skills=[skill])

    seen = [e.name async for e in agent.stream("Hi") if isinstance(e, ToolRequested)]

    assert seen == ["load_skill"]
