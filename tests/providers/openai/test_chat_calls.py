"""Tool calls that arrive in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.openai.parts import folded
from tests.servers import delta


def piece(name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a piece of a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"function": {k: v for k, v in function.items() if v is not None}, **fields}


def calls_of(*chunks: Any, finish: str = "tool_calls") -> list[tuple[str, str]]:
    """Return the names and arguments of the calls that these `tool_calls` make, one per chunk."""
    made = folded(*(delta(tool_calls=pieces) for pieces in chunks), delta(finish))
    return [(call.name, call.raw) for call in made.message.tool_calls]


def test_entries_of_one_index_in_one_chunk_are_one_call() -> None:
    """BS-04: the second entry goes on where the first began."""
    assert calls_of(
        [piece("ls", index=0, id="c1"), piece(None, '{"pa', index=0)],
        [piece(None, 'th": "."}', index=0)],
    ) == [("ls", '{"path": "."}')]


def test_pieces_without_an_index_find_their_call() -> None:
    """BS-05: a new ID opens a call, no ID goes on with the last; both kinds may mix."""
    assert calls_of(
        [piece("weather", '{"city":', id="a")],
        [piece(None, '"Rome"}')],
        [piece("clock", '{"tz":"JST"}', id="b")],
        [piece("ping", "{}", id="d", index=2)],
    ) == [("weather", '{"city":"Rome"}'), ("clock", '{"tz":"JST"}'), ("ping", "{}")]


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        (  # every call under index 0
            [[piece("a", "{}", index=0, id="1")], [piece("b", "{}", index=0, id="2")]],
            [("a", "{}"), ("b", "{}")],
        ),
        (  # whole calls with neither index nor ID
            [[piece("a", '{"x":1}'), piece("b", "{}")]],
            [("a", '{"x":1}'), ("b", "{}")],
        ),
        (  # two calls, their pieces in turns
            [
                [piece("a", "", index=0, id="1"), piece("b", "", index=1, id="2")],
                [piece(None, '{"x"', index=0), piece(None, '{"y"', index=1)],
                [piece(None, ":2}", index=1), piece(None, ":1}", index=0)],
            ],
            [("a", '{"x":1}'), ("b", '{"y":2}')],
        ),
        (  # the name again with each piece, the ID too
            [[piece("a", '{"x"', index=0, id="1")], [piece("a", ":1}", index=0, id="1")]],
            [("a", '{"x":1}')],
        ),
        (  # the name in pieces, and empty fields
            [[piece("get_", index=0, id="1")], [piece("it", "", index=0, id="")]],
            [("get_it", "{}")],
        ),
        (  # an ID without index again
            [
                [piece("a", '{"x"', id="1")],
                [piece("b", "{}", id="2")],
                [piece(None, ":1}", id="1")],
            ],
            [("a", '{"x":1}'), ("b", "{}")],
        ),
        ([[piece("a", index=0, id="1")]], [("a", "{}")]),
        (
            [[{"index": 0, "id": "1", "function": {"name": "a", "arguments": {"x": 1}}}]],
            [("a", '{"x":1}')],
        ),
        ([[{"index": 0, "id": "1"}], [piece("a", "{}", index=0)]], [("a", "{}")]),
    ],
)
def test_calls_are_put_together(chunks: list[Any], calls: list[tuple[str, str]]) -> None:
    """BS-04 to BS-06: the habits of servers that number calls in their own way."""
    assert calls_of(*chunks) == calls


def test_one_id_for_ever_is_one_call_per_index() -> None:
    """BS-06: a server that gives every call the same ID still numbers them."""
    made = calls_of([piece("a", "{}", index=0, id="x")], [piece("b", "{}", index=1, id="x")])
    assert made == [("a", "{}"), ("b", "{}")]


def test_calls_of_other_kinds() -> None:
    """The form of old, and calls with free text."""
    old = folded(
        delta(function_call={"name": "ls", "arguments": '{"a"'}),
        delta(function_call={"arguments": ":1}"}),
        delta("function_call"),
    )
    assert [(call.name, call.raw) for call in old.message.tool_calls] == [("ls", '{"a":1}')]
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": "pri"}}
    more = {"index": 0, "custom": {"input": "nt"}}
    made = folded(delta(tool_calls=[custom]), delta(tool_calls=[more]), delta("tool_calls"))
    assert made.message.tool_calls[0].arguments == {"input": "print"}
