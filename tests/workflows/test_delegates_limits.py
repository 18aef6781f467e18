"""How many agents may work in the background, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.nested import USAGE, playing
from tests.workflows.crews import boss, outputs, starts, states, waits
from tests.workflows.test_delegates import asleep
from treadle import (
    Agent,
    ConfigError,
    InvalidTool,
    Limits,
    MemoryStore,
    delegates,
)
from treadle.testing import calls, reply
from treadle.testing.scripted import last_text


def untyped(value: Any) -> Any:
    """What no type checker looks at."""
    return value


@pytest.mark.parametrize(
    ("options", "words"),
    [({"max_running": 2}, "max_running=2"), ({"max_started": 2}, "max_started=2")],
)
async def test_there_may_be_so_many(options: dict[str, int], words: str) -> None:
    """One more is an error for the model, which says what to do."""
    agent = boss(
        starts(("a", "scout", "1"), ("b", "scout", "2"), ("c", "scout", "3")),
        "done",
        agents=[asleep()],
        **options,
    )
    result = await agent.run("go", store=MemoryStore())
    results = {each.call_id: each for each in result.tool_results}
    assert [results[call].text for call in ("a", "b")] == ["scout#1", "scout#2"]
    assert results["c"].is_error
    assert words in results["c"].text


async def test_one_that_is_over_makes_room() -> None:
    """`max_running` is about those that are at work."""
    agent = boss(
        starts(("a", "scout", "1")),
        waits("w"),
        starts(("b", "scout", "2")),
        waits("x"),
        states,
        agents=[Agent("scout", playing("ok"))],
        max_running=1,
    )
    assert (await agent.run("go")).output == "scout#1 done; scout#2 done"


async def test_how_deep_agents_may_start_agents() -> None:
    """`Limits(max_depth=)` holds for those in the background, too."""
    inner = Agent("inner", playing("deep"))
    middle = boss(starts(("m", "inner", "in")), last_text, agents=[inner]).replace(name="middle")
    agent = boss(starts(("a", "middle", "in")), waits("w"), outputs, agents=[middle])
    result = await agent.run("go", limits=Limits(max_depth=1))
    assert result.output == "no more runs may be nested here (see Limits.max_depth)."
    assert (await agent.run("go")).output == "inner#1"


async def test_a_budget_is_shared() -> None:
    """An agent that would spend too much stops, and the model is told why."""
    scout = Agent("scout", playing(reply("found", usage=USAGE)), limits=Limits(max_tokens=1))
    agent = boss(starts(("a", "scout", "look")), waits("w"), outputs, agents=[scout])
    result = await agent.run("go")
    assert result.output.startswith("scout stopped without an answer (budget")


async def test_what_a_model_gets_wrong() -> None:
    """Each mistake is an error result that says what to mend."""
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("delegate", {"agent": "nobody", "task": "x"}, "scout"),
        ("delegate", {"agent": "scout", "task": "  "}, "The task is empty"),
        ("delegate", {"agent": "scout", "task": ""}, "task"),
        ("delegate", {"agent": "scout"}, "task"),
        ("wait_for_delegate", {"timeout": 0}, "timeout"),
        ("wait_for_delegate", {"ids": ["scout#7"]}, "no delegate 'scout#7'"),
        ("message_delegate", {"id": "scout#1", "text": " "}, "The text is empty"),
        ("cancel_delegate", {}, "id"),
    ]
    made = [(f"c{n}", name, arguments) for n, (name, arguments, _) in enumerate(wrong)]
    agent = boss(starts(("a", "scout", "look")), calls(*made), "done", agents=[asleep()])
    result = await agent.run("go")
    found = {each.call_id: each for each in result.tool_results}
    for n, (_, _, words) in enumerate(wrong):
        assert found[f"c{n}"].is_error
        assert words in found[f"c{n}"].text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: delegates([]), "at least one agent"),
        (lambda: delegates([asleep(), asleep()]), "Two delegates are called 'scout'"),
        (lambda: delegates(untyped(["scout"])), "give agents"),
        (lambda: delegates([asleep()], on_end="wait", detached=True), "detached=True outlives"),
        (lambda: delegates([asleep()], max_running=0), "max_running=0"),
        (lambda: delegates([asleep()], max_started=True), "max_started=True"),
        (lambda: delegates([asleep()], on_end=untyped("leave")), "on_end='leave'"),
    ],
)
def test_what_a_caller_gets_wrong(make: Any, words: str) -> None:
    """It is refused where it is written."""
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        make()


def test_one_agent_has_one_set() -> None:
    """Two would share their names."""
    first, second = delegates([asleep()]), delegates([asleep("coder")])
    renamed = [each.replace(name=f"{each.name}_2") for each in second]
    with pytest.raises(InvalidTool, match="second set of delegates"):
        Agent("boss", playing("ok"), tools=[*first, *renamed]).run_sync("go")
