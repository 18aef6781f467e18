"""Our messages as input items, and what other providers left in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.providers.openai.responses_parts import (
    CALL,
    OPENAI,
    PIXEL,
    PLAIN,
    THOUGHT,
    read,
    said,
    sent,
)
from treadle.errors import InvalidInput
from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

USER = Message.user("hi")
FOREIGN = Message(
    "assistant",
    (
        Reasoning("Hm", signature="sig", provider={"anthropic": {"type": "thinking"}}),
        Text("looking", {"anthropic": {"citations": []}}),
        Hosted("web_search", {"anthropic": {"type": "server_tool_use"}}),
        Image(content=PIXEL, media_type="image/png"),
        ToolCall("c" * 80, "ls", '{"path": "."}', "toolu_1", {"gemini": {"thoughtSignature": "x"}}),
    ),
)


def result(call_id: str, *parts: Any, **fields: Any) -> Message:
    """Return a message with one result."""
    return Message("tool", (ToolResult(call_id, "ls", parts, **fields),))


def test_common_messages_are_short() -> None:
    """Texts as texts, calls and results as items of their own."""
    call = ToolCall("c1", "ls", "", "call_9")
    messages = (USER, Message.assistant("so", call), result("c1", Text("a"), Text("b")))
    assert sent(*messages) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "so"},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a\nb"},
    ]


def test_what_is_empty_is_not_sent() -> None:
    """BS-25: no text, blanks, nothing at all; an empty result is one."""
    call = ToolCall("c1", "ls")
    blank = Message("assistant", (Text("  "),))
    messages = (USER, Message("user"), blank, Message.assistant(call), result("c1"))
    assert [item.get("output", item.get("role")) for item in sent(*messages)] == ["user", None, ""]


def test_what_other_providers_left_is_left_out() -> None:
    """Reasoning, steps, pictures of the model and opaque data; the ID fits, twice the same."""
    items = sent(USER, FOREIGN, result("c" * 80, Text("a")))
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]
    assert items[1] == {"role": "assistant", "content": "looking"}
    assert items[2]["call_id"] == items[3]["call_id"]
    assert len(items[2]["call_id"]) < 64


def test_a_reply_goes_back_as_it_came() -> None:
    """BS-23: reasoning before its call, with its ID and that of the call; phases stay."""
    found = read(THOUGHT, said("so", phase="commentary"), CALL)
    items = sent(USER, found.message, result("call_1", Text("a")))
    assert items[1:4] == [
        THOUGHT,
        said("so", phase="commentary"),
        {name: value for name, value in CALL.items() if name != "status"},
    ]


def test_ids_go_only_with_the_reasoning_that_they_belong_to() -> None:
    """Without it the server would refuse them."""
    parts = read(THOUGHT, said("so", phase="commentary"), CALL).message.parts[1:]
    items = sent(USER, Message("assistant", parts), result("call_1", Text("a")))
    assert items[1] == {"role": "assistant", "content": "so", "phase": "commentary"}
    assert "id" not in items[2]


def test_another_server_gets_nothing_of_it() -> None:
    """Opaque data is for the host that wrote it."""
    found = read(THOUGHT, {"type": "web_search_call", "id": "ws_1"}, said("so"), CALL)
    items = sent(USER, found.message, result("call_1"), dialect=PLAIN)
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    """A reply that was cut off in its thoughts, or said nothing after them."""
    found = read(THOUGHT, said(""))
    assert sent(USER, found.message, USER) == [{"role": "user", "content": "hi"}] * 2


def test_steps_of_hosted_tools_go_back_in_order() -> None:
    """Whole, between what was said."""
    search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
    packed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    found = read(packed, search, said("so"))
    assert [part.name for part in found.message.parts if isinstance(part, Hosted)] == [
        "compaction",
        "web_search",
    ]
    assert sent(USER, found.message)[1:] == [
        packed,
        search,
        {"role": "assistant", "content": "so"},
    ]


def test_a_picture_of_the_model_goes_back() -> None:
    """Its bytes are kept once, in the part."""
    item = {
        "type": "image_generation_call",
        "id": "ig_1",
        "result": "aGk=",
        "output_format": "jpeg",
        "status": "completed",
    }
    found = read(item)
    [picture] = found.message.parts
    assert isinstance(picture, Image)
    assert (picture.content, picture.media_type) == (b"hi", "image/jpeg")
    assert sent(USER, found.message)[1] == item


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            Image(url="https://x/a.png", detail="low"),
            {"type": "input_image", "image_url": "https://x/a.png", "detail": "low"},
        ),
        (
            Image(content=b"hi", media_type="image/png"),
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        ),
        (File(file_id="file_1"), {"type": "input_file", "file_id": "file_1"}),
        (File(url="https://x/a.pdf"), {"type": "input_file", "file_url": "https://x/a.pdf"}),
        (
            File(content=b"hi", media_type="application/pdf"),
            {
                "type": "input_file",
                "filename": "file.pdf",
                "file_data": "data:application/pdf;base64,aGk=",
            },
        ),
        (
            File(content=b"hi", media_type="text/csv", name="a.csv"),
            {"type": "input_text", "text": "File a.csv:\nhi"},
        ),
        (
            Audio(content=b"hi", media_type="audio/wav", transcript="hey"),
            {
                "type": "input_text",
                "text": "[Audio: left out, this API takes no sound, which says: hey]",
            },
        ),
        (Image(), {"type": "input_text", "text": "[Image: its content is gone]"}),
        (File(name="a"), {"type": "input_text", "text": "[File a: its content is gone]"}),
    ],
)
def test_media(part: Any, block: dict[str, Any]) -> None:
    """S33: as the protocol has them, else as words."""
    assert sent(Message("user", (Text("see"), part)))[0]["content"] == [
        {"type": "input_text", "text": "see"},
        block,
    ]


def test_results_show_images() -> None:
    """BS-28: in the result where the server takes that."""
    call = Message.assistant(ToolCall("c1", "ls"))
    shown = result("c1", Text("see"), Image(content=b"hi", media_type="image/png"))
    assert sent(USER, call, shown)[-1]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
    ]
    output, after = sent(USER, call, shown, dialect=PLAIN)[-2:]
    assert output["output"] == "see\n[Image 1: shown after the tool results]"
    assert [block["type"] for block in after["content"]] == ["input_text", "input_image"]


def test_models_without_vision_are_told() -> None:
    """BS-28: in words, in one text."""
    blind = replace(OPENAI, vision=False)
    message = Message.user("see", Image(content=b"hi", media_type="image/png"))
    [item] = sent(message, dialect=blind)
    assert item["content"] == "see\n\n[Image: left out, this model takes no images]"


@pytest.mark.parametrize(
    ("item", "name", "arguments", "output"),
    [
        (
            {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"},
            "sh",
            {"input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ),
        (
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c1",
                "action": {"type": "exec", "command": ["ls"]},
                "status": "completed",
            },
            "local_shell",
            {"type": "exec", "command": ["ls"]},
            {"type": "local_shell_call_output", "id": "c1", "output": "done"},
        ),
        (
            {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
            "shell",
            {"commands": ["ls"]},
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [
                    {"stdout": "done", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
                ],
            },
        ),
        (
            {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file"}},
            "apply_patch",
            {"type": "delete_file"},
            {
                "type": "apply_patch_call_output",
                "call_id": "c1",
                "status": "completed",
                "output": "done",
            },
        ),
        (
            {
                "type": "tool_search_call",
                "call_id": "c1",
                "execution": "client",
                "arguments": {"query": "x"},
            },
            "tool_search",
            {"query": "x"},
            {
                "type": "tool_search_output",
                "call_id": "c1",
                "execution": "client",
                "status": "completed",
                "tools": [],
            },
        ),
    ],
)
def test_calls_of_other_kinds(
    item: dict[str, Any], name: str, arguments: dict[str, Any], output: dict[str, Any]
) -> None:
    """They are calls of a tool of ours, and get the result of their kind."""
    found = read(item)
    [call] = found.message.tool_calls
    assert (call.name, call.arguments, found.finish_reason) == (name, arguments, "tool_calls")
    assert sent(USER, found.message, result("c1", Text("done")))[1:] == [item, output]


def test_a_computer_wants_a_screenshot() -> None:
    """A tool that returns acknowledges the checks; without an image there is no answer."""
    item: dict[str, Any] = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "action": {"type": "click", "x": 1},
        "pending_safety_checks": [{"id": "sc_1"}],
        "status": "completed",
    }
    found = read(item).message
    assert found.tool_calls[0].arguments == {
        "action": {"type": "click", "x": 1},
        "pending_safety_checks": [{"id": "sc_1"}],
    }
    shot = Image(content=b"hi", media_type="image/png")
    assert sent(USER, found, result("c1", shot))[-1] == {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="},
        "acknowledged_safety_checks": [{"id": "sc_1"}],
    }
    with pytest.raises(InvalidInput, match="screenshot"):
        sent(USER, found, result("c1", Text("done")))


def test_a_call_that_the_server_answered_is_a_step() -> None:
    """Not for a tool of ours."""
    call: dict[str, Any] = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}
    answer: dict[str, Any] = {"type": "shell_call_output", "call_id": "c1", "output": []}
    search: dict[str, Any] = {
        "type": "tool_search_call",
        "call_id": None,
        "execution": "server",
        "arguments": {},
    }
    found = read(call, answer, search)
    assert [type(part) for part in found.message.parts] == [Hosted] * 3
    assert sent(USER, found.message)[1:] == [call, answer, search]
