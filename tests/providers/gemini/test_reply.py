"""Gemini replies as our values."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.providers.gemini.parts import (
    ASKED,
    HOST,
    PIXEL,
    SIGNED,
    THIRD,
    chunk,
    parts_sent,
    payload,
    whole,
)
from treadle.errors import BadReply, IncompleteReply, ModelError, Overloaded, RateLimited
from treadle.messages import (
    Audio,
    Citation,
    File,
    Hosted,
    Image,
    Message,
    Reasoning,
    Text,
    Thread,
    ToolCall,
)
from treadle.ports.model import ModelRequest
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.reply import decode_reply
from treadle.usage import Usage

OWN = {"gemini": {"@host": HOST}}
USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "toolUsePromptTokenCount": 5,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 25,
}


def test_a_reply_of_text() -> None:
    """With its IDs, its model and what it took."""
    reply = whole(chunk("hello", finish="STOP", usageMetadata=USAGE, responseId="r1"))
    assert reply.message == Message.assistant("hello")
    assert (reply.finish_reason, reply.provider_finish) == ("stop", "STOP")
    assert (reply.response_id, reply.model) == ("r1", "gemini-3-flash-preview")
    assert reply.usage == Usage(
        input_tokens=15, cache_read_tokens=4, output_tokens=10, reasoning_tokens=7, requests=1
    )
    assert reply.usage.total_tokens == USAGE["totalTokenCount"]


def test_parts_keep_their_order_and_signatures() -> None:
    """Thoughts, text, calls and hosted steps go back as they came."""
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"executableCode": {"code": "1", "language": "PYTHON"}, "thoughtSignature": SIGNED},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "args": {"queries": ["a"]}}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1"}},
        {"text": "so", "thoughtSignature": SIGNED},
        {"functionCall": {"args": {"a": 1}, "name": "ls"}, "thoughtSignature": SIGNED},
        {"functionCall": {"args": {}, "name": "ls", "id": "x9"}},
        {"text": "", "thoughtSignature": SIGNED},
        {"somethingNew": {"a": 1}},
    ]
    message = whole(chunk(*parts, finish="STOP")).message
    kinds = [type(part) for part in message.parts]
    assert kinds == [Reasoning, *[Hosted] * 4, Text, ToolCall, ToolCall, Reasoning, Hosted]
    hosted = [part.name for part in message.parts if isinstance(part, Hosted)]
    assert hosted == [*["code_execution"] * 2, *["google_search"] * 2, "somethingNew"]
    assert [call.id for call in message.tool_calls] == ["call_1", "x9"]
    assert [call.provider_id for call in message.tool_calls] == [None, "x9"]
    answer = Message("tool", ())
    back = json.loads(json.dumps(parts_sent_without_check(message, answer)))
    assert back == parts


def parts_sent_without_check(*messages: Message) -> list[Any]:
    """Return the parts of the reply as they are sent back, new kinds and all."""
    body = GeminiEncoder(THIRD).body(ModelRequest(messages=Thread([Message.user("a"), *messages])))
    return json.loads(body)["contents"][1]["parts"]


def test_reasoning_is_what_was_thought() -> None:
    """Its text is not the reply's; an empty signed part is reasoning without words."""
    message = whole(
        chunk({"text": "a", "thought": True}, "b", {"text": "", "thoughtSignature": "c2ln"})
    ).message
    assert (message.reasoning, message.text) == ("a", "b")
    assert message.parts[-1] == Reasoning("", "c2ln", provider=OWN)


def test_arguments_are_as_the_model_wrote_them() -> None:
    """Numbers are not rounded, keys keep their order, blanks between them are the server's."""
    body = (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":\n {"b": 1.10,'
        b'\n "a": 12345678901234567890, "c": "x  y"}}}]},"finishReason":"STOP"}]}'
    )
    [call] = whole(body).message.tool_calls
    assert call.raw == '{"b":1.10,"a":12345678901234567890,"c":"x  y"}'
    assert whole(body).finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "function",
    [
        {"name": "f"},
        {"name": "f", "args": None},
        {"name": "f", "args": {}},
        {"name": "f", "args": []},
    ],
)
def test_a_call_without_arguments(function: dict[str, Any]) -> None:
    """Missing, null and empty are the same."""
    [call] = whole(chunk({"functionCall": function}, finish="STOP")).message.tool_calls
    assert (call.name, call.raw) == ("f", "{}")


def test_repeated_ids_are_none() -> None:
    """BS-06: order and name tell such calls apart."""
    call = {"functionCall": {"name": "f", "id": "x"}}
    first, second = whole(chunk(call, call, finish="STOP")).message.tool_calls
    assert (first.id, first.provider_id) == ("x", "x")
    assert (second.id, second.provider_id) == ("call_2", None)


def test_media_that_the_model_made() -> None:
    """Pictures, sounds and documents, which go back to it."""
    data = base64.b64encode(PIXEL).decode()
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": data}, "thoughtSignature": SIGNED},
        {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": data}},
        {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": data}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/o.mp4"}},
        {"inlineData": {"mimeType": "image/png", "data": data}, "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": "!"}},
    ]
    message = whole(chunk(*parts, finish="STOP")).message
    image, sound, film, draft, broken = message.parts
    assert isinstance(image, Image)
    assert (image.content, image.media_type) == (PIXEL, "image/png")
    assert isinstance(sound, Audio)
    assert sound.content == PIXEL * 2
    assert isinstance(film, File)
    assert film.url == "gs://b/o.mp4"
    assert isinstance(draft, Hosted)
    assert draft.name == "thought"
    assert isinstance(broken, Hosted)
    assert parts_sent(Message.user("a"), Message("assistant", (image, film)))[0] == parts[0]


GROUNDED = {
    "groundingChunks": [
        {"web": {"uri": "https://a", "title": "A"}},
        {"retrievedContext": {"text": "passage", "fileSearchStore": "s"}},
        {"maps": {"uri": "https://m", "title": "M"}},
    ],
    "groundingSupports": [
        {
            "segment": {"startIndex": 8, "endIndex": 13, "text": "Paris"},
            "groundingChunkIndices": [0, 1],
        }
    ],
    "searchEntryPoint": {"renderedContent": "<div>"},
}


def test_citations_say_where_in_the_text() -> None:
    """Google counts bytes; a source that nothing names is a citation without a place."""
    body = chunk({"text": "think", "thought": True}, "Grün: »Paris« ✅", finish="STOP")
    segment = {"startIndex": 9, "endIndex": 14, "text": "Paris"}
    metadata = {
        **GROUNDED,
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0, 1]}],
    }
    body["candidates"][0]["groundingMetadata"] = metadata
    message = whole(body).message
    assert message.citations == (
        Citation("https://a", "A", None, 7, 12),
        Citation(None, None, "passage", 7, 12),
        Citation("https://m", "M"),
    )
    assert message.text[7:12] == "Paris"
    kept = (message.provider or {})["gemini.read"]["groundingMetadata"]
    assert kept["searchEntryPoint"] == {"renderedContent": "<div>"}


def test_citations_find_their_part() -> None:
    """By the words, where the server counts in another part than it says."""
    body = chunk("One. ", {"executableCode": {"code": "1"}}, "In Paris.", finish="STOP")
    segment = {"partIndex": 2, "startIndex": 3, "endIndex": 8, "text": "Paris"}
    candidate = body["candidates"][0]
    candidate["groundingMetadata"] = {
        "groundingChunks": GROUNDED["groundingChunks"],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0, 9]}],
    }
    candidate["citationMetadata"] = {
        "citations": [{"startIndex": 0, "endIndex": 4, "uri": "https://c"}]
    }
    candidate["urlContextMetadata"] = {
        "urlMetadata": [
            {"retrievedUrl": "https://u", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
            {"retrievedUrl": "https://v", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
        ]
    }
    first, _, second = whole(body).message.parts
    assert isinstance(first, Text)
    assert first.citations == (Citation("https://c", start=0, end=4),)
    assert isinstance(second, Text)
    assert second.citations[0] == Citation("https://a", "A", start=3, end=8)
    assert [one.url for one in second.citations[1:]] == [None, "https://m", "https://u"]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("UNEXPECTED_TOOL_CALL", "other"),
        ("NO_IMAGE", "other"),
        ("BRAND_NEW", "other"),
    ],
)
def test_why_it_ended(finish: str, reason: str) -> None:
    """Ours, and Google's own word; a candidate may have no content at all."""
    reply = whole({"candidates": [{"finishReason": finish, "finishMessage": "why"}]})
    assert (reply.finish_reason, reply.provider_finish) == (reason, finish)
    assert reply.message.parts == ()


def test_a_refused_prompt_is_no_answer() -> None:
    """BS-27: there is no candidate then; the reason is kept."""
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "no"}
    reply = whole({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}})
    assert (reply.finish_reason, reply.provider_finish) == ("content_filter", "PROHIBITED_CONTENT")
    assert (reply.message.parts, reply.usage.input_tokens) == ((), 3)
    assert (reply.message.provider or {})["gemini.read"] == {"promptFeedback": feedback}


def test_an_answer_without_candidates_may_be_tried_again() -> None:
    """It says nothing, and nothing about why."""
    bodies: list[dict[str, Any]] = [
        {"usageMetadata": {"promptTokenCount": 3}},
        {"candidates": [], "modelVersion": "m"},
    ]
    for body in bodies:
        with pytest.raises(IncompleteReply, match="empty") as caught:
            whole(body)
        assert caught.value.retryable


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b"{}", b'"a"', b"[1]", b'{"choices":[]}'])
def test_what_is_no_answer_is_a_bad_reply(body: bytes) -> None:
    """It is shown."""
    with pytest.raises(BadReply):
        whole(body)


@pytest.mark.parametrize(
    ("code", "kind"), [(503, Overloaded), (429, RateLimited), (400, ModelError)]
)
def test_errors_inside_a_200(code: int, kind: type[ModelError]) -> None:
    """As an object and as a list of one."""
    error = {"error": {"code": code, "message": "no", "status": "X"}}
    for body in (error, [error]):
        with pytest.raises(ModelError, match="no") as caught:
            whole(body)
        assert type(caught.value) is kind


def test_a_list_is_a_stream_that_came_at_once() -> None:
    """As the server answers when it is not asked for events."""
    reply = whole([chunk("hel"), chunk("lo", finish="STOP", usageMetadata=USAGE)])
    assert (reply.message.text, reply.usage.output_tokens) == ("hello", 10)


def test_only_the_first_of_several_answers_counts() -> None:
    """Others were not asked for by us."""
    body = chunk("a", finish="STOP")
    body["candidates"].append({**chunk("b", finish="SAFETY")["candidates"][0], "index": 1})
    assert (whole(body).message.text, whole(body).finish_reason) == ("a", "stop")


def test_what_is_not_as_documented_is_read_as_far_as_it_goes() -> None:
    """Wrong types count as absent, text is clean."""
    reply = whole(
        b'{"candidates":{"content":{"parts":{"text":"a\\u0000\\ud83d"}},"finishReason":7,'
        b'"index":"0","groundingMetadata":[]},"usageMetadata":{"promptTokenCount":"12",'
        b'"candidatesTokenCount":null,"totalTokenCount":1.0},"modelVersion":{}}'
    )
    assert (reply.message.text, reply.provider_finish) == ("a\ufffd\ufffd", "7")
    assert (reply.usage.input_tokens, reply.model) == (12, ASKED.model)


def test_log_probabilities_are_kept_for_who_asked() -> None:
    """Not sent back."""
    body = chunk("a", finish="STOP")
    body["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": "a"}]}
    message = decode_reply(payload(body), THIRD, ASKED).message
    kept = (message.provider or {})["gemini.read"]
    assert kept == {"logprobsResult": {"chosenCandidates": [{"token": "a"}]}}
    assert parts_sent(Message.user("a"), message) == [{"text": "a"}]
