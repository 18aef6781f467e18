"""What llama.cpp is asked: a Chat Completions request with its tools turned into words."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from treadle.providers.local.grammar import grammar_of
from treadle.providers.local.template import function_of, in_words
from treadle.values import is_array, is_object

Wire = dict[str, Any]

_SPOKEN = ("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format")
_STREAMED: Wire = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,  # without it, reading a long prompt could not be stopped
}


class Asked(Struct, frozen=True):
    """The body for llama.cpp, and the functions that may be called in the text it answers."""

    body: Wire
    functions: tuple[str, ...] = ()


def as_it_is(body: Wire) -> Asked:
    """Leave tools to llama.cpp and the model's own template."""
    return Asked({**body, **_STREAMED})


def constrained(body: Wire) -> Asked:
    """Speak of tools in our words, and let a grammar see to it that calls are right.

    With a schema for the answer, a tool is called once for each thing the user says.
    """
    tools, must_call = _tools(body)
    schema = _schema(body.get("response_format"))
    offered_now = tools if schema is None else _not_called(tools, body["messages"])
    grammar = grammar_of(
        offered_now,
        must_call=must_call and bool(offered_now),
        no_calls=any(message.get("role") == "tool" for message in body["messages"]),
        several=body.get("parallel_tool_calls") is True,
        schema=schema,
    )
    rest = {name: value for name, value in body.items() if name not in _SPOKEN}
    rest["messages"] = in_words(body["messages"], tools, schema)
    if grammar is not None:
        rest["grammar"] = grammar
    return Asked({**rest, **_STREAMED}, tuple(map(_name, offered_now)))


def _tools(body: Wire) -> tuple[list[Wire], bool]:
    """Return the tools that may be called now, and whether one must be."""
    offered, choice = body.get("tools"), body.get("tool_choice")
    tools = [tool for tool in offered if is_object(tool)] if is_array(offered) else []
    if choice == "none":
        return [], False
    if is_object(choice):
        wanted = function_of(choice).get("name")
        tools = [tool for tool in tools if _name(tool) == wanted]
    return tools, bool(tools) and choice not in (None, "auto")


def _not_called(tools: list[Wire], messages: list[Wire]) -> list[Wire]:
    """Return the tools that were not called since the user last spoke.

    Where the answer is JSON as well, a small model prefers the call that it has just made.
    """
    made: set[str] = set()
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        calls: object = message.get("tool_calls")
        if is_array(calls):
            made.update(_name(call) for call in calls if is_object(call))
    return [tool for tool in tools if _name(tool) not in made]


def _schema(wanted: object) -> Wire | None:
    if not is_object(wanted):
        return None
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if is_object(inner) else None
    if is_object(schema):
        return schema
    return {"type": "object"} if wanted.get("type") == "json_object" else None


def _name(tool: Wire) -> str:
    return str(function_of(tool).get("name", ""))
