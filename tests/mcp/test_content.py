"""What the model sees of a result, and what the application gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle import Image, Text, ToolCall
from treadle.mcp.content import messages_of, parts_of, shown, with_defaults
from treadle.messages import texts
from treadle.tools.outcome import result_of

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


def text(said: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": said}


def image(data: str = PIXEL) -> dict[str, Any]:
    """A block with a picture."""
    return {"type": "image", "data": data, "mimeType": "image/png"}


def seen(content: list[Any] | None = None, structured: Any = None) -> str:
    """The text that the model sees."""
    result = {"content": content or [], "structuredContent": structured}
    return "|".join(part.text for part in parts_of(result) if isinstance(part, Text))


def test_text_that_repeats_what_is_structured() -> None:
    """The same twice is shown once, and the picture is a picture."""
    result = {"content": [text('{"t": 21}'), image()], "structuredContent": {"t": 21}}
    said, picture = parts_of(result)
    assert said == Text('{"t": 21}')
    assert isinstance(picture, Image)
    assert picture.base64 == PIXEL


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ([], {"t": 21}, '{\n  "t": 21\n}'),
        ([text("sunny")], {"t": 21}, 'sunny\n{\n  "t": 21\n}'),
        ([text("sunny")], {"content": "sunny"}, "sunny"),
        ([text("3")], {"result": 3}, "3"),
        ([text("3")], {"count": 3}, '3\n{\n  "count": 3\n}'),
        ([text("a"), text("b")], {"result": ["a", "b"]}, "a\nb"),
        ([text("1"), text("2")], {"result": [1, 2]}, "1\n2"),
        ([text("a"), text("b")], None, "a\nb"),
        ([text("")], None, ""),
        ([], [], "[]"),
        ([], 0, "0"),
    ],
)
def test_text_and_structure(content: list[Any], structured: Any, expected: str) -> None:
    """Each thing is shown once, nothing is lost."""
    assert seen(content, structured) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio: audio/wav, 3 bytes]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "A", "mimeType": "text/plain"},
            "[resource: A <file:///a>, text/plain]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
            "[resource: file:///a]\nhello",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
            "[resource: file:///a, 3 bytes]",
        ),
        (image("no base64!"), "[image: image/png, which cannot be read]"),
        (text("nul\0 and \ud800"), "nul and �"),
    ],
)
def test_what_models_cannot_see(block: dict[str, Any], expected: str) -> None:
    """Of sound, links and bytes the model is told."""
    found = seen([block])
    assert found == expected or found.startswith("nul")
    assert "\0" not in found


def test_a_picture_as_a_resource() -> None:
    """A resource that is a picture is one."""
    block = {"type": "resource", "resource": {"uri": "x", "mimeType": "image/png", "blob": PIXEL}}
    assert isinstance(parts_of({"content": [block]})[0], Image)


def test_nothing_that_can_be_shown() -> None:
    """A result without content is shown as it is."""
    assert json.loads(seen_whole({"content": [], "extra": {"a": 1}})) == {"extra": {"a": 1}}
    assert parts_of({"content": []}) == ()


def seen_whole(result: dict[str, Any]) -> str:
    """The text of a whole result."""
    return "".join(part.text for part in parts_of(result) if isinstance(part, Text))


def test_what_the_application_gets() -> None:
    """Everything that the server answered, as it answered; plain text stays text."""
    result: dict[str, Any] = {
        "content": [text("21 degrees"), image()],
        "structuredContent": {"t": 21, "none": None},
        "_meta": {"cost": 3},
    }
    kept = result_of(ToolCall.of("weather"), shown(result))
    assert kept.value == result
    assert "21 degrees" in kept.text
    assert result_of(ToolCall.of("x"), shown({"content": [text("a")]})).value == "a"
    assert result_of(ToolCall.of("x"), shown({"content": []})).text in ("", "[]")


def test_prompts_are_messages() -> None:
    """Each message keeps its side and its parts."""
    found = messages_of(
        {
            "messages": [
                {"role": "user", "content": text("Hi")},
                {"role": "assistant", "content": [text("Hello"), image()]},
            ]
        }
    )
    assert [message.role for message in found] == ["user", "assistant"]
    assert texts(found) == ["Hi", "Hello"]
    assert found[1].has_media


def test_defaults_of_a_question() -> None:
    """What an answer leaves out is what the question says."""
    schema = {"properties": {"a": {"default": 1}, "b": {"default": "x"}, "c": {}, "d": "odd"}}
    assert with_defaults(schema, {"b": "y"}) == {"a": 1, "b": "y"}
    assert with_defaults(None, {"b": "y"}) == {"b": "y"}
