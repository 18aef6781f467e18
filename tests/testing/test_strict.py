"""The request checkers refuse what real servers refuse, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.testing.strict import assert_strict, strict

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "yes"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}


def call(call_id: str = "c1", name: str = "ls", arguments: Any = "{}") -> dict[str, Any]:
    """Return a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request body."""
    return {"model": "m", "messages": list(messages), **fields}


def tool(name: str = "ls", **function: Any) -> dict[str, Any]:
    """Return a tool as it is offered."""
    return {"type": "function", "function": {"name": name, **function}}


def schema_of(schema: Any, name: str = "Out") -> dict[str, Any]:
    """Return a strict response format."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": True},
    }


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
FINE = [
    request(USER),
    request({"role": "system", "content": "be"}, USER, ANSWER, USER),
    request(USER, calling(call()), RESULT, ANSWER),
    request(
        USER,
        calling(call("c1"), call("c2")),
        {**RESULT, "tool_call_id": "c2"},
        RESULT,
    ),
    request(USER, calling(call()), RESULT, calling(call()), RESULT),
    request({"role": "user", "content": [{"type": "text", "text": "a"}]}),
    request(USER, tools=[tool(parameters={"type": "object"})], tool_choice="auto"),
    request(USER, tools=[tool(strict=True, parameters=CLOSED)]),
    request(USER, stream=True, stream_options={"include_usage": True}),
    request(USER, response_format=schema_of(CLOSED)),
    request(USER, {"role": "assistant", "content": None, "refusal": "no"}, USER),
]


@pytest.mark.parametrize("body", FINE)
def test_what_openai_takes_is_fine(body: dict[str, Any]) -> None:
    """As an object, as text and as bytes."""
    for form in (body, json.dumps(body), json.dumps(body).encode()):
        assert strict("openai")(form) == []
        assert_strict(form)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "no JSON object"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', "UTF-8"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "surrogates"),
        (b'{"model": NaN}', "NaN is not JSON"),
        ({"model": "m"}, "at least one message"),
        (request(), "at least one message"),
        ({"messages": [USER]}, "model: a name"),
        (request("hi"), "an object is wanted"),
        (request({"role": "bot", "content": ""}), "no role 'bot'"),
        (request({"role": "user", "content": None}), "content is null"),
        (request({"role": "user", "content": 3}), "text or a list of blocks"),
        (request({"role": "user", "content": []}), "text or a list of blocks"),
        (request({"role": "user", "content": [{"type": "video_url"}]}), "'video_url'"),
        (request({"role": "user", "content": [{"type": "text"}]}), "'text' is missing"),
        (request(USER, {"role": "assistant", "content": ""}), "neither content nor calls"),
        (request(USER, {**ANSWER, "tool_calls": []}), "tool_calls is an empty list"),
        (request(USER, calling(call("")), RESULT), "id is missing"),
        (request(USER, calling(call("x" * 41)), RESULT), "at most 40"),
        (request(USER, calling({"id": "c1", "type": "function"}), RESULT), "type and function"),
        (request(USER, calling(call(), call()), RESULT, RESULT), "two calls with ID 'c1'"),
        (request(USER, calling(call(name="a.b")), RESULT), "'a.b'"),
        (request(USER, calling(call(name="x" * 65)), RESULT), "{1,64}"),
        (request(USER, calling(call(arguments="[]")), RESULT), "not a JSON object as text"),
        (request(USER, calling(call(arguments="")), RESULT), "not a JSON object as text"),
        (request(USER, calling(call(arguments={})), RESULT), "not a JSON object as text"),
        (request(USER, calling(call(arguments='{"a": NaN}')), RESULT), "not a JSON object as text"),
        (request(USER, calling(call())), "call 'c1' has no result"),
        (request(USER, calling(call()), USER), "call 'c1' has no result before it"),
        (request(USER, calling(call()), ANSWER, RESULT), "no open call has the ID 'c1'"),
        (request(USER, RESULT), "no open call has the ID 'c1'"),
        (request(USER, calling(call()), RESULT, RESULT), "no open call has the ID 'c1'"),
        (request(USER, calling(call()), {"role": "tool", "content": ""}), "tool_call_id"),
        (request(USER, tools=[]), "tools: an empty list"),
        (request(USER, tools=[{}]), "tools[0]: type and function"),
        (request(USER, tools=[tool("a b")]), "'a b'"),
        (request(USER, tools=[tool(), tool()]), "two are called 'ls'"),
        (request(USER, tools=[tool(parameters={"type": "string"})]), "no object schema"),
        (request(USER, tools=[tool(strict=True, parameters={"type": "object"})]), "must be false"),
        (request(USER, tool_choice="auto"), "tool_choice: only allowed"),
        (request(USER, parallel_tool_calls=True), "parallel_tool_calls: only allowed"),
        (request(USER, stream_options={}), "stream_options: only allowed"),
        (request(USER, response_format=schema_of(CLOSED, "a b")), "'a b'"),
        (request(USER, response_format=schema_of({**CLOSED, "required": []})), "must be required"),
        (
            request(
                USER,
                response_format=schema_of({"anyOf": [{"items": {"type": "object"}}], "enum": [1]}),
            ),
            "must be false",
        ),
    ],
)
def test_what_openai_refuses_is_said(body: Any, problem: str) -> None:
    """One breach each, named in words."""
    problems = strict("openai")(body)
    assert any(problem in one for one in problems), problems
    with pytest.raises(AssertionError, match="refuses the request"):
        assert_strict(body)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([{"role": "system", "content": "be"}, USER, ANSWER, USER], None),
        ([USER, calling(call()), RESULT, ANSWER], None),
        ([USER, calling(call()), RESULT, USER, ANSWER], None),
        ([USER, USER], "messages[1]: two user messages in a row"),
        ([USER, ANSWER, ANSWER], "messages[2]: it is the user's turn"),
        ([ANSWER, USER], "messages[0]: it is the user's turn"),
        ([USER, {"role": "system", "content": "be"}], "messages[1]: only the first message"),
        ([USER, calling(call())], "call 'c1' has no result"),
    ],
)
def test_a_template_wants_turns(messages: list[Any], problem: str | None) -> None:
    """BS-26: one system message at index 0, then user and assistant alternate."""
    problems = strict("template")(request(*messages))
    assert (problems == []) if problem is None else (len(problems) == 1 and problem in problems[0])


def test_an_unknown_checker_is_an_error() -> None:
    """The message names those there are."""
    kind: Any = "mainframe"
    with pytest.raises(ConfigError, match="openai, template"):
        strict(kind)
