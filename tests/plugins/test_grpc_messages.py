"""What goes over the wire to plugin servers and comes back, held against bytes made by hand."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.wire import fields, get_struct, put, put_property, put_struct
from treadle import Image, InvalidTool, Text, ToolError
from treadle.plugins.grpc_messages import (
    EXACT,
    Unreadable,
    answer_of,
    request_of,
    schema_of,
    text_of,
)

PNG = b"\x89PNG\r\n\x1a\n"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-EXACT, EXACT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(texts, plain, max_size=4)


@given(metadata=objects, arguments=objects)
def test_requests_say_what_they_were_given(
    metadata: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Another reader of the format finds the very values in both structs."""
    told = dict(fields(request_of(metadata, arguments)))

    assert get_struct(told[1]) == metadata
    assert get_struct(told[2]) == arguments


@given(value=objects)
def test_structured_content_comes_back_as_it_was(value: dict[str, Any]) -> None:
    """JSON that another writer packs is the same JSON here; an empty object is one, too."""
    assert answer_of("p", put(2, put_struct(value))) == value


@given(content=st.binary(max_size=200))
def test_no_bytes_are_too_bad(content: bytes) -> None:
    """Whatever a server answers is read, or refused in one way."""
    for read in (
        lambda: answer_of("p", content),
        lambda: schema_of(content),
        lambda: text_of("NameResponse", "name", content),
    ):
        with suppress(Unreadable, InvalidTool):
            read()


def test_whole_numbers_come_back_whole() -> None:
    """The wire has only doubles; a count is an integer all the same, and stays no boolean."""
    value = answer_of("p", put(2, put_struct({"n": 3, "x": 0.5, "big": 1e300, "b": True})))

    assert repr(value) == "{'b': True, 'big': 1e+300, 'n': 3, 'x': 0.5}"


@pytest.mark.parametrize("number", [EXACT + 1, -(10**20), 10**400])
def test_a_number_that_would_change_is_not_sent(number: int) -> None:
    """The model hears which argument it is and what to do."""
    with pytest.raises(ToolError, match=r"'a\.b\[0\]' is -?1?\d+.*pass it as a string"):
        request_of({}, {"a": {"b": [number]}})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_what_is_no_json_is_not_sent(value: Any) -> None:
    """Values that JSON has not are refused by the place where they stand."""
    with pytest.raises(ToolError, match=r"'metadata\.user' is .* no JSON value"):
        request_of({"user": value}, {})


def nested(levels: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if kind == "object" else [value]
    return {"a": value}


@pytest.mark.parametrize("kind", ["object", "array"])
def test_what_is_too_deep_is_told_and_all_else_can_be_read(kind: str) -> None:
    """What is sent can be read by a reader that stops at 100 levels; the rest is refused."""
    from google.protobuf.struct_pb2 import Struct  # noqa: PLC0415 only to read with

    deepest = 31 if kind == "object" else 47
    told = dict(fields(request_of({}, nested(deepest, kind))))
    Struct.FromString(told[2])
    assert get_struct(told[2]) == nested(deepest, kind)
    with pytest.raises(ToolError, match="nested too deeply"):
        request_of({}, nested(deepest + 1, kind))


def test_unclean_text_is_cleaned() -> None:
    """A lone surrogate, which the wire cannot carry, becomes the replacement character."""
    told = dict(fields(request_of({}, {"text": "a\ud800b"})))

    assert get_struct(told[2]) == {"text": "a\ufffdb"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ""),
        (put(1, "Hi."), [Text("Hi.")]),
        (put(2, put_struct({"n": 1})), {"n": 1}),
        (put(1, "Hi.") + put(2, put_struct({"n": 1})), [Text("Hi."), Text('{\n  "n": 1\n}')]),
        (put(1, '{"n":1}') + put(2, put_struct({"n": 1})), {"n": 1}),
        (put(1, "Hi.") + put(2, b""), [Text("Hi.")]),
        (put(2, b""), {}),
    ],
    ids=["nothing", "text", "value", "both", "the same twice", "text beside {}", "{}"],
)
def test_texts_and_values(content: bytes, expected: object) -> None:
    """Text alone, a value alone, or both, each once."""
    assert answer_of("p", content) == expected


def url_part(url: str, detail: str = "") -> bytes:
    return put(3, put(1, put(1, url) + put(2, detail)))


def bytes_part(media_type: str, content: bytes) -> bytes:
    return put(3, put(2, put(1, media_type) + put(2, content)))


def test_images() -> None:
    """Images by address and by bytes come as parts, after the text; a wrong detail is left out."""
    content = put(1, "Two cats.") + url_part("https://x.example/cat.png", "low")
    content += url_part("https://x.example/2.png", "sharp") + bytes_part("image/png", PNG)

    assert answer_of("p", content) == [
        Text("Two cats."),
        Image.from_url("https://x.example/cat.png", detail="low"),
        Image.from_url("https://x.example/2.png"),
        Image.from_bytes(PNG, "image/png"),
    ]


def test_images_that_are_not_whole_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Each is logged, and nothing else is lost."""
    content = url_part("") + url_part("file:///etc/passwd") + bytes_part("", PNG)
    content += bytes_part("image/png", b"") + bytes_part("text/html", b"<b>") + put(3, b"")
    content += url_part("data:image/png;base64,%%%") + url_part("data:image/png")
    content += bytes_part("image/png", PNG)

    assert answer_of("cats", content) == [Image.from_bytes(PNG, "image/png")]
    assert len(caplog.messages) == 8
    assert all("plugin 'cats' is left out" in message for message in caplog.messages)


def test_parameters() -> None:
    """Types, required flags, descriptions, arrays and objects inside objects become a schema."""
    listed = (
        put_property("city", required=True, description="Where."),
        put_property("days", "array", items="integer"),
        put_property("any", "array"),
        put_property(
            "where",
            "object",
            properties=(put_property("lat", "number", required=True), put_property("name")),
        ),
        put_property("untyped", ""),
    )

    assert schema_of(b"".join(put(1, each) for each in listed)) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "array", "items": {"type": "integer"}},
            "any": {"type": "array", "items": {}},
            "where": {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
                "required": ["lat"],
            },
            "untyped": {"type": "string"},
        },
        "required": ["city"],
    }


@pytest.mark.parametrize(
    "items",
    [
        put_property("", "object", properties=(put_property("lat", "number"),)),
        put_property("point", "object", properties=(put_property("lat", "number"),)),
    ],
)
def test_items_may_be_a_property(items: bytes) -> None:
    """Servers that describe what an array holds as a property of its own are understood, too."""
    schema = schema_of(put(1, put_property("points", "array", items=items)))

    expected = {"type": "object", "properties": {"lat": {"type": "number"}}}
    assert schema["properties"]["points"]["items"] == expected


def test_items_may_be_the_properties_beside_them() -> None:
    """An array of objects may have the members of these as its own properties."""
    member = put_property("lat", "number", required=True)
    listed = put_property("points", "array", items="object", properties=(member,))

    assert schema_of(put(1, listed))["properties"]["points"]["items"] == {
        "type": "object",
        "properties": {"lat": {"type": "number"}},
        "required": ["lat"],
    }


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (put_property(""), "needs a name"),
        (put_property("a", "float"), "'float' is not a type"),
        (put_property("a", "array", items="float"), "'float'"),
    ],
)
def test_wrong_parameters_are_told(listed: bytes, problem: str) -> None:
    """A parameter without a name or of a type that there is not makes no tool."""
    with pytest.raises(InvalidTool, match=problem):
        schema_of(put(1, listed))
