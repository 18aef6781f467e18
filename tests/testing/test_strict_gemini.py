"""What Gemini's servers refuse, in words."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.testing.strict import assert_strict, strict

USER = {"role": "user", "parts": [{"text": "a"}]}
SIGNED = {"thoughtSignature": "c2lnbmVk"}


def call(name: str = "f", **extra: Any) -> dict[str, Any]:
    """Return a part with a call."""
    return {"functionCall": {"name": name, "args": {}}, **extra}


def result(name: str = "f", **fields: Any) -> dict[str, Any]:
    """Return a part with a result."""
    return {"functionResponse": {"name": name, "response": {}, **fields}}


def model(*parts: Any) -> dict[str, Any]:
    """Return a content of the model's."""
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    """Return a content of the user's."""
    return {"role": "user", "parts": list(parts)}


def contents(*items: Any) -> dict[str, Any]:
    """Return a request of these contents, after a user's word."""
    return {"contents": [USER, *items]}


def schema(value: Any) -> dict[str, Any]:
    """Return a request that offers a function with this schema."""
    function = {"name": "f", "parametersJsonSchema": value}
    return {**contents(), "tools": [{"functionDeclarations": [function]}]}


def config(**fields: Any) -> dict[str, Any]:
    """Return a request with these options."""
    return {**contents(), "generationConfig": fields}


FINE: list[dict[str, Any]] = [
    contents(),
    contents(USER, model({"text": "b"}), model(call()), user(result()), USER),
    contents(model(call(), call("g")), user(result()), user(result("g"))),
    {"contents": [{"parts": {"text": "a"}}], "system_instruction": {"parts": [{"text": "s"}]}},
    schema({"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "title": "A"}}}),
    config(responseMimeType="application/json", responseJsonSchema={"type": "string"}),
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "contents"),
    ({"contents": []}, "contents"),
    ({"contents": [1]}, "an object is wanted"),
    ({**contents(), "messages": []}, "unknown name 'messages'"),
    (contents({"role": "assistant", "parts": [{"text": "a"}]}), "no role 'assistant'"),
    (contents({"role": "user", "parts": []}), "no parts"),
    (contents(user({})), "is wanted"),
    (contents(user({"text": "a", "inlineData": {}})), "is wanted"),
    (contents(user({"text": 1})), "text is no text"),
    (contents(user({"text": "a", "type": "text"})), "unknown name 'type'"),
    (contents(user({"inlineData": {"data": "!", "mimeType": "image/png"}})), "base64"),
    (contents(user({"fileData": {}})), "fileUri"),
    (contents(model({"text": "a", "thoughtSignature": "!"})), "thoughtSignature"),
    (contents(model(call("1 f")), user(result("1 f"))), "name '1 f'"),
    (contents(model(call()), user(result(response=1))), "response is no object"),
    (contents(model(call())), "last calls have no results"),
    (contents(model(call()), USER), "have no results"),
    (contents(model(call(), call()), user(result())), "1 results"),
    (contents(user(result())), "1 results"),
    (contents(model(call()), user(result(), {"text": "a"})), "share it"),
    (contents(model(call()), user(result("g"))), "'g' answers a call of 'f'"),
    (contents(model(call()), user(result(id="x"))), "ID 'x'"),
    (contents(user(call()), user(result())), "only the model"),
    ({"contents": [model(call()), user(result())]}, "right after a user's turn"),
    ({**contents(), "tools": [{}]}, "tools[0]"),
    ({**contents(), "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]}, "two"),
    ({**contents(), "toolConfig": {"functionCallingConfig": {"mode": "X"}}}, "no mode 'X'"),
    (
        {**contents(), "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}},
        "only allowed when mode is ANY",
    ),
    ({**contents(), "cachedContent": "c", "tools": [{"googleSearch": {}}]}, "cached content"),
    (schema({"type": "string"}), "no object schema"),
    (schema({"type": "object", "allOf": []}), "'allOf' is not read"),
    (schema({"type": "object", "properties": {"a": {"$ref": "#", "type": "x"}}}), "beside a $ref"),
    (config(responseJsonSchema={}), "responseMimeType"),
    (config(topp=1), "unknown name 'topp'"),
    (config(temperature=3), "temperature"),
    (config(stopSequences=list("abcdef")), "at most 5"),
    (config(thinkingConfig={"thinkingBudget": 0, "thinkingLevel": "LOW"}), "exclude each other"),
]


@pytest.mark.parametrize("request_", FINE, ids=range(len(FINE)))
def test_what_is_taken(request_: dict[str, Any]) -> None:
    """Both spellings, neighbours of one role, results in several contents."""
    assert_strict(request_, "gemini")


@pytest.mark.parametrize(("request_", "words"), BAD, ids=[words for _, words in BAD])
def test_what_is_refused(request_: dict[str, Any], words: str) -> None:
    """Each in words that say where and why."""
    assert words in "\n".join(strict("gemini")(request_))


def test_the_third_generation_wants_signatures() -> None:
    """Of the first call of each step since the user spoke."""
    old = [model(call()), user(result()), USER]
    assert_strict(
        contents(*old, model(call(**SIGNED), call()), user(result(), result())), "gemini3"
    )
    assert_strict(contents(model(call()), user(result())), "gemini")
    [problem] = strict("gemini3")(contents(*old, model(call()), user(result())))
    assert "thought_signature" in problem
    assert problem.startswith("contents[4]")
