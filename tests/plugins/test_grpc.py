"""Plugin servers, real ones on this machine, used by agents."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.plugins.conftest import run_calls
from tests.plugins.wire import Plugin, put, put_property, put_struct
from treadle import Agent, ConfigError, DuplicateTool, Image, PluginFailed
from treadle.plugins import connect_grpc
from treadle.testing import ScriptedModel, calls

Serve = Callable[..., str]
ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"
LOADING = ["Init", "Name", "Description", "Properties", "Ping"]


def unused() -> str:
    """Return an address on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


async def test_a_server_is_one_tool(serve: Serve) -> None:
    """It is loaded in the order of the protocol, and parameters, text, value and images round."""

    def execute(metadata: dict[str, Any], parameters: dict[str, Any], _: Any) -> bytes:
        assert parameters == {"city": "Paris", "days": [1.0, 2.0], "deep": {"a": None, "b": [True]}}
        image = put(3, put(2, put(1, "image/png") + put(2, PNG)))
        return put(1, "Sunny.") + put(2, put_struct({"celsius": 21})) + image

    listed = (put_property("city", required=True), put_property("days", "array", items="integer"))
    plugin = Plugin("weather", "Look it up.", (*listed, put_property("deep", "object")), execute)
    async with connect_grpc(serve(plugin)) as plugins:
        (found,) = plugins.tools
        assert (found.name, found.description, found.timeout) == ("weather", "Look it up.", 60)
        assert plugin.called == LOADING
        asked = {"city": "Paris", "days": [1, 2], "deep": {"a": None, "b": [True]}}
        result = await run_calls(plugins.tools, ("weather", asked))

    (answer,) = result.tool_results
    assert [type(part).__name__ for part in answer.parts] == ["Text", "Text", "Image"]
    assert "celsius" in answer.text
    assert answer.parts[-1] == Image.from_bytes(PNG, "image/png")
    assert plugin.called == [*LOADING, "Execute"]


async def test_arguments_are_checked_before_they_are_sent(serve: Serve) -> None:
    """A call without a required parameter never reaches the server."""
    plugin = Plugin(properties=(put_property("city", required=True),))
    async with connect_grpc(serve(plugin)) as plugins:
        result = await run_calls(plugins.tools, ("echo", {}))

    assert result.tool_results[0].is_error
    assert "city" in result.tool_results[0].text
    assert plugin.called == LOADING


async def test_only_allowed_metadata_is_sent(serve: Serve) -> None:
    """By default none of the run's metadata leaves; with a list only its keys do."""
    seen: list[dict[str, Any]] = []

    def execute(metadata: dict[str, Any], parameters: dict[str, Any], _: Any) -> bytes:
        seen.append(metadata)
        return b""

    address = serve(Plugin(execute=execute))
    told = {"user_id": "u1", "tags": ["a", {"b": 1}], "token": "hush-hush", "plan": None}
    for send in ([], ["user_id", "tags", "absent"]):
        async with connect_grpc(address, send_metadata=send) as plugins:
            await run_calls(plugins.tools, ("echo", {}), metadata=told)

    assert seen == [{}, {"user_id": "u1", "tags": ["a", {"b": 1.0}]}]


async def test_headers_go_along_and_are_shown_nowhere(serve: Serve) -> None:
    """A token in a header reaches every call, and no repr."""
    plugin = Plugin()
    plugins = connect_grpc(serve(plugin), headers={"Authorization": "Bearer hush-hush"})
    async with plugins:
        await run_calls(plugins.tools, ("echo", {}))
        assert "hush-hush" not in repr(plugins) + repr(plugins.tools) + repr(vars(plugins))

    assert [sent["authorization"] for sent in plugin.headers] == ["Bearer hush-hush"] * 6


async def test_a_server_that_repeats_its_headers_tells_no_secret(serve: Serve) -> None:
    """In its errors, which the model, the log and the journal get."""

    def refuse(_: Any, __: Any, context: Any) -> bytes:
        raise context.abort(grpc.StatusCode.ABORTED, f"{dict(context.invocation_metadata())}")

    headers = {"Authorization": "Bearer hush-hush", "x-tenant": "t1"}
    async with connect_grpc(serve(Plugin(execute=refuse)), headers=headers) as plugins:
        result = await run_calls(plugins.tools, ("echo", {}))

    told = result.tool_results[0].text
    assert "ABORTED: " in told
    assert "'authorization': '[hidden]'" in told
    assert "'x-tenant': 't1'" in told
    assert "hush" not in told


@pytest.mark.parametrize("method", LOADING)
async def test_any_failure_rolls_back_all(serve: Serve, method: str) -> None:
    """Of three servers the second fails: nothing is loaded, and every connection is closed."""
    first, second, third = Plugin("one"), Plugin("two", fails=method), Plugin("three")
    addresses = [serve(plugin) for plugin in (first, second, third)]
    plugins = connect_grpc(addresses)
    with pytest.raises(PluginFailed, match=f"in {method}: FAILED_PRECONDITION: {method} is out"):
        async with plugins:
            pytest.fail("nothing may be loaded")

    assert first.called == LOADING
    assert second.called == LOADING[: LOADING.index(method) + 1]
    assert third.called == []
    with pytest.raises(ConfigError, match="not connected"):
        _ = plugins.tools
    assert_unconnected(addresses)


def assert_unconnected(addresses: list[str]) -> None:
    """No TCP connection of this process leads to one of the addresses any more."""
    ports = {int(address.rpartition(":")[2]) for address in addresses}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = set(open_descriptors().values())
    leading = [
        line
        for line in lines
        if int(line[2].rpartition(":")[2], 16) in ports
        and line[3] == "01"
        and f"socket:[{line[9]}]" in mine
    ]
    assert leading == []


def open_descriptors() -> dict[str, str]:
    """What each open descriptor is; others may be closed meanwhile."""
    found: dict[str, str] = {}
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found[each] = os.readlink(f"/proc/self/fd/{each}")
    return found


async def test_a_server_that_is_not_there(serve: Serve) -> None:
    """The error names the address and what happened, and the others are closed again."""
    here, nowhere = serve(Plugin()), unused()
    with pytest.raises(PluginFailed, match=rf"{nowhere} failed in Init: UNAVAILABLE"):
        async with connect_grpc([here, nowhere]):
            pytest.fail("nothing may be loaded")
    assert_unconnected([here])


async def test_something_else_that_listens() -> None:
    """A server that never speaks the protocol costs no more than the time to connect."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(PluginFailed, match=r"in Init: (DEADLINE_EXCEEDED|UNAVAILABLE)"):
            async with connect_grpc(address, connect_timeout=0.3):
                pytest.fail("nothing may be loaded")


async def test_cancelled_while_it_connects(serve: Serve) -> None:
    """Whoever gives up waiting leaves no connection behind, and may try again."""
    first = Plugin("one")
    address = serve(first)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        plugins = connect_grpc([address, f"127.0.0.1:{mute.getsockname()[1]}"])
        entering = asyncio.ensure_future(plugins.__aenter__())
        while first.called != LOADING:  # noqa: ASYNC110 the server is in other threads
            await asyncio.sleep(0.01)
        with pytest.raises(ConfigError, match="connected already"):
            await plugins.__aenter__()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert_unconnected([address])
    with pytest.raises(PluginFailed):
        await plugins.__aenter__()


async def test_two_servers_with_one_name(serve: Serve) -> None:
    """Which two is told."""
    first, second = serve(Plugin("same")), serve(Plugin("same"))
    with pytest.raises(DuplicateTool, match=f"{first} and {second} both have a tool 'same'"):
        async with connect_grpc([first, second]):
            pytest.fail("nothing may be loaded")


@pytest.mark.parametrize(
    "plugin",
    [
        Plugin(""),
        Plugin("  "),
        Plugin(properties=(put_property("a", "float"),)),
        Plugin(properties=(put_property(""),)),
        Plugin(properties=(b"\xff\xff",)),
    ],
    ids=["no name", "blank name", "no such type", "a parameter without a name", "no message"],
)
async def test_a_server_without_a_tool(serve: Serve, plugin: Plugin) -> None:
    """What a server says has to make a tool; if not, its address is named."""
    address = serve(plugin)
    with pytest.raises(PluginFailed, match=f"{address} has no tool that can be used: "):
        async with connect_grpc(address):
            pytest.fail("nothing may be loaded")


async def test_what_goes_wrong_on_the_server_is_an_error_result(serve: Serve) -> None:
    """Its code and its words reach the model; an answer that is no message does, too."""

    def execute(metadata: dict[str, Any], parameters: dict[str, Any], context: Any) -> bytes:
        if parameters.get("how") == "abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "No such city.")
        if parameters.get("how") == "raise":
            raise ValueError("broken")
        return b"\xff\xff\xff"

    properties = (put_property("how"),)
    async with connect_grpc(serve(Plugin(properties=properties, execute=execute))) as plugins:
        asked = [("echo", {"how": how}) for how in ("abort", "raise", "garbage")]
        result = await run_calls(plugins.tools, *asked)

    assert [found.is_error for found in result.tool_results] == [True] * 3
    aborted, raised, garbage = (found.text for found in result.tool_results)
    assert aborted == "Tool 'echo' failed on its server: NOT_FOUND: No such city."
    assert "UNKNOWN: Exception calling application: broken" in raised
    assert "answered something else: it is no ExecuteResponse" in garbage
    assert result.output == "done"


async def test_silence_is_tried_again_where_that_is_allowed(serve: Serve) -> None:
    """`retries` counts for a server that is not available, and never for what a server says."""
    told: list[str] = []

    def execute(metadata: dict[str, Any], parameters: dict[str, Any], context: Any) -> bytes:
        told.append(parameters["code"])
        if told.count(parameters["code"]) < 3:
            context.abort(grpc.StatusCode[parameters["code"]], "Not now.")
        return put(1, "Now.")

    async with connect_grpc(
        serve(Plugin(properties=(put_property("code"),), execute=execute))
    ) as g:
        tools = [found.replace(retries=2) for found in g.tools]
        asked = [("echo", {"code": code}) for code in ("UNAVAILABLE", "ABORTED")]
        result = await run_calls(tools, *asked)

    tried, final = result.tool_results
    assert (tried.text, final.is_error) == ("Now.", True)
    assert told == ["UNAVAILABLE"] * 3 + ["ABORTED"]


async def test_a_number_that_would_change_is_an_error_result(serve: Serve) -> None:
    """A whole number above 2^53 is not sent, and the model hears why."""
    plugin = Plugin(properties=(put_property("n", "integer"),))
    async with connect_grpc(serve(plugin)) as plugins:
        result = await run_calls(plugins.tools, ("echo", {"n": 2**53 + 1}), ("echo", {"n": 2**53}))

    refused, sent = result.tool_results
    assert refused.is_error
    assert "2^53 at most" in refused.text
    assert not sent.is_error
    assert plugin.called == [*LOADING, "Execute"]


async def test_messages_are_bounded(serve: Serve) -> None:
    """An answer, or a call, of more bytes than allowed is an error result; the next call works."""

    def execute(metadata: dict[str, Any], parameters: dict[str, Any], _: Any) -> bytes:
        return put(1, "x" * int(parameters["size"]))

    listed = (put_property("size", "integer"), put_property("text"))
    plugin = Plugin(properties=listed, execute=execute)
    async with connect_grpc(serve(plugin), max_bytes=10_000) as plugins:
        asked = [{"size": 20_000}, {"size": 1, "text": "x" * 20_000}, {"size": 3}]
        result = await run_calls(plugins.tools, *[("echo", each) for each in asked])

    large, long, right = result.tool_results
    assert "RESOURCE_EXHAUSTED" in large.text
    assert "RESOURCE_EXHAUSTED" in long.text
    assert right.text == "xxx"


class Slow:
    """A tool that takes as long as its call is wanted."""

    def __init__(self) -> None:
        self.left: float | None = None
        self.began, self.ended = threading.Event(), threading.Event()

    def __call__(self, metadata: Any, parameters: Any, context: Any) -> bytes:
        self.left = context.time_remaining()
        context.add_callback(self.ended.set)
        self.began.set()
        self.ended.wait(30)
        return b""


async def test_a_timeout_is_the_servers_deadline_and_ends_the_call(serve: Serve) -> None:
    """The server knows how long it may take, and hears at once that nobody waits any more."""
    slow = Slow()
    async with connect_grpc(serve(Plugin(execute=slow)), timeout=0.5) as plugins:
        result = await run_calls(plugins.tools, ("echo", {}))

        assert await asyncio.to_thread(slow.ended.wait, 10)
    assert result.tool_results[0].is_error
    assert "timed out" in result.tool_results[0].text or "DEADLINE" in result.tool_results[0].text
    assert slow.left is not None
    assert 0 < slow.left < 1


async def test_cancelling_a_run_cancels_the_call(serve: Serve) -> None:
    """The server hears of it, long before any deadline."""
    slow = Slow()
    async with connect_grpc(serve(Plugin(execute=slow)), timeout=None) as plugins:
        model = ScriptedModel([calls(("c1", "echo", {})), "done"])
        run = Agent("tester", model=model, tools=plugins.tools).start("Go.")
        assert await asyncio.to_thread(slow.began.wait, 10)
        assert slow.left is not None
        assert slow.left > 10**9  # how gRPC says that there is none
        await run.cancel("enough")

        assert await asyncio.to_thread(slow.ended.wait, 10)
        assert (await run).stop_reason == "cancelled"


async def test_calls_run_beside_each_other(serve: Serve) -> None:
    """Two calls of one reply meet on the server."""
    meeting = threading.Barrier(2, timeout=10)

    def execute(metadata: Any, parameters: Any, _: Any) -> bytes:
        meeting.wait()
        return put(1, "met")

    async with connect_grpc(serve(Plugin(execute=execute))) as plugins:
        model = ScriptedModel([calls(("c1", "echo", {}), ("c2", "echo", {})), "done"])
        result = await Agent("tester", model=model, tools=plugins.tools).run("Go.")

    assert [found.text for found in result.tool_results] == ["met", "met"]


async def test_after_closing(serve: Serve) -> None:
    """A tool that is still held answers with an error; the connections can be opened again."""
    plugins = connect_grpc(serve(Plugin()))
    async with plugins:
        held = plugins.tools
        with pytest.raises(ConfigError, match="connected already"):
            await plugins.__aenter__()
    result = await run_calls(held, ("echo", {}))
    assert result.tool_results[0].text == "Tool 'echo' is gone: its plugin server was closed."

    async with plugins:
        again = await run_calls(plugins.tools, ("echo", {}))
    assert not again.tool_results[0].is_error
    await plugins.close()


async def test_closing_ends_calls_under_way(serve: Serve) -> None:
    """The run goes on with an error result, and the server hears of the end."""
    slow = Slow()
    plugins = connect_grpc(serve(Plugin(execute=slow)))
    await plugins.__aenter__()
    model = ScriptedModel([calls(("c1", "echo", {})), "done"])
    run = Agent("tester", model=model, tools=plugins.tools).start("Go.")
    assert await asyncio.to_thread(slow.began.wait, 10)
    await plugins.close()

    result = await run
    assert result.tool_results[0].is_error
    assert result.output == "done"
    assert await asyncio.to_thread(slow.ended.wait, 10)


async def test_another_event_loop_is_told(serve: Serve) -> None:
    """A connection belongs to its loop; a run in another one hears so and does not hang."""
    async with connect_grpc(serve(Plugin())) as plugins:
        tools = plugins.tools
        result = await asyncio.to_thread(lambda: asyncio.run(run_calls(tools, ("echo", {}))))

    assert "belongs to the event loop that connected it" in result.tool_results[0].text
