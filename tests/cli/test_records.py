"""Results and events as JSON: valid JSON whatever is in them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from treadle import Agent, RunContext, ToolProgress, ToolStarted
from treadle.cli.records import event_record, result_record
from treadle.testing import ScriptedModel, calls

AT = datetime(2026, 1, 5, tzinfo=UTC)


class Point(BaseModel):
    """A model of pydantic's."""

    x: int


class Odd:
    """Something without a JSON form."""

    def __repr__(self) -> str:
        return "<odd \ud800>"


class Recursive(dict[str, Any]):
    """A dict that holds itself."""

    def __init__(self) -> None:
        super().__init__(me=self)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
        (Point(x=1), {"x": 1}),
        ([Point(x=1), date(2026, 1, 5), Decimal("1.10")], [{"x": 1}, "2026-01-05", "1.10"]),
        (10**30, 10**30),
        ({"half": "\ud800"}, {"half": "\ufffd"}),
        (Odd(), "<odd \ufffd>"),
        ({(1, 2): Odd()}, "{(1, 2): <odd \ufffd>}"),
        (Recursive(), "{'me': {...}}"),
    ],
)
def test_any_progress_is_json(value: Any, shown: object) -> None:
    """What has no JSON form is shown as Python shows it; nothing fails."""
    event = ToolProgress("run_1", 1, "s", None, "agent", "", AT, "c1", "tool", value)

    record = json.loads(event_record(event))

    assert list(record)[:3] == ["type", "run_id", "seq"]
    assert record["type"] == "tool.progress"
    assert record["progress"] == shown


def test_arguments_are_json_values() -> None:
    """Numbers that JSON does not have do not break the line."""
    event = ToolStarted(
        "run_1", 1, "s", None, "agent", "", AT, "c1", "tool", {"a": float("nan"), "b": 2**70}, 1
    )

    record = json.loads(event_record(event))

    assert record["arguments"]["b"] == 2**70
    assert record["arguments"]["a"] in (None, "NaN")


async def test_every_event_of_a_run_is_json() -> None:
    """Each event that a run emits becomes one line."""

    def note(ctx: RunContext, text: str) -> Point:
        """Note a text."""
        ctx.report({"half": 1})
        return Point(x=len(text))

    model = ScriptedModel([calls(("c1", "note", {"text": "hi"})), "done"])
    agent = Agent("noter", model, tools=[note])
    lines = [event_record(event) async for event in agent.stream("go")]

    kinds = [json.loads(line)["type"] for line in lines]
    assert len(kinds) == len(lines)
    assert {"tool.progress", "tool.finished", "run.finished"} <= set(kinds)
    assert not any("\n" in line for line in lines)


async def test_an_output_without_a_json_form_is_shown() -> None:
    """The result's record has it as text."""
    result = await Agent("a", ScriptedModel(["hi"])).run("go")
    result.output = Odd()  # pyright: ignore[reportAttributeAccessIssue] an agent's output may be anything

    assert json.loads(result_record(result, None))["output"] == "<odd \ufffd>"
