"""Requests as our values, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.gemini.parts import SECOND, SIGNED, THIRD, body_of
from tools.recorded_gemini import normal
from treadle.errors import InvalidInput
from treadle.messages import Audio, File, Image, Message, Text, ToolCall, ToolResult
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.request import decode_request


def read(wire: Any) -> ModelRequest:
    """Return the request that this JSON is."""
    return decode_request(json.dumps(wire).encode(), SECOND)


def there_and_back(wire: dict[str, Any]) -> dict[str, Any]:
    """Return what comes back of a request."""
    return json.loads(GeminiEncoder(SECOND).body(read(wire)))


def user(*parts: Any, **fields: Any) -> dict[str, Any]:
    """Return a content of the user's."""
    return {"role": "user", "parts": list(parts), **fields}


def model(*parts: Any, **fields: Any) -> dict[str, Any]:
    """Return a content of the model's."""
    return {"role": "model", "parts": list(parts), **fields}


A = {"text": "a"}
CALL = {"functionCall": {"name": "f", "args": {"snake_case": {"a_b": 1}}, "id": "c9"}}
RESULT = {"functionResponse": {"name": "f", "response": {"snake_case": 1}, "id": "c9"}}

REQUESTS: list[dict[str, Any]] = [
    {"contents": [user(A)]},
    {"contents": [user(A), user(A)]},
    {"contents": [model(A), user(A), model(A), model({"text": "b"})]},
    {"contents": [user({"text": ""}), model({"text": " "}), user({"text": "\n"}, A)]},
    {"contents": [user({**A, "thoughtSignature": SIGNED}, {**A, "partMetadata": {"x_y": 1}})]},
    {"contents": [{"parts": [A]}], "safetySettings": [{"category": "X", "threshold": "OFF"}]},
    {"contents": [user(A), model(CALL), user(RESULT)]},
    {"contents": [user(A), model(CALL, CALL), {"role": "function", "parts": [RESULT, RESULT]}]},
    {"contents": [user(A), model(CALL), user(RESULT, A, RESULT), user(A)]},
    {
        "contents": [
            user(A),
            model({"text": "t", "thought": True}, {"text": "", "thoughtSignature": SIGNED}),
            user(
                {
                    "functionResponse": {
                        "name": "g",
                        "response": {"output": "x"},
                        "parts": [
                            {"inlineData": {"mimeType": "image/png", "data": "__--"}},
                            {
                                "inlineData": {
                                    "mimeType": "image/png",
                                    "data": "AA==",
                                    "displayName": "n",
                                }
                            },
                        ],
                    }
                }
            ),
        ]
    },
    {
        "contents": [
            user(
                {"inlineData": {"mimeType": "image/gif", "data": "AA=="}},
                {"inlineData": {"mimeType": "application/json", "data": "e30="}},
                {"inlineData": {"mimeType": "audio/wav", "data": "AA", "displayName": "n"}},
                {"inlineData": {"mimeType": "image/png", "data": ""}},
                {"fileData": {"fileUri": "gs://a/b.mp4"}, "videoMetadata": {"fps": 0.2}},
                {"fileData": {"fileUri": "https://x/y.pdf", "mimeType": "application/pdf"}},
                {"executableCode": {"code": "1", "language": "PYTHON"}},
            ),
            model({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        ]
    },
    {
        "contents": [user(A)],
        "systemInstruction": {"parts": [A, A]},
        "tools": [
            {"functionDeclarations": [{"name": "f", "description": "d"}]},
            {
                "functionDeclarations": [{"name": "g", "parameters": {"type": "OBJECT"}}],
                "urlContext": {},
            },
            {"googleSearch": {"timeRangeFilter": {"startTime": "x"}}},
        ],
        "toolConfig": {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
            "retrievalConfig": {"languageCode": "de"},
        },
        "generationConfig": {
            "temperature": 3.5,
            "topP": 2,
            "topK": 40,
            "seed": 1,
            "stopSequences": ["x"],
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"any_of": {"type": "STRING"}}},
            "thinkingConfig": {"thinkingBudget": 0},
        },
        "cachedContent": "cachedContents/1",
        "labels": {"my_label": "x"},
    },
    {
        "contents": [user(A)],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "f", "parametersJsonSchema": {"properties": {"a_b": {"const": 1}}}},
                    {
                        "name": "g",
                        "parametersJsonSchema": {"type": "object"},
                        "behavior": "BLOCKING",
                    },
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": {"const": 1},
        },
    },
]


@pytest.mark.parametrize("wire", REQUESTS, ids=range(len(REQUESTS)))
def test_requests_come_back_equivalent(wire: dict[str, Any]) -> None:
    """What our values have no field for rides along."""
    assert normal(there_and_back(wire)) == normal(wire)


def test_both_spellings_are_read() -> None:
    """`function_call` and `functionCall`; names that are the user's stay."""
    wire = {
        "contents": [
            {"role": "user", "parts": {"text": "a"}},
            model({"function_call": CALL["functionCall"], "thought_signature": SIGNED}),
            user({"function_response": RESULT["functionResponse"]}),
            user({"inline_data": {"mime_type": "image/png", "data": "AA=="}}),
        ],
        "system_instruction": {"parts": [{"text": "s"}], "role": "user"},
        "tools": {"function_declarations": [{"name": "f", "parameters_json_schema": {"a_b": 1}}]},
        "tool_config": {"function_calling_config": {"mode": "ANY"}},
        "generation_config": {"max_output_tokens": 5},
    }
    request = read(wire)
    assert (request.system, request.settings.tool_choice) == ("s", "required")
    assert request.settings.max_output_tokens == 5
    assert request.messages[1].tool_calls[0].arguments == {"snake_case": {"a_b": 1}}
    assert normal(there_and_back(wire)) == normal(wire)


def test_our_own_requests_come_back_equal() -> None:
    """Messages, tools, settings and output."""
    messages = (
        Message.user("a", Image.from_bytes(b"x", "image/png"), Audio.from_bytes(b"y", "audio/wav")),
        Message.assistant("b", ToolCall("call_1", "ls", '{"a":1}'), ToolCall("call_2", "ls")),
        Message(
            "tool",
            (
                ToolResult("call_1", "ls", (Text("x"), File.from_bytes(b"%", "application/pdf"))),
                ToolResult("call_2", "ls", (Text("bad"),), is_error=True),
            ),
        ),
        Message.assistant("c"),
    )
    fields: dict[str, Any] = {
        "system": "s",
        "tools": (ToolSpec("ls", "List.", {"type": "object"}),),
        "settings": ModelSettings(temperature=1.0, stop=("x",), tool_choice="ls", seed=3),
        "output": OutputSchema("T", {"type": "object", "title": "T"}),
    }
    body = body_of(*messages, **fields)
    request = decode_request(json.dumps(body).encode(), THIRD)
    assert {name: getattr(request, name) for name in fields} == fields
    assert json.loads(GeminiEncoder(THIRD).body(request)) == body
    kinds = [[type(part) for part in message.parts] for message in request.messages]
    assert kinds == [[type(part) for part in message.parts] for message in messages]
    assert request.messages[2].tool_results[1].is_error


def test_results_find_their_calls() -> None:
    """By ID, else by name and order."""
    call, other = {"functionCall": {"name": "f"}}, {"functionCall": {"name": "g"}}
    result: dict[str, Any] = {"functionResponse": {"name": "f", "response": {}}}
    answers = user(result, {"functionResponse": {"name": "g", "response": {}}}, result)
    request = read({"contents": [user(A), model(call, other, call), answers]})
    calls = [one.id for one in request.messages[1].tool_calls]
    assert calls == ["call_1", "call_2", "call_3"]
    assert [one.call_id for one in request.messages[2].tool_results] == calls


@pytest.mark.parametrize(
    "wire",
    [
        [],
        {},
        {"contents": 1},
        {"contents": [1]},
        {"contents": [{"parts": [1]}]},
        {"contents": [user(A)], "tools": 1},
        {"contents": [user(A)], "tools": [1]},
        {"contents": [user(A)], "tools": [{"functionDeclarations": [1]}]},
    ],
)
def test_what_is_no_request_is_refused(wire: Any) -> None:
    """Clearly."""
    with pytest.raises(InvalidInput):
        read(wire)
    with pytest.raises(InvalidInput):
        decode_request(b"{", THIRD)
