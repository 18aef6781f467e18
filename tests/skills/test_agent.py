"""Agents with skills: what their prompts say, what their tools read, and which they have when."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.skills.folders import skill_in
from treadle import (
    Agent,
    ConfigError,
    DefinitionChanged,
    DuplicateTool,
    Limits,
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

READERS = ["load_skill", "read_skill_file"]


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


BAD = ["../x", "/etc/hostname", "a/../../x", "C:\\x", "a\0b", "%2e%2e/x", "cafe\u0301", "", "."]


async def test_bs_59_names_are_no_paths(tmp_path: Path) -> None:
    """A name is looked up, exactly; nothing that looks like a path leads anywhere."""
    skill_in(tmp_path, "caf\u00e9")
    skill_in(tmp_path.parent / f"{tmp_path.name}x", "x")

    results = await result_of(
        await asyncio.to_thread(load_skills, tmp_path),
        *(loading(name, f"c{n}") for n, name in enumerate(BAD)),
    )

    assert len(results) == len(BAD)
    assert all(each.is_error for each in results)
    assert all("About" not in each.text and "Body" not in each.text for each in results)


async def test_bs_59_files_stay_in_the_skill(tmp_path: Path) -> None:
    """No path and no link leads outside; pipes, folders, binary and large files are refused."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("CONTENT")
    (tmp_path / "outside" / "SKILL.md").write_text("CONTENT")
    folder = skill_in(tmp_path, "s")
    (folder / "caf\u00e9").write_text("CONTENT")
    (folder / "x").write_text("inside")
    (folder / "good").symlink_to("x")
    (folder / "file").symlink_to(tmp_path / "outside" / "x")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    (folder / "binary").write_bytes(b"\x89PNG\r\n\0")
    (folder / "zeros").write_bytes(b"CONTENT\0")
    (folder / "large").write_bytes(b"x" * 1_000_001)
    bad = [*BAD, "file", "folder/x", "folder", "loop", "pipe", "binary", "zeros", "large"]

    results = await result_of(
        [await asyncio.to_thread(load_skill, folder)],
        *(reading("s", path, f"c{n}") for n, path in enumerate(bad)),
        reading("s", "good", "last"),
        reading("s", str(folder / "x"), "absolute"),
    )

    assert [each.is_error for each in results] == [True] * len(bad) + [False, False]
    assert not any("CONTENT" in each.text for each in results)
    assert [each.text for each in results[-2:]] == ["inside", "inside"]
    assert "no text" in results[bad.index("zeros")].text
    assert "outside the skill" in results[bad.index("folder/x")].text


async def test_a_skill_whose_folder_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    """What was read stays; its files are gone."""
    folder = skill_in(tmp_path, "s")
    skill = await asyncio.to_thread(load_skill, folder)
    folder.rename(tmp_path / "moved")
    other = skill_in(tmp_path / "other", "s", body="OTHER")
    (other / "x").write_text("OTHER")
    folder.symlink_to(other)

    results = await result_of([skill], loading("s"), reading("s", "x", "c2"))

    assert results[0].text == "# Skill: s\n\nBody."
    assert (results[1].is_error, results[1].text) == (True, "The files of skill 's' are gone.")


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
