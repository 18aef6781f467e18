"""Our messages, tools and settings as Gemini JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.providers.gemini.parts import (
    HOST,
    PIXEL,
    SECOND,
    SIGNED,
    TOOL,
    URL,
    VERTEX,
    body_of,
    chunk,
    parts_sent,
    sent,
    whole,
)
from treadle.errors import ConfigError
from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.ports.model import ModelSettings, OutputSchema, ToolSpec
from treadle.providers.gemini.dialect import GeminiDialect, dialect_of
from treadle.providers.gemini.pieces import UNSIGNED
from treadle.providers.gemini.wire import GeminiTool

CALLS = Message.assistant("see", ToolCall("c1", "ls", '{"a":1}'), ToolCall("c2", "cat"))


def results(*parts: ToolResult) -> Message:
    """Return a message of results."""
    return Message("tool", parts)


def test_roles_are_user_and_model() -> None:
    """What the system says in between is the user's; results are the user's, too."""
    contents = sent(
        Message.user("a"),
        CALLS,
        results(
            ToolResult("c1", "ls", (Text("x"), Text("y"))), ToolResult("c2", "cat", is_error=True)
        ),
        Message.system("be brief"),
        Message.assistant("b"),
        dialect=SECOND,
    )
    assert contents == [
        {"parts": [{"text": "a"}], "role": "user"},
        {
            "parts": [
                {"text": "see"},
                {"functionCall": {"name": "ls", "args": {"a": 1}}},
                {"functionCall": {"name": "cat", "args": {}}},
            ],
            "role": "model",
        },
        {
            "parts": [
                {"functionResponse": {"name": "ls", "response": {"output": "x\ny"}}},
                {"functionResponse": {"name": "cat", "response": {"error": ""}}},
            ],
            "role": "user",
        },
        {"parts": [{"text": "be brief"}], "role": "user"},
        {"parts": [{"text": "b"}], "role": "model"},
    ]


def test_neighbours_of_one_kind_are_one_turn() -> None:
    """BS-25, BS-26: blank replies are not sent; results stay apart from words."""
    contents = sent(
        Message.user("one"),
        Message.user("", Image.from_bytes(PIXEL, "image/png")),
        Message.assistant(" "),
        Message.assistant("", ToolCall("c1", "ls")),
        results(ToolResult("c1", "ls", (Text("r"),))),
        Message.user("steered"),
    )
    assert [(content["role"], len(content["parts"])) for content in contents] == [
        ("user", 2),
        ("model", 1),
        ("user", 1),
        ("user", 1),
    ]


def test_the_user_has_the_first_word() -> None:
    """An empty one, where the conversation begins with the model or has not begun."""
    nothing = {"parts": [{"text": ""}], "role": "user"}
    assert sent(Message.assistant("a")) == [nothing, {"parts": [{"text": "a"}], "role": "model"}]
    assert sent() == [nothing]
    assert sent(Message.user(""), Message("assistant", ())) == [nothing]
    assert body_of(system="be nice")["systemInstruction"] == {"parts": [{"text": "be nice"}]}


def test_the_third_generation_wants_signatures() -> None:
    """The model's own, else what Google documents for calls that no Gemini model made."""
    own = {"gemini": {"@host": HOST, "thoughtSignature": SIGNED, "id": "x9"}}
    signed = Message.assistant(ToolCall("c1", "ls", provider=own), ToolCall("c2", "ls"))
    answers = results(ToolResult("c1", "ls"), ToolResult("c2", "ls"))
    first, second = sent(Message.user("a"), signed, answers)[1]["parts"]
    assert first["thoughtSignature"] == SIGNED
    assert first["functionCall"]["id"] == "x9"
    assert second.keys() == {"functionCall"}
    first, second = sent(Message.user("a"), CALLS, answers)[1]["parts"][1:]
    assert first["thoughtSignature"] == UNSIGNED
    assert "thoughtSignature" not in second
    elsewhere = sent(Message.user("a"), signed, answers, dialect=VERTEX)
    assert elsewhere[1]["parts"][0]["thoughtSignature"] == UNSIGNED
    assert "id" not in elsewhere[1]["parts"][0]["functionCall"]
    assert "id" not in elsewhere[2]["parts"][0]["functionResponse"]
    second_generation = sent(Message.user("a"), CALLS, answers, dialect=SECOND)
    assert "thoughtSignature" not in second_generation[1]["parts"][1]


def test_results_answer_under_the_id_and_name_of_their_call() -> None:
    """Ours are not the server's."""
    reply = whole(chunk({"functionCall": {"name": "ls", "id": "srv"}}, finish="STOP")).message
    [call] = reply.tool_calls
    renamed = Message("assistant", (ToolCall("ours", "ls", call.raw, "srv", call.provider),))
    [part] = parts_sent(Message.user("a"), renamed, results(ToolResult("ours", "", (Text("x"),))))
    assert part == {"functionResponse": {"id": "srv", "name": "ls", "response": {"output": "x"}}}


def test_names_that_the_api_refuses() -> None:
    """In history they are made to fit, on both sides; offered, they are refused clearly."""
    contents = sent(
        Message.user("a"),
        Message.assistant(ToolCall("c1", "1/lö ok")),
        results(ToolResult("c1", "1/lö ok")),
    )
    assert contents[1]["parts"][0]["functionCall"]["name"] == "_1_l__ok"
    assert contents[2]["parts"][0]["functionResponse"]["name"] == "_1_l__ok"
    with pytest.raises(ConfigError, match="1bad"):
        body_of(Message.user("a"), tools=(ToolSpec("1bad", "", {}),))


@pytest.mark.parametrize(
    ("raw", "args"),
    [
        ("", {}),
        ("null", {}),
        ("{", {"not_a_json_object": "{"}),
        ("[1]", {"not_a_json_object": "[1]"}),
        ('{"a":"\\u0000\\ud83d"}', {"a": "\ufffd\ufffd"}),
    ],
)
def test_arguments_are_an_object(raw: str, args: dict[str, Any]) -> None:
    """Whatever the model wrote."""
    message = Message.assistant(ToolCall("c1", "ls", raw))
    contents = sent(Message.user("a"), message, results(ToolResult("c1", "ls")))
    assert contents[1]["parts"][0]["functionCall"]["args"] == args


def test_media_have_their_native_form() -> None:
    """S33: pictures, sounds, documents and films, by bytes and by address."""
    parts = parts_sent(
        Message.user(
            "look",
            Image.from_bytes(PIXEL, "image/png"),
            Image.from_url("https://x/y.webp?a=b"),
            Image.from_url("https://x/y"),
            Audio.from_bytes(b"snd", "audio/wav"),
            File.from_bytes(b"%PDF-", "application/pdf", name="a.pdf"),
            File.from_bytes(b"x", "text/plain; charset=utf-8"),
            File.from_bytes(b'{"a":1}', "application/json", name="a.json"),
            File.from_url("https://youtu.be/x", media_type="video/mp4"),
            File(file_id="files/abc", media_type="application/pdf"),
        )
    )
    inner = [next(iter(part.values())) for part in parts]
    assert inner[1] == {"data": "iVBORw0KGgotcGl4ZWw=", "mimeType": "image/png"}
    assert inner[2] == {"fileUri": "https://x/y.webp?a=b", "mimeType": "image/webp"}
    assert inner[3] == {"fileUri": "https://x/y", "mimeType": "image/jpeg"}
    assert inner[4] == {"data": "c25k", "mimeType": "audio/wav"}
    assert inner[5]["mimeType"] == "application/pdf"
    assert inner[6] == {"data": "eA==", "mimeType": "text/plain"}
    assert inner[7] == 'File a.json:\n{"a":1}'
    assert inner[8] == {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}
    assert inner[9] == {"fileUri": f"{URL}/files/abc", "mimeType": "application/pdf"}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Image.from_bytes(b"GIF89a", "image/gif"), "takes no image/gif"),
        (File.from_bytes(b"PK", "application/zip", name="a.zip"), "a.zip: left out"),
        (File(file_id="file-of-openai", name="a.pdf"), "not at hand"),
        (Image(), "not at hand"),
        (Audio(transcript="hello"), "it says: hello"),
    ],
)
def test_what_cannot_be_sent_is_said(part: Part, words: str) -> None:
    """What the API does not take is replaced by words, never sent to fail."""
    [wire] = parts_sent(Message("user", (part,)))
    assert words in wire["text"]


def test_a_model_without_eyes_is_told() -> None:
    """`vision=False`."""
    blind = replace(SECOND, vision=False)
    [wire] = parts_sent(Message.user(Image.from_bytes(PIXEL, "image/png")), dialect=blind)
    assert "takes no images" in wire["text"]


SHOT = results(
    ToolResult("c1", "ls", (Text("here"), Image.from_bytes(PIXEL, "image/png"))),
    ToolResult("c2", "cat", (Audio.from_bytes(b"snd", "audio/wav"), Image())),
)


def test_results_show_pictures() -> None:
    """Inside of the result from the third generation on; what it does not take is shown after."""
    contents = sent(Message.user("a"), CALLS, SHOT)
    first, second = (part["functionResponse"] for part in contents[2]["parts"])
    assert first["parts"] == [
        {"inlineData": {"data": "iVBORw0KGgotcGl4ZWw=", "mimeType": "image/png"}}
    ]
    assert first["response"] == {"output": "here"}
    assert second["response"]["output"].startswith(
        "[Audio 1: shown after the tool results]\n[Image"
    )
    assert [next(iter(part)) for part in contents[3]["parts"]] == ["text", "inlineData"]
    contents = sent(Message.user("a"), CALLS, SHOT, Message.user("on"), dialect=SECOND)
    assert "parts" not in contents[2]["parts"][0]["functionResponse"]
    assert [next(iter(part)) for part in contents[3]["parts"]] == [
        *["text", "inlineData"] * 2,
        "text",
    ]


def test_what_others_wrote_is_left_out() -> None:
    """Reasoning, hosted steps, opaque data, pictures: of other providers, or another platform."""
    foreign = {"openai_chat": {"type": "text", "text": "x"}}
    parts: tuple[Part, ...] = (
        Reasoning("hm", "sig", provider={"anthropic": {}}),
        Reasoning("hm"),
        Hosted("web_search", {"anthropic": {"type": "server_tool_use"}}),
        Text("said", foreign),
        Image.from_bytes(PIXEL, "image/png"),
        Hosted("code_execution", {"gemini": {"@host": "vertex", "executableCode": {"code": "1"}}}),
        Reasoning("hm", "sig", provider={"gemini": {"@host": "vertex", "thought": True}}),
    )
    assert parts_sent(Message.user("a"), Message("assistant", parts)) == [{"text": "said"}]
    vertex = parts_sent(Message.user("a"), Message("assistant", parts[5:]), dialect=VERTEX)
    assert vertex == [
        {"executableCode": {"code": "1"}},
        {"text": "hm", "thought": True, "thoughtSignature": "sig"},
    ]


def test_tools_are_declared_together() -> None:
    """Hosted ones are tools of their own; a kept declaration is sent as it is."""
    kept = {"name": "old", "parameters": {"type": "OBJECT"}}
    tools = (
        TOOL,
        GeminiTool("googleSearch", "", {}, {"gemini": {"googleSearch": {}}}),
        GeminiTool("old", "", {}, {"gemini": {"functionDeclarations": [kept]}}),
        ToolSpec("bare", "", {}),
    )
    assert body_of(Message.user("a"), tools=tools)["tools"] == [
        {
            "functionDeclarations": [
                {"name": "ls", "description": "List.", "parametersJsonSchema": TOOL.parameters},
                kept,
                {"name": "bare"},
            ]
        },
        {"googleSearch": {}},
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("ls", {"mode": "ANY", "allowedFunctionNames": ["ls"]}),
    ],
)
def test_the_choice_of_tools(choice: str, config: dict[str, Any]) -> None:
    """Sent only with functions to choose from."""
    settings = ModelSettings(tool_choice=choice)
    body = body_of(Message.user("a"), tools=(TOOL,), settings=settings)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert "toolConfig" not in body_of(Message.user("a"), settings=settings)


def test_one_call_at_a_time_cannot_be_had() -> None:
    """So it is refused before anything is sent; without tools it means nothing."""
    settings = ModelSettings(parallel_tool_calls=False)
    with pytest.raises(ConfigError, match="parallel_tool_calls"):
        body_of(Message.user("a"), tools=(TOOL,), settings=settings)
    assert body_of(Message.user("a"), settings=settings).keys() == {"contents"}
    body_of(Message.user("a"), tools=(TOOL,), settings=ModelSettings(parallel_tool_calls=True))


def test_settings_have_googles_names() -> None:
    """Together in one object; a hint about caches has no field."""
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=7,
        stop=("x",),
        seed=1,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        prompt_cache="long",
    )
    assert body_of(Message.user("a"), settings=settings)["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 7,
        "stopSequences": ["x"],
        "seed": 1,
        "frequencyPenalty": 0.1,
        "presencePenalty": 0.2,
    }


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-3-flash-preview", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash-preview", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("models/gemini-flash-latest", "xhigh", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "xhigh", {"thinkingBudget": 32768, "includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
        ("tunedModels/mine", "high", None),
    ],
)
def test_how_much_is_thought(model: str, effort: Any, thinking: dict[str, Any] | None) -> None:
    """Levels, budgets, or nothing where the model does not think."""
    settings = ModelSettings(reasoning_effort=effort)
    body = body_of(Message.user("a"), dialect=dialect_of(URL, model), settings=settings)
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking


def test_typed_output_is_json_of_a_schema() -> None:
    """Beside other settings; `extra_body` sets single fields of the same object."""
    output = OutputSchema("city", {"type": "object", "properties": {"n": {"const": 1}}})
    settings = ModelSettings(
        seed=1,
        extra_body={
            "generationConfig": {"topK": 5, "seed": 2},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "tools": [{"googleSearch": {}}],
            "toolConfig": {"includeServerSideToolInvocations": True},
        },
    )
    body = body_of(Message.user("a"), output=output, settings=settings, tools=(TOOL,))
    assert body["generationConfig"] == {
        "seed": 2,
        "topK": 5,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"n": {"enum": [1]}}},
    }
    assert body["safetySettings"][0]["threshold"] == "OFF"
    assert [next(iter(tool)) for tool in body["tools"]] == ["functionDeclarations", "googleSearch"]
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}


@pytest.mark.parametrize(
    ("model", "native", "with_tools"),
    [
        ("gemini-3-flash-preview", True, True),
        ("gemini-2.5-flash", True, False),
        ("gemini-2.5-flash-image", False, False),
        ("gemma-3-27b-it", False, False),
    ],
)
def test_what_models_can(model: str, native: bool, with_tools: bool) -> None:
    """Known by their names."""
    dialect: GeminiDialect = dialect_of(URL, model)
    assert (dialect.native_output, dialect.native_output_with_tools) == (native, with_tools)
