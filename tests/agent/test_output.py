"""Typed output: asked for by schema or by tool, repaired, and refused in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from treadle import (
    Agent,
    Limits,
    OutputDelta,
    OutputInvalid,
    Overloaded,
    Retry,
    ToolError,
    tool,
)
from treadle.errors import ConfigError
from treadle.testing import ScriptedModel, calls, chunks, raises


class Invoice(BaseModel):
    """An invoice."""

    number: str
    total: float = Field(ge=0)


@dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


class Movie(TypedDict):
    """A movie."""

    title: str


class Row(msgspec.Struct):
    """A row."""

    id: int


GOOD = '{"number": "INV-1", "total": 2}'


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Invoice, GOOD, Invoice(number="INV-1", total=2)),
        (Invoice, f"```json\n{GOOD}\n```", Invoice(number="INV-1", total=2)),
        (Point, '{"x": 1}', Point(1)),
        (Movie, '{"title": "M"}', {"title": "M"}),
        (Row, '{"id": 1}', Row(1)),
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (int, '{"result": 3}', 3),
        (Point | Movie, '{"result": {"title": "M"}}', {"title": "M"}),
        (bool | None, '{"result": null}', None),
    ],
)
async def test_by_schema(kind: Any, text: str, value: Any) -> None:
    """A model that obeys schemas is given one, and its text becomes the value."""
    model = ScriptedModel([text], native_output=True)

    result = await Agent("a", model, output_type=kind).run("x")

    assert result.output == value
    assert type(result.output) is type(value)
    request = model.requests[0]
    assert request.output is not None
    assert request.output.schema["type"] == "object"
    assert request.tools == ()


async def test_by_tool() -> None:
    """Any other model is given a tool to answer with, and must call one."""
    model = ScriptedModel([calls(("1", "final_result", {"number": "INV-1", "total": 2}))])

    result = await Agent("a", model, output_type=Invoice).run("x")

    assert result.output == Invoice(number="INV-1", total=2)
    assert [spec.name for spec in model.requests[0].tools] == ["final_result"]
    assert model.requests[0].settings.tool_choice == "required"
    assert [m.role for m in result.messages] == ["user", "assistant", "tool"]


async def test_by_tool_answered_in_text() -> None:
    """JSON in plain text is taken too."""
    model = ScriptedModel([GOOD])

    assert (await Agent("a", model, output_type=Invoice).run("x")).output.number == "INV-1"


@pytest.mark.parametrize("native", [True, False])
async def test_a_wrong_output_is_repaired(native: bool) -> None:
    """The model hears what is wrong and tries again."""
    wrong = '{"number": "INV-1", "total": -1}'
    model = ScriptedModel([wrong, "no JSON at all", GOOD], native_output=native)

    result = await Agent("a", model, output_type=Invoice).run("x")

    assert result.output.total == 2
    assert "total" in model.requests[1].messages[-1].text


async def test_a_wrong_output_call_is_repaired() -> None:
    """Its result says what is wrong."""
    model = ScriptedModel(
        [
            calls(("1", "final_result", {"number": "INV-1"})),
            calls(("2", "final_result", {"number": "INV-1", "total": 2})),
        ]
    )

    result = await Agent("a", model, output_type=Invoice).run("x")

    first = model.requests[1].messages[-1].tool_results[0]
    assert result.output.total == 2
    assert first.is_error
    assert "total" in first.text


@pytest.mark.parametrize("native", [True, False])
async def test_an_output_that_never_becomes_valid(native: bool) -> None:
    """After two repairs the run fails, with what there is."""
    model = ScriptedModel(["a", "b", "c"], native_output=native)

    with pytest.raises(OutputInvalid, match="3 tries") as caught:
        await Agent("a", model, output_type=Invoice).run("x")

    assert len(model.requests) == 3
    assert len(caught.value.result.messages) == 6


async def test_a_failed_sibling_delays_the_output() -> None:
    """BS-15: all results go back to the model, the second try counts."""

    @tool
    async def edit(anchor: str) -> str:
        """Edit."""
        if anchor == "zzz":
            raise ToolError("no such anchor")
        return "edited"

    model = ScriptedModel(
        [
            calls(("e", "edit", {"anchor": "zzz"}), ("f", "final_result", {"x": 1})),
            calls(("e2", "edit", {"anchor": "abc"}), ("f2", "final_result", {"x": 2})),
        ]
    )

    result = await Agent("a", model, tools=[edit], output_type=Point).run("x")

    assert (result.output, len(model.requests)) == (Point(2), 2)
    asked = [call.id for message in result.messages for call in message.tool_calls]
    answered = [found.call_id for message in result.messages for found in message.tool_results]
    assert asked == answered == ["e", "f", "e2", "f2"]


async def test_a_forced_answer_is_typed_too() -> None:
    """At the limit only the output tool is left, and it is forced."""

    @tool
    async def look() -> str:
        """Look."""
        return "ok"

    model = ScriptedModel([calls(("1", "look", {})), calls(("2", "final_result", {"x": 5}))])

    result = await Agent(
        "a", model, tools=[look], output_type=Point, limits=Limits(max_turns=1)
    ).run("x")

    assert (result.output, result.stop_reason) == (Point(5), "limit")
    assert [spec.name for spec in model.requests[1].tools] == ["final_result"]
    assert model.requests[1].settings.tool_choice == "final_result"


async def test_an_output_type_of_one_run() -> None:
    """It replaces the agent's."""
    model = ScriptedModel(['{"x": 1, "y": 2}'], native_output=True)

    assert (await Agent("a", model).run("x", output_type=Point)).output == Point(1, 2)


async def test_a_type_that_has_no_schema() -> None:
    """Refused in words, before any call."""
    model = ScriptedModel(["x"])

    with pytest.raises(ConfigError, match="output_type"):
        await Agent("a", model, output_type=type(model)).run("x")

    assert model.requests == []


@pytest.mark.parametrize(
    "kind", ["", "Point", "a b", b"", [], [int], {}, {"type": "object"}, (), (int,), 0, 1.5, ...]
)
@pytest.mark.parametrize("of_the_run", [True, False])
async def test_a_value_where_a_type_belongs(kind: Any, of_the_run: bool) -> None:
    """Refused in words with the value, whatever it is, before any call."""
    model = ScriptedModel(["x"])

    of_agent: dict[str, Any] = {} if of_the_run else {"output_type": kind}
    of_run: dict[str, Any] = {"output_type": kind} if of_the_run else {}

    with pytest.raises(ConfigError) as caught:
        await Agent("a", model, **of_agent).run("x", **of_run)

    assert f"output_type={kind!r} cannot be asked of a model: " in str(caught.value)
    assert model.requests == []


async def test_a_type_that_cannot_be_hashed() -> None:
    """A note in `Annotated` may be anything; the type is one all the same."""
    model = ScriptedModel(['{"result": 3}'], native_output=True)
    kind: Any = Annotated[int, {"unit": "m"}]

    assert (await Agent("a", model, output_type=kind).run("x")).output == 3


class Trip(BaseModel):
    """Where to, and for how long."""

    city: str
    days: int


async def outputs(model: ScriptedModel, kind: Any, **options: Any) -> list[Any]:
    """Return the values that a streamed run tells of, and last its output."""
    run = Agent("a", model, output_type=kind, **options).start("Where to?")
    told = [event.value async for event in run if isinstance(event, OutputDelta)]
    return [*told, (await run).output]


async def test_a_streamed_output_is_told_as_it_comes() -> None:
    """What has come is of its type; the answer itself comes last, and whole."""
    pieces = ['{"ci', 'ty": "Os', 'lo", "da', 'ys": 1', "2}"]
    assert await outputs(ScriptedModel([chunks(pieces)], native_output=True), Trip) == [
        *({}, {"city": "Os"}, {"city": "Oslo"}),
        *({"city": "Oslo", "days": 12}, Trip(city="Oslo", days=12)),
    ]


async def test_a_fence_around_it_is_passed_over() -> None:
    """As it is in the whole output."""
    pieces = ["```json\n", '{"result": [1, ', "2]}", "\n```"]
    assert await outputs(ScriptedModel([chunks(pieces)], native_output=True), list[int]) == [
        *([1], [1, 2], [1, 2])
    ]


async def test_an_attempt_that_failed_is_begun_anew() -> None:
    """The next one is told from its beginning."""
    broken = raises(Overloaded("busy", retryable=True), '{"city": "Rome"')
    model = ScriptedModel([broken, chunks(['{"city": "Oslo"', ', "days": 2}'])], native_output=True)
    told = await outputs(model, Trip, retry=Retry(first_wait=0))
    assert told == [
        *({"city": "Rome"}, {"city": "Oslo"}),
        *({"city": "Oslo", "days": 2}, Trip(city="Oslo", days=2)),
    ]


async def test_plain_text_tells_of_no_output() -> None:
    """Nor does an output that is asked for by a tool."""
    assert await outputs(ScriptedModel([chunks(["Os", "lo"])]), str) == ["Oslo"]


async def test_a_long_output_is_not_looked_at_for_each_piece() -> None:
    """The looking grows with the text, not with its square."""
    count = 5_000
    pieces = ['{"result": [', *(f"{number}, " for number in range(count)), "0]}"]
    told = await outputs(ScriptedModel([chunks(pieces)], native_output=True), list[int])
    assert len(told) < 400
    assert told[-1] == [*range(count), 0]
    assert told[-2] == told[-1]
