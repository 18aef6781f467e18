"""The SDK's client and our own talk to a server, over stdio and HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import types
from mcp.shared.exceptions import MCPError

from tests.mcp_server.parts import Mode, becomes, ours, sdk, text_of
from treadle import Agent, Image, ToolProgress
from treadle.testing import ScriptedModel, calls

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.parametrize("transport", ["stdio", "http"]),
]
Transport = Literal["stdio", "http"]
both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


@both_eras
async def test_all_that_is_offered_is_listed(transport: Transport, mode: Mode) -> None:
    """Agents and tools are tools, with their schemas; one server has prompts and resources."""
    async with sdk(transport, mode, "offered:server") as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        prompts = (await client.list_prompts()).prompts
        prompt = await client.get_prompt("review", {"topic": "looms"})
        resources = (await client.list_resources()).resources
        patterns = (await client.list_resource_templates()).resource_templates
        read = [await client.read_resource(f"docs:///{it}") for it in ("hello", "numbers/7")]
        info = client.server_info

    assert (info.name if info else "") == "shop"
    assert {"echo", "clerk", "add", "refund"} <= set(tools)
    assert tools["echo"].input_schema["required"] == ["input"]
    assert tools["add"].input_schema["properties"]["b"]["default"] == 1
    assert tools["add"].description == "Add two numbers."
    assert set((tools["reader"].output_schema or {})["properties"]) == {"number", "total"}
    assert tools["echo"].output_schema is None
    assert [(each.name, each.required) for each in prompts[0].arguments or ()] == [
        ("topic", True),
        ("style", False),
    ]
    assert [each.content.type for each in prompt.messages] == ["text", "resource"]
    assert [(each.uri, each.name) for each in resources] == [("docs:///hello", "hello")]
    assert [each.uri_template for each in patterns] == ["docs:///numbers/{id}"]
    assert [each.contents[0].text for each in read] == ["Hello.", "number 7"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@both_eras
async def test_calls_and_their_results(transport: Transport, mode: Mode) -> None:
    """Structures, typed outputs, errors of tools, wrong arguments and unknown names."""
    async with sdk(transport, mode, "offered:ALL", "offered:TOOLS") as client:
        added = await client.call_tool("add", {"a": 1, "b": 2})
        wrong = await client.call_tool("add", {"a": "x"})
        broken = await client.call_tool("broken", {})
        heard = await client.call_tool("echo", {"input": "hello"})
        typed = await client.call_tool("reader", {"input": "A1"})
        listed = await client.call_tool("counter", {"input": "count"})
        failed = await client.call_tool("reader", {"input": "nothing"})
        silent = await client.call_tool("echo", {"input": ""})
        with pytest.raises(MCPError, match="There is no tool 'ad'"):
            await client.call_tool("ad", {})

    assert (text_of(added), added.structured_content) == ('{"sum":3}', {"sum": 3})
    assert wrong.is_error
    assert 'got "x"' in text_of(wrong)
    assert (broken.is_error, text_of(broken)) == (True, "It is broken.")
    assert (heard.is_error, text_of(heard)) == (False, "Heard: hello.")
    assert (heard.meta or {})["treadle/stop_reason"] == "answer"
    assert typed.structured_content == {"number": "A1", "total": 3}
    assert listed.structured_content == {"result": [1, 2]}
    assert failed.is_error
    assert "OutputInvalid" in text_of(failed)
    assert silent.is_error


@both_eras
async def test_progress(transport: Transport, mode: Mode) -> None:
    """Reports of tools and texts of agents come as notifications, numbers always growing."""
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with sdk(transport, mode, "offered:ALL", "offered:TOOLS") as client:
        await client.call_tool("steps", {"n": 3}, progress_callback=tell)
        steps, told[:] = list(told), []
        await client.call_tool("painter", {"input": "paint"}, progress_callback=tell)
        painted, told[:] = list(told), []
        await client.call_tool("echo", {"input": "hello"}, progress_callback=tell)

    assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
    assert [message for _, _, message in painted][:1] == ["[colour started]"]
    assert "".join(message or "" for _, _, message in told) == "Heard: hello."
    assert [amount for amount, _, _ in told] == sorted({amount for amount, _, _ in told})


@both_eras
async def test_somebody_decides(transport: Transport, mode: Mode) -> None:
    """Calls that wait are asked about at the client: of a plain tool, and of an agent."""
    forms: list[types.ElicitRequestFormParams] = []
    answers: list[types.ElicitResult] = [
        types.ElicitResult(action="accept", content={"decision": "approve"}),
        types.ElicitResult(
            action="accept", content={"decision": "approve", "arguments": '{"amount": 7}'}
        ),
        types.ElicitResult(action="accept", content={"decision": "deny", "reason": "too much"}),
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="accept", content={"colour": "red"}),
        types.ElicitResult(action="accept", content={"colour": "green"}),
        types.ElicitResult(action="accept", content={}),
    ]

    async def fill_in(_: Any, form: Any) -> types.ElicitResult:
        forms.append(form)
        return answers[len(forms) - 1]

    words = ("offered:ALL", "offered:TOOLS")
    async with sdk(transport, mode, *words, elicitation_callback=fill_in) as client:
        calls_made: list[tuple[str, dict[str, Any]]] = [
            ("refund", {"amount": 1}),
            ("clerk", {"input": "go"}),
            ("clerk", {"input": "go"}),
            ("refund", {"amount": 1}),
            ("colour", {}),
            ("painter", {"input": "go"}),
            ("pauser", {"input": "go"}),
        ]
        results = [await client.call_tool(*each) for each in calls_made]

    denied = "Not run: somebody looked at this call and did not approve it. The reason: too much"
    assert [text_of(each).partition("\n")[0] for each in results] == [
        "1 refunded",
        "The tool said: 7 refunded",
        f"The tool said: {denied}",
        "refund did not run: it was denied: Somebody at the client declined it.",
        "It is red.",
        "The tool said: It is green.",
        "The tool said: somebody has to look",
    ]
    assert forms[0].message == 'treadle wants to call refund with {"amount": 1}.'
    assert forms[4].requested_schema["properties"]["colour"]["enum"] == ["red", "green"]


@both_eras
async def test_nobody_decides(transport: Transport, mode: Mode) -> None:
    """Without forms at the client, or when one is dismissed, the result says what waits."""

    async def dismiss(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="cancel")

    words = ("offered:ALL", "offered:TOOLS")
    async with sdk(transport, mode, *words) as client:
        results = [await client.call_tool("clerk", {"input": "go"})]
        results.append(await client.call_tool("refund", {"amount": 1}))
        results.append(await client.call_tool("pauser", {"input": "go"}))
    async with sdk(transport, mode, *words, elicitation_callback=dismiss) as client:
        results.append(await client.call_tool("clerk", {"input": "go"}))
        results.append(await client.call_tool("pauser", {"input": "go"}))

    assert all(each.is_error for each in results)
    for result in (results[0], results[3]):
        assert 'somebody has to approve refund({"amount": 5})' in text_of(result)
        assert str((result.meta or {})["treadle/run_id"]) in text_of(result)
    assert "refund waits" in text_of(results[1])
    assert "somebody has to look" in text_of(results[2])


@both_eras
async def test_a_cancelled_call_ends_the_run(
    transport: Transport, mode: Mode, tmp_path: Path
) -> None:
    """Cancelling a call at the client stops the tool; the server goes on answering."""
    async with sdk(transport, mode, "offered:ALL", "offered:TOOLS") as client:
        for name, arguments in (
            ("hold", {"folder": str(tmp_path)}),
            ("holder", {"input": str(tmp_path)}),
        ):
            calling = asyncio.ensure_future(client.call_tool(name, arguments))
            assert await becomes(tmp_path / "held")
            calling.cancel()
            await asyncio.wait([calling])
            assert await becomes(tmp_path / "let-go")
            (tmp_path / "held").unlink()
            (tmp_path / "let-go").unlink()
        after = await client.call_tool("add", {"a": 1})

    assert text_of(after) == '{"sum":2}'


async def test_our_client(transport: Transport) -> None:
    """An agent uses the tools of the server, with progress, an approval and an error."""
    asked: list[str] = []

    def decide(question: Any) -> dict[str, Any]:
        asked.append(question.message)
        return {"decision": "approve"}

    words = ("offered:ALL", "offered:TOOLS")
    async with ours(transport, *words, name="shop", elicit=decide) as client:
        script = [
            calls(
                ("c1", "shop_add", {"a": 1, "b": 2}),
                ("c2", "shop_steps", {"n": 2}),
                ("c3", "shop_clerk", {"input": "go"}),
                ("c4", "shop_broken", {}),
                ("c5", "shop_reader", {"input": "A1"}),
            ),
            "done",
        ]
        run = Agent("a", ScriptedModel(script), tools=client.tools).start("go")
        progress = [event.progress async for event in run if isinstance(event, ToolProgress)]
        result = await run

    found = {each.call_id: each for each in result.tool_results}
    assert (found["c1"].text, found["c1"].is_error) == ('{"sum":3}', False)
    assert found["c2"].text == "done"
    assert found["c3"].text == "The tool said: 5 refunded"
    assert (found["c4"].text, found["c4"].is_error) == ("It is broken.", True)
    assert "A1" in found["c5"].text
    assert any("step 2" in str(each) for each in progress)
    assert asked == ['clerk wants to call refund with {"amount": 5}.']
    assert not any(isinstance(part, Image) for part in found["c1"].parts)


async def test_conversations(transport: Transport) -> None:
    """With the same conversation an agent remembers; without one it does not."""
    async with sdk(transport, "legacy", "offered:echo") as client:
        said = [
            text_of(await client.call_tool("echo", {"input": text, **kept}))
            for text, kept in (
                ("one", {"conversation": "c"}),
                ("two", {"conversation": "c"}),
                ("three", {}),
            )
        ]
        wrong = await client.call_tool("echo", {"input": "x", "conversation": "a/b"})

    assert said == ["Heard: one.", "Heard: one, two.", "Heard: three."]
    assert wrong.is_error
    assert "conversation ID 'a/b'" in text_of(wrong)
