"""Tool calls, from a server's bytes through the loop and back to the server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from tests.scenarios.provider import ask, both_ways, kinds_of, provider, saying, watch, wire
from tests.servers import DONE, delta, stream
from treadle import Agent, IncompleteReply, Parameter, Tool, ToolFinished, tool

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Each test begins with tools that saw nothing."""
    SEEN.clear()


@tool
async def ls(path: str) -> str:
    """List."""
    SEEN.append(path)
    return f"files of {path}"


@tool
async def write(path: str, content: str) -> str:
    """Write."""
    SEEN.append((path, content))
    return "written"


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


@tool
async def greet(city: str) -> str:
    """Greet."""
    return f"hello {city}"


@both_ways
async def test_broken_arguments_never_run(streamed: bool) -> None:
    """BS-01: the raw text stays in the history, an object is sent back, the model hears why."""
    raw = '{"path": "say "hi" 你好"}'
    answers = (saying("", ("c1", "ls", raw), streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ls]), "x", streamed=streamed)

    assert SEEN == []
    assert result.output == "ok"
    assert result.messages[1].tool_calls[0].raw == raw
    assert "'ls' did not run" in line.results()["c1"]
    sent = line.messages()[1]["tool_calls"][0]["function"]["arguments"]
    assert raw in json.loads(sent).values()


@both_ways
@pytest.mark.parametrize("raw", ["", "  ", "null", "{}"])
async def test_blank_arguments(raw: str, streamed: bool) -> None:
    """BS-02: blank means {}; the tool without parameters runs, the other hears what is missing."""
    calls = (("a", "ping", raw), ("b", "greet", raw))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        await ask(Agent("a", line.model, tools=[ping, greet]), "x", streamed=streamed)

    assert line.results()["a"] == "pong"
    assert "city" in line.results()["b"]


@both_ways
async def test_truncated_arguments(streamed: bool) -> None:
    """BS-02: half an object is not guessed at, although the server calls the reply finished."""
    call = ("a", "greet", '{"city": "San Fra')
    answers = (saying(None, call, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[greet]), "x", streamed=streamed)

    assert result.tool_results[0].is_error
    assert "'greet' did not run" in line.results()["a"]


@both_ways
async def test_an_unknown_tool(streamed: bool) -> None:
    """BS-03: its call is answered with the nearest names, the other call runs."""
    calls = (("c1", "get_greeting", "{}"), ("c2", "ping", "{}"))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ping, greet]), "x", streamed=streamed)

    assert list(line.results()) == ["c1", "c2"]
    assert "greet" in line.results()["c1"]
    assert (line.results()["c2"], result.output) == ("pong", "ok")


@pytest.mark.xfail(reason="a name that the model made up is sent back as it is")
@pytest.mark.parametrize("name", ["functions.ls", "list files", "ls\u0000", "工具", "x" * 80, ""])
async def test_a_name_that_no_provider_takes_back(name: str) -> None:
    """BS-03: a made-up name of any form leaves a history that a strict server accepts."""
    call = ("c1", name, '{"path": "."}')
    answers = (saying(None, call, streamed=True), saying("ok", streamed=True))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ls]), "x", streamed=True)

    assert (SEEN, result.output) == ([], "ok")
    assert "ls" in line.results()["c1"]


async def test_entries_of_one_index_in_one_chunk() -> None:
    """BS-04: the ID and the first piece of arguments stand apart, and are one call."""
    head = wire("c1", "ls", "", index=0)
    del head["function"]["arguments"]
    first = delta(tool_calls=[head, {"index": 0, "function": {"arguments": '{"pa'}}])
    second = delta(tool_calls=[{"index": 0, "function": {"arguments": 'th": "."}'}}])
    answers = (stream(first, second, delta("tool_calls"), DONE), saying("ok", streamed=True))
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, tools=[ls]))

    assert SEEN == ["."]
    assert kinds_of(events).count("tool.started") == 1
    assert line.results() == {"c1": "files of ."}


async def test_pieces_without_an_index() -> None:
    """BS-05: a new ID opens a call, a piece without one goes on; the order is kept."""

    @tool
    async def clock(tz: str) -> str:
        """Tell the time."""
        return f"noon in {tz}"

    pieces: list[dict[str, Any]] = [
        {"id": "a", "function": {"name": "greet", "arguments": '{"city":'}},
        {"function": {"arguments": '"Rome"}'}},
        {"id": "b", "function": {"name": "clock", "arguments": '{"tz":"JST"}'}},
        {"index": 2, "id": "d", "function": {"name": "ping", "arguments": "{}"}},
    ]
    chunks = [delta(tool_calls=[piece]) for piece in pieces]
    answers = (stream(*chunks, delta("tool_calls"), DONE), saying("ok", streamed=True))
    async with provider(*answers) as line:
        await watch(Agent("a", line.model, tools=[clock, greet, ping]))

    assert line.results() == {"a": "hello Rome", "b": "noon in JST", "d": "pong"}


@both_ways
async def test_a_server_that_reuses_one_call_id(streamed: bool) -> None:
    """BS-06: three results reach the model, under IDs that differ, in one run and over two."""
    asks = [saying(None, ("x", "ls", f'{{"path": "{n}"}}'), streamed=streamed) for n in "abc"]
    done = saying("done", streamed=streamed)
    async with provider(*asks[:2], done, asks[2], done) as line:
        agent = Agent("a", line.model, tools=[ls])
        first = await ask(agent, "x", streamed=streamed)
        await ask(agent, "y", streamed=streamed, history=first.messages)

    assert list(line.results().values()) == ["files of a", "files of b", "files of c"]
    assert SEEN == ["a", "b", "c"]


@both_ways
async def test_two_calls_of_one_reply_with_one_id(streamed: bool) -> None:
    """BS-06: both run, and each result has an ID of its own."""
    calls = (("x", "ls", '{"path": "a"}'), ("x", "ls", '{"path": "b"}'))
    answers = (saying(None, *calls, streamed=streamed), saying("done", streamed=streamed))
    async with provider(*answers) as line:
        await ask(Agent("a", line.model, tools=[ls]), "x", streamed=streamed)

    assert list(line.results().values()) == ["files of a", "files of b"]


async def test_a_long_name() -> None:
    """BS-07: a name that no provider takes gets a safe alias, by which the tool is reached."""
    name = "northwind.inventory/get stock levels for every warehouse by region, current"

    @tool(name=name)
    async def stock(region: str) -> str:
        """Count."""
        return f"7 in {region}"

    probe = Agent("a", tools=[stock])
    async with provider(saying("ok", streamed=False)) as line:
        await probe.run("x", model=line.model)
    alias = line.requests[0]["tools"][0]["function"]["name"]
    call = saying(None, ("c", alias, '{"region": "north"}'), streamed=False)
    async with provider(call, saying("ok", streamed=False)) as line:
        await probe.run("x", model=line.model)

    assert line.results() == {"c": "7 in north"}


async def test_names_of_every_spelling() -> None:
    """S18: each is offered under a safe name of its own, and each call reaches its tool."""

    def named(name: str) -> Tool:
        async def tell(arguments: dict[str, Any]) -> str:
            return name

        return Tool.from_schema(name, "Tell.", [], tell)

    names = ("search web/工具", "search web/工 具", "search_web_", "search.web")
    tools = [named(name) for name in names]
    async with provider(saying("ok", streamed=False)) as line:
        await Agent("a", line.model, tools=tools).run("x")
    aliases = [offered["function"]["name"] for offered in line.requests[0]["tools"]]
    calls = [(f"c{n}", alias, "{}") for n, alias in enumerate(aliases)]
    async with provider(saying(None, *calls, streamed=False), saying("", streamed=False)) as line:
        await Agent("a", line.model, tools=tools).run("x")

    assert list(line.results().values()) == list(names)


async def test_parameters_known_at_run_time() -> None:
    """B46: a list of them makes the schema, and the arguments come as one dict."""

    async def forecast(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    city = Parameter(name="city", type="string", description="Where.", required=True)
    parameters = [city, Parameter(name="days", type="integer")]
    weather = Tool.from_schema("weather", "Forecast.", parameters, forecast)
    calls = (("a", "weather", '{"city": "Rome", "days": 2}'), ("b", "weather", '{"days": "x"}'))
    answers = (saying(None, *calls, streamed=True), saying("ok", streamed=True))
    async with provider(*answers) as line:
        await watch(Agent("a", line.model, tools=[weather]))

    schema = line.requests[0]["tools"][0]["function"]["parameters"]
    assert schema["properties"]["city"] == {"type": "string", "description": "Where."}
    assert schema["required"] == ["city"]
    assert json.loads(line.results()["a"]) == {"city": "Rome", "days": 2}
    assert "city" in line.results()["b"]
    assert "days" in line.results()["b"]


async def test_a_free_form_dict() -> None:
    """BS-08: its schema says what its values are, and it may be left out."""

    @tool
    async def convert(options: dict[str, str] | None = None) -> str:
        """Convert."""
        SEEN.append(options)
        return "ok"

    calls = (("a", "convert", '{"options": {"unit": "C"}}'), ("b", "convert", "{}"))
    answers = (saying(None, *calls, streamed=False), saying("ok", streamed=False))
    async with provider(*answers) as line:
        await Agent("a", line.model, tools=[convert]).run("x")

    assert SEEN == [{"unit": "C"}, None]
    assert '"additionalProperties": {"type": "string"}' in json.dumps(line.requests[0]["tools"])


async def test_nested_objects_as_text() -> None:
    """BS-09: objects and arrays that come as JSON text are taken, real texts stay."""

    class Period(Struct):
        """A period."""

        kind: str

    @tool
    async def report(period: Period, tags: list[str], note: str) -> str:
        """Report."""
        SEEN.append((period, tags, note))
        return "ok"

    note = '{"not":"parsed"}'
    raw = json.dumps({"period": '{"kind":"week"}', "tags": '["a","b"]', "note": note})
    answers = (saying(None, ("a", "report", raw), streamed=True), saying("ok", streamed=True))
    async with provider(*answers) as line:
        await watch(Agent("a", line.model, tools=[report]))

    assert [(Period("week"), ["a", "b"], note)] == SEEN


async def test_what_tools_return_reaches_the_model_as_json() -> None:
    """BS-10: never as Python writes it; what has no JSON form is an error that names its type."""

    class Row(Struct):
        """A row."""

        id: int

    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    values: list[Any] = [{"ok": True, "at": at}, [Row(1)], None, b"\x00\xff", {1, 2}]
    values += [Decimal("1.10"), float("nan"), object()]

    @tool
    async def value(n: int) -> Any:
        """Return one of them."""
        return values[n]

    calls = [(f"c{n}", "value", f'{{"n": {n}}}') for n in range(len(values))]
    answers = (saying(None, *calls, streamed=False), saying("ok", streamed=False))
    async with provider(*answers) as line:
        result = await Agent("a", line.model, tools=[value]).run("x")

    *told, refused = line.results().values()
    for text in told:
        json.loads(text, parse_constant=pytest.fail)
    assert json.loads(told[0])["ok"] is True
    assert "object" in refused
    assert "0x" not in refused
    assert [found.is_error for found in result.tool_results][-1]


async def test_a_huge_result() -> None:
    """BS-11: of three million characters the model gets both ends, and a request that fits."""

    @tool
    async def dump() -> str:
        """Dump."""
        return "\n".join(f"{number:>9}" for number in range(300_000))

    answers = (saying(None, ("c", "dump", "{}"), streamed=False), saying("ok", streamed=False))
    async with provider(*answers) as line:
        await Agent("a", line.model, tools=[dump]).run("x")

    told = line.results()["c"]
    assert told.split()[0] == "0"
    assert told.split()[-1] == "299999"
    assert "2999999 bytes" in told
    assert len(line.server.requests[1].body) < 50_000


@both_ways
@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS"])
async def test_a_call_that_was_cut_off(finish: str, streamed: bool) -> None:
    """BS-13: it never runs, nor do the calls before it; two hints, then a typed end."""
    calls = (("a", "ls", '{"path": "."}'), ("b", "write", '{"path":"x.md","content":"aaaa'))
    cut = saying(None, *calls, streamed=streamed, finish=finish)
    async with provider(cut) as line:
        with pytest.raises(IncompleteReply, match="output limit") as caught:
            await ask(Agent("a", line.model, tools=[ls, write]), "x", streamed=streamed)

    assert SEEN == []
    assert len(line.requests) == 3
    assert all("truncated" in text for text in line.results().values())
    assert caught.value.result.stop_reason == "failed"


async def test_an_output_and_a_failed_call_in_one_reply() -> None:
    """BS-15: the output counts only in the reply in which the other call succeeds."""

    @tool
    async def edit(anchor: str) -> str:
        """Edit."""
        if anchor == "zzz":
            raise ValueError("no such anchor")
        return "edited"

    def both(number: int, anchor: str) -> tuple[tuple[str, str, str], ...]:
        output = ("f", "final_result", f'{{"result": {number}}}')
        return ("e", "edit", json.dumps({"anchor": anchor})), output

    answers = [saying(None, *both(n, a), streamed=True) for n, a in ((1, "zzz"), (2, "abc"))]
    async with provider(*answers) as line:
        agent = Agent("a", line.model, tools=[edit], output_type=int)
        run = agent.start("x")
        finished = [event async for event in run if isinstance(event, ToolFinished)]
        result = await run

    assert (result.output, len(line.requests)) == (2, 2)
    assert [event.error is None for event in finished if event.name == "edit"] == [False, True]


@both_ways
async def test_nothing_empty_is_sent(streamed: bool) -> None:
    """BS-25: no blank text beside a call, none of an empty result, no blank reply."""

    @tool
    async def touch() -> str:
        """Touch."""
        return ""

    blank = saying("   ", streamed=streamed)
    calls = saying("", ("c1", "touch", "{}"), streamed=streamed)
    async with provider(calls, blank, saying("ok", streamed=streamed)) as line:
        result = await ask(Agent("a", line.model, tools=[touch]), "x", streamed=streamed)

    assert (result.output, len(line.requests)) == ("ok", 3)
    assert line.messages(1) == line.messages(2)
    assert [message["content"] for message in line.messages()] == ["x", None, ""]
