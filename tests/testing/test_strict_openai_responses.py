"""The checker of Responses requests refuses what OpenAI refuses, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.testing.strict import assert_strict, strict

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "so"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
LS: dict[str, Any] = {"type": "function", "name": "ls", "parameters": CLOSED, "strict": True}


def asked(*items: Any, **fields: Any) -> dict[str, Any]:
    """Return a request body."""
    return {"model": "m", "input": list(items), **fields}


def written(schema: dict[str, Any], name: str = "Out", **fields: Any) -> dict[str, Any]:
    """Return a request with a strict schema for its text."""
    wanted = {"type": "json_schema", "name": name, "schema": schema, "strict": True}
    return asked(USER, text={"format": {**wanted, **fields}})


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "input": "hi"},
        asked(USER, THOUGHT, CALL, OUTPUT, SAID, USER),
        asked(USER, CALL, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}, OUTPUT),
        asked(OUTPUT, previous_response_id="resp_1"),
        asked(previous_response_id="resp_1"),
        asked({"type": "tool_search_call", "call_id": None, "execution": "server"}, USER),
        asked(USER, tools=[LS, {"type": "web_search"}], tool_choice="required"),
        asked(USER, max_output_tokens=16, temperature=2, tools=[]),
        written(CLOSED),
        written({"type": "object"}, strict=False),
        asked({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
    ],
)
def test_what_openai_takes(body: dict[str, Any]) -> None:
    """Nothing is said of it."""
    assert_strict(body, "openai_responses")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"model": "m"}, "input: "),
        (asked(), "input: "),
        (asked(USER, stop=["x"]), "stop: no such field"),
        ({"model": "", "input": "hi"}, "model: "),
        (asked(USER, temperature=-1), "temperature: "),
        (asked(USER, max_output_tokens=5), "max_output_tokens: "),
        (asked(USER, prompt_cache_key="k" * 65), "prompt_cache_key: "),
        (asked(USER, previous_response_id="a", conversation="b"), "only one"),
        (asked(1), "an object is wanted"),
        (asked({"type": "dance"}), "no item of type 'dance'"),
        (asked({"role": "tool", "content": ""}), "no role 'tool'"),
        (asked({"role": "user", "content": None}), "a text or a list"),
        (asked({**SAID, "role": "user"}), "no block of type 'output_text'"),
        (asked({"role": "user", "content": [{"type": "input_text"}]}), "text is missing"),
        (
            asked({"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}),
            "filename is missing",
        ),
        (asked(USER, CALL), "'c1' has no output"),
        (asked(USER, OUTPUT), "no function_call has the ID 'c1'"),
        (asked(USER, CALL, OUTPUT, OUTPUT), "answered twice"),
        (asked(USER, CALL, CALL, OUTPUT), "two calls with ID"),
        (asked(USER, {**CALL, "name": "a b"}, OUTPUT), "name 'a b'"),
        (asked(USER, {**CALL, "arguments": "[]"}, OUTPUT), "not a JSON object"),
        (asked(USER, {**CALL, "call_id": ""}), "call_id is missing"),
        (asked(USER, {**CALL, "call_id": "c" * 65}), "at most 64"),
        (
            asked(
                {"type": "computer_call", "call_id": "c1"},
                {**OUTPUT, "type": "computer_call_output"},
            ),
            "no screenshot",
        ),
        (asked(USER, THOUGHT), "reasoning without"),
        (asked(THOUGHT, USER), "reasoning without"),
        (asked({"type": "reasoning", "id": "rs_1"}, SAID), "summary is missing"),
        (asked(THOUGHT, SAID, THOUGHT, SAID), "two items with ID 'rs_1'"),
        (asked(USER, tool_choice="required"), "only allowed when tools are"),
        (asked(USER, tools="x"), "tools: "),
        (asked(USER, tools=[1]), "type is wanted"),
        (asked(USER, tools=[LS, LS]), "two are called 'ls'"),
        (asked(USER, tools=[{**LS, "name": ""}]), "name ''"),
        (asked(USER, tools=[{"type": "function", "function": {}}]), "not in 'function'"),
        (asked(USER, tools=[{**LS, "parameters": {"type": "array"}}]), "no object schema"),
        (
            asked(USER, tools=[{**LS, "parameters": {**CLOSED, "required": []}}]),
            "must be required",
        ),
        (written({"type": "object"}), "additionalProperties"),
        (written(CLOSED, name="a b"), "name 'a b'"),
        (asked(USER, text={"format": {"type": "json_schema", "name": "a"}}), "schema is missing"),
    ],
)
def test_what_openai_refuses(body: dict[str, Any], problem: str) -> None:
    """It is said in words, with the place."""
    assert any(problem in found for found in strict("openai_responses")(body))


def test_what_is_no_json_is_said() -> None:
    """As for every kind."""
    assert strict("openai_responses")(b"<html>")[0].startswith("the body is not valid JSON")
