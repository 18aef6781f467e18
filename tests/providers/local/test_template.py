"""Tools put into words: what a small model reads instead of a tool protocol."""

from __future__ import annotations

from typing import Any

from treadle.providers.local.template import in_words

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 1}'},
}


def test_plain_messages_stay_as_they_are() -> None:
    """Without tools nothing is said of any, and no system message is made up."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]

    assert in_words(messages, [], None) == messages


def test_tools_are_described_in_the_system_message() -> None:
    """Instructions first, then examples, functions and, last, the rule."""
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "1+1?"}]

    system, user = in_words(messages, [TOOL], None)

    text = system["content"]
    function = (
        '{"name": "add", "description": "Add two numbers.", "parameters": {"type": "object", '
        '"properties": {"a": {"type": "integer"}}}}'
    )
    assert text.startswith("Be kind.\n\nYou can use functions.")
    assert f"\n{function}\n\nIf one of them fits" in text
    assert text.endswith("answer in plain words.")
    assert user == {"role": "user", "content": "1+1?"}


def test_tools_without_instructions_still_have_a_system_message() -> None:
    """The model is told who it is, in the words that were measured."""
    system = in_words([{"role": "user", "content": "1+1?"}], [TOOL], None)[0]

    assert system["role"] == "system"
    assert system["content"].startswith("You are a helpful assistant.\n\n")


def test_calls_and_results_become_words() -> None:
    """A call is one bare JSON object, a result a user's words that ask for one sentence."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]

    _, assistant, result = in_words(messages, [], None)

    assert assistant == {
        "role": "assistant",
        "content": '{"name": "add", "arguments": {"a": 1}}',
    }
    assert result["role"] == "user"
    assert result["content"].startswith("add returned: 2\nNow answer my question")


def test_results_of_one_reply_are_one_message() -> None:
    """The request to answer follows the last of them only."""
    second = {**CALL, "id": "c2", "function": {"name": "sub", "arguments": ""}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "Both:", "tool_calls": [CALL, second]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "0"}]},
        {"role": "user", "content": "Quick!"},
    ]

    assistant, results, user = in_words(messages, [], None)

    assert assistant["content"] == (
        'Both:\n{"name": "add", "arguments": {"a": 1}}\n{"name": "sub", "arguments": {}}'
    )
    assert results["content"].startswith("add returned: 2\nsub returned: 0\nNow answer")
    assert results["content"].count("Now answer") == 1
    assert user["content"] == "Quick!"


def test_a_schema_is_shown_and_asked_for() -> None:
    """What the answer must follow stands in the system message and after every result."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "1+1?"},
        {"role": "tool", "tool_call_id": "gone", "content": "2"},
    ]

    system, _, result = in_words(messages, [TOOL], {"type": "object"})

    assert system["content"].endswith('JSON Schema:\n{"type": "object"}')
    assert "Otherwise give your answer." in system["content"]
    assert result["content"].startswith("The function returned: 2\nNow answer my question with")


def test_several_system_messages_and_blocks_are_joined() -> None:
    """Whatever shape the codec gives a text, it is text here."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "One."},
        {"role": "developer", "content": [{"type": "text", "text": "Two."}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "developer", "content": "Three."},
    ]

    assert in_words(messages, [], None) == [
        {"role": "system", "content": "One.\n\nTwo."},
        {"role": "user", "content": "a\nb"},
        {"role": "system", "content": "Three."},
    ]
