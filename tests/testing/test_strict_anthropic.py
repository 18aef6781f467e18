"""What Anthropic would refuse, in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.testing.strict import assert_strict, strict

check = strict("anthropic")
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "a"}
TOOL: dict[str, Any] = {"name": "ls", "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}
BYTES: dict[str, Any] = {"type": "base64", "media_type": "image/png", "data": "aGk="}


def user(*blocks: Any) -> dict[str, Any]:
    """Return what a user says."""
    return {"role": "user", "content": list(blocks) or "hi"}


def claude(*blocks: Any) -> dict[str, Any]:
    """Return what Claude says."""
    return {"role": "assistant", "content": list(blocks)}


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request."""
    return {"model": "m", "max_tokens": 2000, "messages": list(messages) or [user()], **fields}


def words(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request(user(), user(words("b")), claude(USE), user(RESULT, words("c"))),
        request(user(), claude(words("a")), user(), {"role": "system", "content": "be nice"}),
        request(user(), {"role": "system", "output_config": {"effort": "low"}}),
        request(user({"type": "image", "source": BYTES})),
        request(user({"type": "document", "source": {"type": "file", "file_id": "f"}})),
        request(user(), claude({"type": "server_tool_use"}, {"type": "web_search_tool_result"})),
        request(tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}]),
        request(tools=[TOOL], tool_choice={"type": "tool", "name": "ls"}),
        request(thinking={"type": "enabled", "budget_tokens": 1024}, temperature=1),
        request(thinking={"type": "adaptive"}, system=[words("s") | {"cache_control": MARK}]),
        request(cache_control=MARK, system="s", stop_sequences=["x"]),
    ],
)
def test_what_it_takes(body: dict[str, Any]) -> None:
    """As an object and as bytes."""
    assert check(body) == check(json.dumps(body).encode()) == []
    assert_strict(body, "anthropic")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not valid JSON"),
        ({"messages": []}, "at least one message"),
        ({"messages": [user()]}, "model: a name"),
        (request(max_tokens=None), "max_tokens"),
        (request(temperature=1.5), "temperature"),
        (request(stop_sequences=[" "]), "white space"),
        (request(system=[{"type": "image"}]), "system[0]"),
        (request(system=[words(" ")]), "text is empty"),
        (request("hi"), "an object is wanted"),
        (request({"role": "tool", "content": "a"}), "no role 'tool'"),
        (request({"role": "user", "content": " "}), "content is empty"),
        (request({"role": "user", "content": []}), "a list of blocks"),
        (request(user("hi")), "an object with a type"),
        (request(user({"type": "thinking"})), "user has no block"),
        (request(user(words(" "))), "text is empty"),
        (request(user({"type": "image"})), "source is missing"),
        (request(user({"type": "image", "source": {"type": "ftp"}})), "no source"),
        (request(user({"type": "image", "source": {"type": "url"}})), "url is missing"),
        (
            request(user({"type": "image", "source": {**BYTES, "media_type": "image/bmp"}})),
            "no image is",
        ),
        (
            request(user({"type": "document", "source": {"type": "url", "url": "gs://a"}})),
            "cannot be fetched",
        ),
        (request(claude(words("a")), user()), "the first one is the user's"),
        (
            request(user(), claude({"type": "thinking", "thinking": "a", "signature": ""}), user()),
            "without its signature",
        ),
        (request(user(), claude({**USE, "id": "a b"}), user()), "id 'a b'"),
        (request(user(), claude({**USE, "name": "a.b"}), user(RESULT)), "name 'a.b'"),
        (request(user(), claude({**USE, "input": []}), user(RESULT)), "no JSON object"),
        (request(user(), claude(USE), user(words("a"), RESULT)), "before everything else"),
        (request(user(), claude(USE), user()), "has no result in it"),
        (request(user(), claude(USE), claude(words("a")), user(RESULT, RESULT)), "two results"),
        (request(user(), claude(USE, USE), user(RESULT)), "two calls"),
        (request(user(RESULT)), "no open call"),
        (request(user(), claude(USE), user({**RESULT, "tool_use_id": "a b"})), "tool_use_id 'a b'"),
        (
            request(user(), claude(USE), user({**RESULT, "is_error": True, "content": []})),
            "says what went wrong",
        ),
        (
            request(
                user(),
                claude(USE),
                user(
                    {
                        **RESULT,
                        "is_error": True,
                        "content": [{"type": "image", "source": BYTES}],
                    }
                ),
            ),
            "nothing but text",
        ),
        (request(tools=["ls"]), "tools[0]: an object"),
        (request(tools=[{**TOOL, "name": "a b"}]), "name 'a b'"),
        (request(tools=[{"name": "ls"}]), "no object schema"),
        (
            request(tools=[{"name": "ls", "input_schema": {"type": "object", "anyOf": []}}]),
            "alternatives",
        ),
        (request(tools=[TOOL, TOOL]), "two are called 'ls'"),
        (request(tool_choice={"type": "auto"}), "only allowed when tools are"),
        (request(tools=[TOOL], tool_choice={"type": "maybe"}), "no type 'maybe'"),
        (request(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}), "no tool 'x'"),
        (request(thinking={"type": "adaptive"}, temperature=0.2), "may only be 1"),
        (request(thinking={"type": "enabled", "budget_tokens": 9}), "less than 1024"),
        (request(thinking={"type": "enabled", "budget_tokens": 2000}), "not less than max_tokens"),
        (
            request(
                thinking={"type": "enabled", "budget_tokens": 1024},
                tools=[TOOL],
                tool_choice={"type": "any"},
            ),
            "no tool can be forced",
        ),
        (
            request(
                user(), claude(words("a")), thinking={"type": "enabled", "budget_tokens": 1024}
            ),
            "nothing can be begun",
        ),
        (request(user(*[words("a") | {"cache_control": MARK}] * 5)), "5 marks"),
        (request(user(words("a") | {"cache_control": {"type": "x"}})), "no mark"),
        (
            request(
                user(words("b") | {"cache_control": {**MARK, "ttl": "1h"}}),
                system=[words("a") | {"cache_control": MARK}],
            ),
            "a mark of an hour",
        ),
    ],
)
def test_what_it_refuses(body: Any, problem: str) -> None:
    """Says where and why."""
    assert problem in "\n".join(check(body))
