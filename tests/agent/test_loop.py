"""The loop: turns, histories, instructions, and an answer in the end."""

from __future__ import annotations

import pytest

from tests.agent.parts import add, roles
from treadle import (
    Agent,
    MemoryStore,
    Message,
    ModelSettings,
    NoModel,
    Reasoning,
    RunContext,
    RunFailed,
    Text,
    ToolCall,
    Usage,
    tool,
)
from treadle.errors import UnknownModel
from treadle.testing import FunctionModel, ScriptedModel, calls, reply


async def test_a_plain_answer() -> None:
    """S1: one call, no tools, a history of two messages."""
    model = ScriptedModel(["hi"])

    result = await Agent("a", model, instructions="Be kind.").run("x")

    assert result.output == "hi"
    assert (len(model.requests), result.usage.tool_calls, result.turns) == (1, 0, 1)
    assert [(m.role, m.text) for m in result.messages] == [("user", "x"), ("assistant", "hi")]
    assert roles(model.requests[0].messages) == ["user"]
    assert model.requests[0].system == "Be kind."
    assert result.stop_reason == "answer"


async def test_a_tool_call_and_its_answer() -> None:
    """S2: the tool gets typed arguments, the next request its result, and counters add up."""
    got: list[object] = []

    @tool
    async def scale(by: float, times: int) -> float:
        """Scale."""
        got.extend((by, times))
        return by * times

    usage = Usage(input_tokens=10, output_tokens=2, requests=1)
    model = ScriptedModel(
        [calls(("c1", "scale", {"by": 1, "times": 3}), usage=usage), reply("3", usage=usage)]
    )

    result = await Agent("a", model, tools=[scale]).run("1*3?")

    assert result.output == "3"
    assert [(type(value), value) for value in got] == [(float, 1.0), (int, 3)]
    assert roles(model.requests[1].messages) == ["user", "assistant", "tool"]
    assert model.requests[1].messages[1].tool_calls[0].arguments == {"by": 1, "times": 3}
    assert model.requests[1].messages[-1].tool_results[0].text == "3.0"
    assert result.usage == Usage(input_tokens=20, output_tokens=4, requests=2, tool_calls=1)
    assert [r.value for r in result.tool_results] == [3]


async def test_no_model() -> None:
    """S3: a typed error, before anything happens."""
    store = MemoryStore()

    with pytest.raises(NoModel, match="has no model"):
        await Agent("a", store=store).run("x", conversation="c")

    assert await store.list() == []


@pytest.mark.parametrize("name", ["nobody:x", "gpt", ""])
async def test_an_unknown_model_string(name: str) -> None:
    """The error names the string and what is installed."""
    with pytest.raises(UnknownModel, match="openai:") as caught:
        await Agent("a", name).run("x")

    assert repr(name) in str(caught.value)


async def test_a_follow_up_sees_both_turns() -> None:
    """S7: history goes back in, the system prompt is there once."""
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model, instructions="System.")

    first = await agent.run("1")
    second = await agent.run("2", history=first.messages)

    assert [m.text for m in model.requests[1].messages] == ["1", "one", "2"]
    assert [request.system for request in model.requests] == ["System.", "System."]
    assert [m.text for m in second.messages] == ["1", "one", "2", "two"]
    assert [m.text for m in first.messages] == ["1", "one"], "the first result is not changed"


async def test_a_system_message_in_the_history_replaces_the_instructions() -> None:
    """C4: it becomes this run's system prompt and is not part of the history."""
    model = ScriptedModel(["ok"])

    result = await Agent("a", model, instructions="Mine.").run(
        "x", history=[Message.system("Theirs.")]
    )

    assert model.requests[0].system == "Theirs."
    assert roles(result.messages) == ["user", "assistant"]


async def test_blank_replies() -> None:
    """BS-25: a blank reply is no answer and is not kept; the model is asked twice more at most."""
    model = ScriptedModel(
        [reply("", ToolCall.of("add", {"a": 1, "b": 2}, id="c")), reply("   "), "ok"]
    )

    result = await Agent("a", model, tools=[add]).run("x")

    assert result.output == "ok"
    assert roles(result.messages) == ["user", "assistant", "tool", "assistant"]
    assert all(part.text for m in result.messages for part in m.parts if isinstance(part, Text))
    assert roles(model.requests[2].messages) == ["user", "assistant", "tool"]

    for_ever = FunctionModel(lambda request: "")
    assert (await Agent("a", for_ever).run("x")).output == ""
    assert len(for_ever.requests) == 3


async def test_a_forced_tool_is_forced_once() -> None:
    """A tool choice holds for the first call of the run."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "2"])
    agent = Agent(
        "a", model, tools=[add], settings=ModelSettings(tool_choice="required", temperature=0)
    )

    await agent.run("x")

    first, second = model.requests
    assert (first.settings.tool_choice, second.settings.tool_choice) == ("required", None)
    assert second.settings.temperature == 0


async def test_reasoning_stays_in_front_of_its_calls() -> None:
    """BS-23: parts keep their order and their signatures."""
    thought, asked = Reasoning("hm", signature="sig-1"), ToolCall.of("add", {"a": 1, "b": 2})
    model = ScriptedModel([reply(thought, asked), "3"])

    await Agent("a", model, tools=[add]).run("x")

    assert model.requests[1].messages[1].parts == (thought, asked)


async def test_instructions_may_be_a_function_of_the_run() -> None:
    """They see deps, and may be async."""

    async def instructions(ctx: RunContext[dict[str, str]]) -> str:
        return f"You help {ctx.deps['user']}."

    model = ScriptedModel(["hi"])

    await Agent("a", model, instructions=instructions).run("x", deps={"user": "Ann"})

    assert model.requests[0].system == "You help Ann."


async def test_a_failure_of_ours_is_a_run_failure() -> None:
    """Whatever breaks inside becomes RunFailed, with the cause chained and the history there."""

    def broken(ctx: object) -> str:
        raise RuntimeError("oops")

    history = [Message.user("a"), Message.assistant("b")]
    with pytest.raises(RunFailed, match="RuntimeError: oops") as caught:
        await Agent("a", ScriptedModel(["x"]), instructions=broken).run("x", history=history)

    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.result.stop_reason == "failed"
    assert caught.value.result.messages[:2] == history
