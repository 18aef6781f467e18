"""The plain protocol over stdio: what is on the line, and how a server ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.parts import FOLDER, SECONDS, Line, becomes, command, started

pytestmark = pytest.mark.e2e


async def test_nothing_but_the_protocol_is_on_standard_output() -> None:
    """What modules, tools and their children print goes to standard error."""
    async with started("offered:add") as process:
        line = Line(process)
        await line.hello()
        result = await line.call("add", a=1, b=2)
        code = await line.leave()
        out, err = await process.communicate()

    assert result["structuredContent"] == {"sum": 3}
    assert (code, out) == (0, b"")
    assert err.decode().split("\n")[:3] == [
        "noise of a module",
        "noise of a tool",
        "noise of a child",
    ]


async def test_garbage_changes_nothing() -> None:
    """Lines that are no messages, blank ones and huge ones are passed over."""
    async with started("offered:add") as process:
        line = Line(process)
        await line.hello()
        for garbage in (
            b"not json\n",
            b"\n",
            b"\xff\xfe\x00\n",
            b"[1, 2]\n",
            b'{"jsonrpc": "2.0"}\n',
            b"{" * 100_000 + b"\n",
            b"x" * (17 * 1024 * 1024) + b"\n",
        ):
            await line.send(garbage)
        result = await line.call("add", a=1)
        unknown = await line.ask("no/such")
        wrong = await line.ask("tools/call", name="add", arguments=[1])
        code = await line.leave()

    assert result["structuredContent"] == {"sum": 2}
    assert unknown["error"]["code"] == -32601
    assert wrong["error"]["code"] == -32602
    assert code == 0


async def test_large_messages_both_ways() -> None:
    """A call and its answer of some megabytes come through whole."""
    async with started("offered:echo", limit=64 * 1024 * 1024) as process:
        line = Line(process)
        await line.hello()
        text = "ä" * 2_000_000
        result = await line.call("echo", input=text)
        code = await line.leave()

    assert result["content"][0]["text"] == f"Heard: {text}."
    assert code == 0


@pytest.mark.parametrize("name", ["hold", "holder"])
async def test_a_client_that_leaves_ends_its_calls(name: str, tmp_path: Path) -> None:
    """When standard input ends in the middle of a call, the tool is cancelled and all ends well."""
    async with started("offered:ALL", "offered:TOOLS") as process:
        line = Line(process)
        await line.hello()
        given = {"folder": str(tmp_path)} if name == "hold" else {"input": str(tmp_path)}
        await line.begin("tools/call", name=name, arguments=given)
        assert await becomes(tmp_path / "held")
        code = await line.leave()

    assert (tmp_path / "let-go").exists()
    assert code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_signals(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """A signal ends calls in order and the server at once, though standard input stays open."""
    async with started("offered:holder") as process:
        line = Line(process)
        await line.hello()
        await line.begin("tools/call", name="holder", arguments={"input": str(tmp_path)})
        assert await becomes(tmp_path / "held")
        process.send_signal(number)
        ended = await asyncio.wait_for(process.wait(), SECONDS)

    assert (tmp_path / "let-go").exists()
    assert ended == code


async def test_a_client_that_reads_nothing_does_not_hold_the_server(tmp_path: Path) -> None:
    """With its output full and nobody reading, a server still ends when it is told to."""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *command("offered:echo"),
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.DEVNULL,
        cwd=FOLDER,
    )
    os.close(writing)
    assert process.stdin is not None
    try:
        hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
        hello["clientInfo"] = {"name": "x", "version": "1"}
        call: dict[str, Any] = {"name": "echo", "arguments": {"input": "x" * 3_000_000}}
        for number, (method, params) in enumerate(
            [("initialize", hello), *[("tools/call", call)] * 3]
        ):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        await process.stdin.drain()
        process.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(process.wait(), SECONDS)
    finally:
        process.stdin.close()
        os.close(reading)

    assert code == 0


async def test_a_run_that_was_cut_off_can_be_resumed(tmp_path: Path) -> None:
    """What a killed server had begun is in the store; `treadle resume` goes on with it."""
    place = f"sqlite:///{tmp_path}/chat.db"
    async with started("offered:pauser", "offered:clerk", "--store", place) as process:
        line = Line(process)
        await line.hello()
        waiting = await line.call("clerk", input="go", conversation="ann")
        process.kill()
        await process.wait()
    run_id = waiting["_meta"]["treadle/run_id"]
    resumed = await asyncio.create_subprocess_exec(
        *command()[:-1],
        *("resume", run_id, "offered:clerk", "--store", place, "--approve-all"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=FOLDER,
    )
    out, err = await asyncio.wait_for(resumed.communicate(), SECONDS)

    assert waiting["isError"]
    assert resumed.returncode == 0, err.decode()
    assert "The tool said: 5 refunded" in out.decode()


async def test_a_question_in_the_middle_of_a_call() -> None:
    """A form goes to the client and comes back; a wrong answer is asked for again."""
    async with started("offered:ALL") as process:
        line = Line(process)
        await line.hello(elicitation={"form": {}})
        number = await line.begin("tools/call", name="clerk", arguments={"input": "go"})
        asked: list[str] = []
        for content in (
            {"decision": "maybe"},
            {"decision": "approve", "arguments": "no json"},
            {"decision": "approve", "arguments": '{"amount": "much"}'},
            {"decision": "approve", "arguments": '{"amount": 9}'},
        ):
            question = await line.heard()
            assert question["method"] == "elicitation/create"
            asked.append(question["params"]["message"])
            answer = {"id": question["id"], "result": {"action": "accept", "content": content}}
            await line.send(json.dumps({"jsonrpc": "2.0", **answer}).encode() + b"\n")
        found = await line.answer(number)
        await line.leave()

    assert asked[0] == 'clerk wants to call refund with {"amount": 5}.'
    assert asked[1].startswith("refund: 'maybe' is no decision; choose approve or deny.")
    assert "The arguments are not JSON" in asked[2]
    assert "amount: expected a valid integer" in asked[3]
    assert "The tool said: 9 refunded" in found["result"]["content"][0]["text"]


META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


async def test_another_server_takes_the_answer(tmp_path: Path) -> None:
    """Asked by one process, answered to another with the same store: the run goes on there."""
    place = f"sqlite:///{tmp_path}/chat.db"
    call: dict[str, Any] = {"name": "clerk", "arguments": {"input": "go"}, "_meta": META}
    async with started("offered:clerk", "--store", place) as process:
        asked = (await Line(process).ask("tools/call", **call))["result"]
        process.kill()
        await process.wait()
    (question,) = asked["inputRequests"]
    answers = {question: {"action": "accept", "content": {"decision": "approve"}}}
    async with started("offered:clerk", "--store", place) as process:
        again = {**call, "requestState": asked["requestState"], "inputResponses": answers}
        first = await Line(process).ask("tools/call", **again)
        second = await Line(process).ask("tools/call", **again)

    assert asked["resultType"] == "input_required"
    assert first["result"]["content"][0]["text"] == "The tool said: 5 refunded"
    assert second["result"]["content"] == first["result"]["content"]


async def test_forged_states_are_refused() -> None:
    """What a client sends back as state is looked at: it opens nothing that does not wait."""
    async with started("offered:ALL", "offered:TOOLS") as process:
        line = Line(process)
        found = [
            await line.ask(
                "tools/call",
                name=name,
                arguments=given,
                requestState=state,
                inputResponses={},
                _meta=META,
            )
            for name, given, state in (
                ("clerk", {"input": "x"}, "nonsense"),
                ("clerk", {"input": "x"}, "calls:run_unknown"),
                ("clerk", {"input": "x"}, "calls:../../etc/passwd"),
                ("refund", {"amount": 1}, "nonsense"),
                ("refund", {"amount": 1}, '{"arguments": 3}'),
            )
        ]
        await line.leave()

    told: list[Any] = [each.get("error", each.get("result")) for each in found]
    assert "not one of this server" in told[0]["content"][0]["text"]
    assert "RunNotFound" in told[1]["content"][0]["text"]
    assert "InvalidId" in told[2]["content"][0]["text"]
    assert told[3]["message"] == told[4]["message"]
    assert "not one of this server" in told[3]["message"]


async def test_a_closed_standard_input_is_told() -> None:
    """Without a standard input there is no client."""
    process = await asyncio.create_subprocess_shell(
        f"{' '.join(command('offered:add'))} <&-",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=FOLDER,
    )
    _, err = await asyncio.wait_for(process.communicate(), SECONDS)

    assert process.returncode in (0, 2)
    assert b"Traceback" not in err


async def test_requests_that_are_none_are_refused() -> None:
    """Whoever waits for an answer gets one; what only some call JSON is read as it is meant."""
    async with started("offered:add") as process:
        line = Line(process)
        await line.hello()
        for bad in ('"params": []', '"params": 5, "x": "\\ud800"', '"id": "b", "method": 7'):
            await line.send(b'{"jsonrpc": "2.0", "id": "a", "method": "ping", %s}\n' % bad.encode())
            refusal = await line.heard()
            assert (refusal["id"], refusal["error"]["code"]) in {("a", -32600), ("b", -32600)}
        await line.send(b'{"jsonrpc": "2.0", "id": "c\\ud800", "method": "ping"}\n')
        assert (await line.heard())["id"] == "c?"
        one = b'{"jsonrpc": "2.0", "id": %d, "method": "ping"}'
        await line.send(b"[" + one % 8 + b"," + one % 9 + b"]\n")
        assert {(await line.heard())["id"] for _ in range(2)} == {8, 9}


@pytest.mark.parametrize("how", ["leave", "signal", "two signals"])
async def test_a_call_that_does_not_want_to_end(how: str, tmp_path: Path) -> None:
    """The process ends all the same, some seconds later; at a second signal at once."""
    async with started("offered:stubborn") as process:
        line = Line(process)
        await line.hello()
        await line.begin("tools/call", name="stubborn", arguments={"folder": str(tmp_path)})
        assert await becomes(tmp_path / "held")
        if how == "leave":
            assert await line.leave() == 1
            return
        process.send_signal(signal.SIGINT)
        if how == "two signals":
            await asyncio.sleep(0.3)
            process.send_signal(signal.SIGINT)
        code = await asyncio.wait_for(process.wait(), SECONDS)
    assert code == (1 if how == "signal" else 130)
