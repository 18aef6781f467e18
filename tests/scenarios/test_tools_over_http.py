"""Tools of every kind, as a server is told of them and as their results reach it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from tests.scenarios.provider import provider, saying, watch
from treadle import Agent, Parameter, Tool, ToolFinished, ToolRequested, ToolStarted, tool
from treadle.testing import ScriptedModel, calls
from treadle.tools.names import safe_name

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Each test begins with tools that saw nothing."""
    SEEN.clear()


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


async def test_a_long_name_in_events() -> None:
    """BS-07: whoever watches sees the name that people know, beside the alias."""
    name = "northwind.inventory/get stock levels for every warehouse by region, current"

    @tool(name=name)
    async def stock(region: str) -> str:
        """Count."""
        return f"7 in {region}"

    short = tool(name="count", title="Stock")(stock.function)
    alias = safe_name(name)
    asked = calls(("1", alias, {"region": "n"}), ("2", "count", {"region": "s"}))
    run = Agent("a", ScriptedModel([asked, "ok"]), tools=[stock, short]).start("x")
    seen = [
        (event.name, event.title)
        async for event in run
        if isinstance(event, ToolRequested | ToolStarted)
    ]
    assert sorted(seen) == sorted([(alias, name), ("count", "Stock")] * 2)


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
