"""Whole replies become our values, whatever a server's habits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import reply
from treadle.errors import (
    BadReply,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
    TreadleError,
)
from treadle.messages import Audio, Image, Message, Reasoning, Text, Thread, ToolCall
from treadle.ports.model import ModelReply, ModelRequest
from treadle.providers._failure import Asked
from treadle.providers._json import mended
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_reply import READ_ONLY, decode_reply
from treadle.providers.openai.dialect import ChatDialect
from treadle.usage import Usage

HOST = "localhost:8000"
ASKED = Asked("openai", "gpt-5.2")


def decoded(body: Any) -> ModelReply:
    """Return the reply that a body holds."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_reply(content, HOST, ASKED)


def call(**fields: Any) -> dict[str, Any]:
    """Return a tool call."""
    return {"id": "c1", "type": "function", "function": {"name": "ls", **fields}}


def sent_back(message: Message, host: str = HOST) -> dict[str, Any]:
    """Return what is sent when the message is part of the next request to `host`."""
    request = ModelRequest(messages=Thread([message]))
    body = ChatEncoder("m", ChatDialect(host=host)).body(request, stream=False)
    return json.loads(body)["messages"][0]


def test_text_is_a_reply() -> None:
    """Text, usage, IDs and the reason."""
    assert decoded(reply("Hallo ✅", "stop")) == ModelReply(
        message=Message("assistant", (Text("Hallo ✅"),)),
        usage=Usage(input_tokens=7, output_tokens=2, requests=1),
        finish_reason="stop",
        model="m-1",
        response_id="chatcmpl-1",
        provider_finish="stop",
    )


def test_calls_keep_the_providers_ids() -> None:
    """All calls of a reply are parts of one message, with their arguments as they were written."""
    second = {**call(arguments='{"a" :1}'), "id": "c2"}
    found = decoded(reply(None, "tool_calls", tool_calls=[call(arguments="{}"), second]))
    assert found.message.parts == (
        ToolCall("c1", "ls", "{}", "c1"),
        ToolCall("c2", "ls", '{"a" :1}', "c2"),
    )
    assert found.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [
        (call(arguments={"a": 1}), ToolCall("c1", "ls", '{"a":1}', "c1")),
        (call(arguments=None), ToolCall("c1", "ls", "{}", "c1")),
        (call(), ToolCall("c1", "ls", "{}", "c1")),
        (call(arguments=""), ToolCall("c1", "ls", "{}", "c1")),
        (call(arguments='{"a": '), ToolCall("c1", "ls", '{"a": ', "c1")),
        (call(arguments=[1]), ToolCall("c1", "ls", "[1]", "c1")),
        ({**call(arguments="{}"), "id": ""}, ToolCall("call_1", "ls", "{}", None)),
        ({**call(arguments="{}"), "id": None}, ToolCall("call_1", "ls", "{}", None)),
        ({**call(arguments="{}"), "id": 7}, ToolCall("7", "ls", "{}", "7")),
        ({**call(arguments="{}"), "index": "0", "type": None}, ToolCall("c1", "ls", "{}", "c1")),
    ],
)
def test_calls_of_any_shape_are_read(wire: dict[str, Any], wanted: ToolCall) -> None:
    """Arguments given as an object, left out or broken; IDs that are missing or numbers."""
    assert decoded(reply(None, "tool_calls", tool_calls=[wire])).message.parts == (wanted,)
    assert decoded(reply(None, "tool_calls", tool_calls=wire)).message.parts == (wanted,)


def test_a_function_call_of_old_is_a_call() -> None:
    """The form before `tool_calls`."""
    function = {"name": "ls", "arguments": "{}"}
    found = decoded(reply(None, "function_call", function_call=function))
    assert found.message.parts == (ToolCall("call_1", "ls", "{}"),)
    assert found.finish_reason == "tool_calls"


def test_a_custom_call_goes_back_as_it_came() -> None:
    """A call whose input is free text has it as its one argument."""
    wire = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}
    message = decoded(reply(None, "tool_calls", tool_calls=[wire])).message
    assert message.tool_calls[0].arguments == {"input": "print(1)"}
    assert sent_back(message)["tool_calls"] == [wire]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_in_its_field(field: str) -> None:
    """DeepSeek's field and everyone else's; another server does not get it."""
    message = decoded(reply("yes", **{field: "hm"})).message
    assert [type(part) for part in message.parts] == [Reasoning, Text]
    assert message.reasoning == "hm"
    assert sent_back(message) == {"role": "assistant", "content": "yes", field: "hm"}
    assert sent_back(message, "elsewhere") == {"role": "assistant", "content": "yes"}


def test_reasoning_details_go_back_unchanged() -> None:
    """OpenRouter's signed and encrypted details; their words count where no field has any."""
    details = [
        {"type": "reasoning.text", "text": "hm", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "data": "blob", "index": 1},
    ]
    message = decoded(reply("yes", reasoning="hm", reasoning_details=details)).message
    assert sent_back(message)["reasoning_details"] == details
    message = decoded(reply("yes", reasoning_details=details)).message
    assert message.reasoning == "hm"
    assert sent_back(message) == {
        "role": "assistant",
        "content": "yes",
        "reasoning_details": details,
    }


def test_thinking_blocks_go_back_in_their_place() -> None:
    """Mistral thinks in the content."""
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True},
        {"type": "text", "text": "yes"},
    ]
    message = decoded(reply(content)).message
    assert (message.reasoning, message.text) == ("hm", "yes")
    assert sent_back(message)["content"] == content
    bare = decoded(reply([{"type": "thinking", "thinking": "hm"}, "yes", {"type": "x"}, 3])).message
    assert (bare.reasoning, bare.text) == ("hm", "yes")


def test_a_gemini_signature_goes_back_on_its_call() -> None:
    """BS-24: the compatible endpoint of Google has it in `extra_content`."""
    extra = {"google": {"thought_signature": "sig"}}
    wire = {**call(arguments="{}"), "extra_content": extra}
    message = decoded(reply(None, "tool_calls", tool_calls=[wire], extra_content=extra)).message
    back = sent_back(message)
    assert (back["extra_content"], back["tool_calls"][0]["extra_content"]) == (extra, extra)
    assert "extra_content" not in sent_back(message, "elsewhere")["tool_calls"][0]


def test_citations_go_back_and_search_results_do_not() -> None:
    """What a server wants again is kept apart from what is only to be read."""
    message = decoded(reply("yes", annotations=[{"a": 1}], executed_tools=[{"b": 2}])).message
    assert message.provider
    assert message.provider[READ_ONLY] == {"executed_tools": [{"b": 2}]}
    assert sent_back(message) == {"role": "assistant", "content": "yes", "annotations": [{"a": 1}]}


def test_speech_goes_back_by_its_id() -> None:
    """The sound and its words are parts; only the ID is sent again."""
    audio = {"id": "a1", "data": "c25k", "transcript": "hello", "expires_at": 1}
    message = decoded(reply(None, audio=audio)).message
    assert message.parts == (Audio(content=b"snd", media_type="audio/wav", transcript="hello"),)
    assert sent_back(message)["audio"] == {"id": "a1"}
    empty = {"id": "", "data": "", "transcript": "", "expires_at": 0}
    assert decoded(reply("4", audio=empty)).message == Message.assistant("4")
    assert decoded(reply(None, audio={"id": "a1", "data": "abc"})).message.parts == (
        Audio(media_type="audio/wav"),
    )


def test_pictures_that_a_model_made_are_parts() -> None:
    """OpenRouter's `images`."""
    images = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {}, "?"]
    [part] = decoded(reply(None, images=images)).message.parts
    assert part == Image(content=b"\0\0\0", media_type="image/png")
    assert decoded(reply("a", images=[{"image_url": {"url": "no"}}])).message.text == "a"


@pytest.mark.parametrize(
    ("finish", "fields", "reason"),
    [
        ("stop", {"content": "a"}, "stop"),
        ("", {"content": "a"}, "stop"),
        (None, {"content": "a"}, "stop"),
        ("STOP", {"content": "a"}, "stop"),
        ("eos", {"content": "a"}, "stop"),
        ("stop", {"tool_calls": [call(arguments="{}")]}, "tool_calls"),
        ("", {"tool_calls": [call(arguments="{}")]}, "tool_calls"),
        ("length", {"tool_calls": [call(arguments="{")]}, "length"),
        ("model_length", {"content": "a"}, "length"),
        ("content_filter", {}, "content_filter"),
        ("content_filter", {"content": "a"}, "content_filter"),
        ("stop", {"refusal": "No."}, "refusal"),
        ("whim", {"content": "a"}, "other"),
    ],
)
def test_the_reason_is_known(finish: Any, fields: dict[str, Any], reason: str) -> None:
    """BS-13, BS-27: servers' spellings, none at all, and what the message itself says."""
    found = decoded(reply(finish=finish, **fields))
    assert (found.finish_reason, found.provider_finish) == (reason, finish or None)


def test_a_refusal_has_its_words() -> None:
    """BS-27 (a): they are the text of the reply, which is no answer."""
    found = decoded(reply(None, "stop", refusal="No."))
    assert (found.message.text, found.finish_reason) == ("No.", "refusal")


@pytest.mark.parametrize("finish", ["error", "insufficient_system_resource", "network_error"])
def test_a_server_that_broke_off_is_overloaded(finish: str) -> None:
    """What it had written is kept with the error."""
    with pytest.raises(Overloaded, match=finish) as caught:
        decoded(reply("half", finish))
    assert (caught.value.partial, caught.value.retryable) == ("half", True)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, Usage(requests=1)),
        ({}, Usage(requests=1)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(10, 4, 3, 5, 2, 1),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6},
            Usage(10, 6, 0, 5, 0, 1),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "num_cached_tokens": 6},
            Usage(10, 6, 0, 5, 0, 1),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "cache_read_input_tokens": 6,
                "cache_creation_input_tokens": 1,
            },
            Usage(10, 6, 1, 5, 0, 1),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40},
            Usage(10, 0, 0, 30, 25, 1),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.0000535},
            Usage(10, 0, 0, 5, 0, 1, 0, Decimal("0.0000535")),
        ),
        (
            {
                "prompt_tokens": "10",
                "completion_tokens": 5.0,
                "cost": "?",
                "total_tokens": {},
                "prompt_tokens_details": [],
            },
            Usage(10, 0, 0, 5, 0, 1),
        ),
        (
            {"prompt_tokens": True, "completion_tokens": 1e400, "cost": {}},
            Usage(0, 0, 0, 0, 0, 1),
        ),
    ],
)
def test_tokens_are_counted(counts: Any, usage: Usage) -> None:
    """BS-65: the spellings of the servers, hidden thinking, and the price a server names."""
    assert decoded({**reply("a"), "usage": counts}).usage == usage


@pytest.mark.parametrize(
    ("body", "kind", "retryable"),
    [
        ({"error": {"message": "x", "code": 400}}, ModelError, False),
        ({"error": {"message": "x", "code": "503"}}, Overloaded, True),
        ({"error": {"message": "x", "code": 429}}, RateLimited, True),
        ({"error": "context length exceeded"}, ContextOverflow, False),
        ({"error": {"message": "x", "type": "server_error"}}, Overloaded, True),
        ({"error": {"message": "x"}}, ModelError, False),
        ([{"error": {"message": "x", "code": 500}}], Overloaded, True),
        ({"choices": [{"error": {"message": "x", "code": 502}}]}, Overloaded, True),
    ],
)
def test_an_error_inside_a_200_is_that_error(
    body: Any, kind: type[ModelError], retryable: bool
) -> None:
    """BS-19: by its own code, a number or a text."""
    with pytest.raises(ModelError) as caught:
        decoded(body)
    assert (type(caught.value), caught.value.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hi</html>",
        b"",
        b"[]",
        b"3",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_a_bad_reply(body: bytes) -> None:
    """The message shows what came, and where it says it came from."""
    with pytest.raises(BadReply, match="Is base_url") as caught:
        decode_reply(body, HOST, ASKED, {"content-type": "text/html"})
    assert body.decode()[:200] in str(caught.value)
    assert "200 (text/html)" in str(caught.value)


def test_bad_text_is_cleaned_at_the_border() -> None:
    """BS-14: half pairs, NUL and broken UTF-8, in text and in arguments; pairs are kept."""
    raw = json.dumps(
        reply("a\ud800b\0c 😀", tool_calls=[call(arguments='{"a":"\\ud800 \\u0000"}')])
    )
    found = decoded(raw.encode()).message
    assert found.text == "a\ufffdb\ufffdc 😀"
    assert found.tool_calls[0].arguments == {"a": "\ufffd \ufffd"}
    assert (
        decoded(json.dumps(reply("x")).encode().replace(b'"x"', b'"\xff"')).message.text == "\ufffd"
    )


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (r'{"a":"\ud83d\ude00"}', r'{"a":"\ud83d\ude00"}'),
        (r'{"a":"\\ud83d"}', r'{"a":"\\ud83d"}'),
        (r'{"a":"\\\ud83d"}', r'{"a":"\\\ufffd"}'),
        (r'{"a":"\ude00\ud83d"}', r'{"a":"\ufffd\ufffd"}'),
        (r'{"a":"\u0000\u0041\n"}', r'{"a":"\ufffd\u0041\n"}'),
        ('{"a', '{"a'),
    ],
)
def test_escapes_are_mended_and_no_others(raw: str, text: str) -> None:
    """An escaped backslash before a u is no escape."""
    assert mended(raw) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "content",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_calls",
        "function_call",
        "annotations",
        "extra_content",
        "audio",
        "images",
        "executed_tools",
    ]
)


@given(message=st.dictionaries(FIELDS, JSON, max_size=4), finish=JSON, usage=JSON)
def test_no_body_raises_anything_but_our_errors(message: Any, finish: Any, usage: Any) -> None:
    """Whatever types the fields have, the reply is read or a typed error says why not."""
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    try:
        found = decoded(body)
    except TreadleError:
        return
    sent_back(Message("assistant", (Text("x"), *found.message.parts), found.message.provider))
