"""Reply objects of types that they cannot have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import BadReply
from treadle.providers._failure import Asked
from treadle.providers.openai.chat_reply import decode_reply


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"content": {"a": 1}, "tool_calls": "no"}, "`content` is neither text"),
        ({"content": {"a": 1}}, 'null but {"a":1}'),
        ({"content": 5}, "null but 5"),
        ({"content": False}, "null but false"),
        ({"content": "x", "tool_calls": "no"}, '`tool_calls` is no list but "no"'),
        ({"content": "x", "tool_calls": {}}, "`tool_calls` is no list but {}"),
        ({"content": "x", "tool_calls": 0}, "`tool_calls` is no list but 0"),
        ({"content": None, "tool_calls": ["no"]}, 'a tool call is no object but "no"'),
    ],
)
def test_wrong_types_are_no_empty_answer(message: dict[str, Any], told: str) -> None:
    """A server that says something unreadable is told so; silence would pass for an answer."""
    body = json.dumps({"choices": [{"message": message}]}).encode()
    with pytest.raises(BadReply) as caught:
        decode_reply(body, "localhost:8000", Asked("openai", "gpt-5.2"))
    assert told in str(caught.value)
