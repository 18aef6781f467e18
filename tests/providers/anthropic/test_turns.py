"""What becomes of our messages: turns, blocks, and histories that others made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.anthropic.parts import (
    ANTHROPIC,
    MODEL,
    OTHER,
    PIXEL,
    answered,
    blocks_sent,
    body_of,
    called,
    decoded,
    sent,
)
from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Reasoning,
    Text,
    Thread,
    ToolCall,
    ToolResult,
)
from treadle.ports.model import ModelRequest
from treadle.providers.anthropic.blocks import sent_id
from treadle.providers.anthropic.body import MessagesEncoder
from treadle.providers.anthropic.claude import claude


def test_sides_speak_in_turn() -> None:
    """What one side says in several messages is one; results come before what the user adds."""
    found = sent(
        Message.user("a"),
        Message.user("b"),
        called("1", "2"),
        answered("1", "2"),
        Message.user("c"),
        Message.assistant("d"),
        Message.assistant("e"),
        Message.user("f"),
    )
    assert [one["role"] for one in found] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in found[2]["content"]] == ["tool_result"] * 2 + ["text"]
    assert [block["text"] for block in found[3]["content"]] == ["d", "e"]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    """A model that takes no beginnings of its own is asked to go on."""
    assert [one["role"] for one in sent(Message.assistant("hello"), Message.user("hi"))] == [
        "user",
        "assistant",
        "user",
    ]
    assert sent()[0]["role"] == "user"
    history = (Message.user("a"), Message.assistant("b  "))
    assert sent(*history)[-1] == {"role": "assistant", "content": [{"type": "text", "text": "b"}]}
    assert body_of(*history, model="claude-opus-4-6")["messages"][-1]["role"] == "user"


def test_what_says_nothing_is_left_out() -> None:
    """Empty and blank texts are refused by the server; a message of nothing else is none."""
    found = sent(
        Message("user", (Text("a"), Text(" "), Text(""))),
        Message("assistant", (Reasoning("of another"), Text("\n"))),
        Message("user", (Text("b"),)),
    )
    assert found == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_thoughts_go_back_to_their_own() -> None:
    """With their signature, where they stood; another's, half ones and unproved ones do not."""
    reply = decoded(
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        "a",
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "thinking", "thinking": "", "signature": "omitted"},
        {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}},
        stop="tool_use",
    )
    found = sent(Message.user("q"), reply.message, answered("toolu_1"))[1]["content"]
    assert [block["type"] for block in found] == [
        "thinking",
        "text",
        "redacted_thinking",
        "thinking",
        "tool_use",
    ]
    assert found[0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    half = Message("assistant", (*reply.message.parts[:2],), incomplete=True)
    assert blocks_sent(Message.user("q"), half) == [{"type": "text", "text": "a"}]
    foreign = Message("assistant", (Reasoning("hm", "sig", provider={"gemini": {}}), Text("a")))
    assert blocks_sent(Message.user("q"), foreign) == [{"type": "text", "text": "a"}]
    assert [
        one["type"] for one in blocks_sent(Message.user("q"), reply.message, dialect=OTHER)
    ] == [
        "text",
        "tool_use",
    ]


def test_steps_of_hosted_tools_go_back() -> None:
    """In order, between the text; never to another server."""
    steps: tuple[dict[str, Any], ...] = (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    )
    reply = decoded("a", *steps, "b")
    names = [part.name for part in reply.message.parts if isinstance(part, Hosted)]
    assert names == ["web_search", "web_search"]
    found = blocks_sent(Message.user("q"), reply.message)
    assert found == [{"type": "text", "text": "a"}, *steps, {"type": "text", "text": "b"}]
    assert len(blocks_sent(Message.user("q"), reply.message, dialect=OTHER)) == 2


def test_citations_go_back_whole() -> None:
    """With all that the server said of them."""
    cited = {
        "type": "web_search_result_location",
        "cited_text": "x",
        "url": "https://a.b",
        "title": None,
        "encrypted_index": "e",
    }
    reply = decoded({"type": "text", "text": "said", "citations": [cited]})
    [block] = blocks_sent(Message.user("q"), reply.message)
    assert block == {"type": "text", "text": "said", "citations": [cited]}


@pytest.mark.parametrize(
    ("raw", "sent_input"),
    [
        ("", {}),
        ("null", {}),
        ('{"a": 1.50, "b": "\\u00e9"}', {"a": 1.5, "b": "é"}),
        ('{"a": "\\u0000 \\ud800"}', {"a": "\ufffd \ufffd"}),
        ('{"a": "\\\\u0000"}', {"a": "\\u0000"}),
        ("[1]", {"not_a_json_object": "[1]"}),
        ('{"a":', {"not_a_json_object": '{"a":'}),
    ],
)
def test_arguments_are_an_object(raw: str, sent_input: object) -> None:
    """As the model wrote them where that is one."""
    call = Message("assistant", (ToolCall("1", "ls", raw),))
    found = sent(Message.user("q"), call, answered("1"))
    assert found[1]["content"][0]["input"] == sent_input


def test_arguments_stand_byte_for_byte() -> None:
    """White space and all."""
    raw = '{ "a" :1.50,"big":123456789012345678901234567890 }'
    thread = Thread(
        [Message.user("q"), Message("assistant", (ToolCall("1", "ls", raw),)), answered("1")]
    )
    encoder = MessagesEncoder(MODEL, claude(MODEL), ANTHROPIC)
    body = encoder.body(ModelRequest(messages=thread), stream=False)
    assert f'"input":{raw}'.encode() in body


@pytest.mark.parametrize("call_id", ["call|1:2", "x" * 200, "a b", "ü"])
def test_ids_of_others_are_mapped(call_id: str) -> None:
    """The same for the call and its result."""
    found = sent(
        Message.user("q"),
        Message("assistant", (ToolCall(call_id, "functions.ls"),)),
        answered(call_id),
    )
    use, result = found[1]["content"][0], found[2]["content"][0]
    assert use["id"] == result["tool_use_id"] == sent_id(call_id) != call_id
    assert use["name"] == "functions_ls"


def test_results_show_what_they_hold() -> None:
    """Text and pictures in their block; an error's pictures after all results."""
    picture = Image.from_bytes(PIXEL, "image/png")
    good = ToolResult("1", "ls", (Text("see"), picture))
    bad = ToolResult("2", "ls", (picture,), is_error=True)
    empty = ToolResult("3", "ls", (), is_error=True)
    found = blocks_sent(
        Message.user("q"), called("1", "2", "3"), Message("tool", (good, bad, empty))
    )
    assert [block["type"] for block in found[0]["content"]] == ["text", "image"]
    assert found[1]["is_error"] is True
    assert "shown after" in found[1]["content"]
    assert found[2]["content"] == "(no output)"
    assert [block["type"] for block in found[3:]] == ["text", "image"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Image.from_bytes(PIXEL, "image/png"), "base64"),
        (Image.from_url("https://a.b/c.png"), "url"),
        (Image.from_url("gs://bucket/c.png"), "text"),
        (Image.from_bytes(b"BM-bitmap", "image/bmp"), "text"),
        (Image(), "text"),
        (Audio.from_bytes(b"RIFF", "audio/wav", transcript="said"), "text"),
        (File.from_bytes(b"%PDF-1", "application/pdf", name="a.pdf"), "base64"),
        (File.from_bytes(b"a,b", "text/csv"), "text"),
        (File.from_bytes(b"{}", "application/json"), "text"),
        (File.from_bytes(b"PK", "application/zip"), "text"),
        (File.from_bytes(b" ", "text/plain"), "text"),
        (File.from_url("https://a.b/c.pdf"), "url"),
        (File.from_url("gs://bucket/c.pdf"), "text"),
        (File(file_id="file_1"), "file"),
    ],
)
def test_media(part: Any, kind: str) -> None:
    """What the server cannot take is a note in words."""
    [block] = blocks_sent(Message("user", (part,)))
    assert (block["source"]["type"] if "source" in block else block["type"]) == kind


def test_a_model_that_is_blind_reads_a_note() -> None:
    """Instead of a picture."""
    dialect = type(ANTHROPIC)(vision=False)
    picture = Message("user", (Image.from_bytes(PIXEL, "image/png"),))
    assert "left out" in body_of(picture, dialect=dialect)["messages"][0]["content"][0]["text"]


def test_an_instruction_in_the_middle_is_the_users() -> None:
    """Unless it came from a request that had it as the system's."""
    found = sent(Message.user("a"), Message.system("b"))
    assert found == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_a_turn_costs_what_is_new() -> None:
    """The pieces of before are the same objects, in copies of the thread, too."""
    encoder = MessagesEncoder(MODEL, claude(MODEL), ANTHROPIC)
    thread = Thread([Message.user("a"), called("1"), answered("1")])
    encoder.body(ModelRequest(messages=thread), stream=False)
    [before] = thread.encoded.values()
    longer = Thread(thread)
    longer += [Message.assistant("b"), Message.user("c")]
    encoder.body(ModelRequest(messages=longer), stream=False)
    [after] = longer.encoded.values()
    assert after.closed[1] is before.closed[1]
    assert before.count == 3


def test_a_long_conversation_is_the_same_at_once_or_by_turns() -> None:
    """Also where old turns have become one piece."""
    encoder = MessagesEncoder(MODEL, claude(MODEL), ANTHROPIC)
    thread, body = Thread(), b""
    for number in range(100):
        thread.append(Message.user(f"q{number}"))
        body = encoder.body(ModelRequest(messages=thread), stream=False)
        thread.append(Message.assistant(f"a{number}"))
    again = encoder.body(ModelRequest(messages=Thread(list(thread)[:-1])), stream=False)
    assert json.loads(body) == json.loads(again)
    assert len(json.loads(body)["messages"]) == 199
