"""Messages and parts: made from whatever users have, and equal after JSON."""

from __future__ import annotations

import base64
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle import Audio, File, Image, Message, Reasoning, Text, ToolCall, ToolResult
from treadle.errors import InvalidInput
from treadle.messages import Thread, as_parts, texts, with_value

PNG = b"\x89PNG\r\n\x1a\n\0\0"


def test_images_from_everything(tmp_path: Path) -> None:
    """URL, data URL, bytes, base64 and a file, whose type comes from its bytes."""
    place = tmp_path / "picture.bin"
    place.write_bytes(PNG)
    encoded = base64.b64encode(PNG).decode()

    assert Image.from_url("https://example.test/a.png", detail="low").detail == "low"
    assert Image.from_url(f"data:image/png;base64,{encoded}").content == PNG
    assert Image.from_bytes(PNG, "image/png").data_url == f"data:image/png;base64,{encoded}"
    assert Image.from_base64(f"{encoded[:4]}\n{encoded[4:]}", "image/png").content == PNG
    assert Image.from_file(place).media_type == "image/png"
    assert File.from_file(place).name == "picture.bin"
    assert File.from_file(place, name="other.bin").name == "other.bin"
    assert Audio.from_bytes(b"RIFF0000WAVE", "audio/x-wav").format == "wav"
    assert Audio.from_bytes(b"ID3", "audio/mpeg").format == "mp3"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Image.from_url("cat.png"), "from_file"),
        (lambda: Image.from_file("/nowhere/cat.png"), "cannot read"),
        (lambda: Image.from_base64("!!!", "image/png"), "not base64"),
        (lambda: Image.from_bytes(b"", "image/png"), "no bytes"),
        (lambda: Image.from_url("data:nothing"), "no comma"),
        (lambda: as_parts(["x", 3]), "int"),  # pyright: ignore[reportArgumentType] the mistake that is tested
        (lambda: as_parts(3), "text, a part, or a list"),  # pyright: ignore[reportArgumentType] as above
    ],
)
def test_what_cannot_be_media(make: Any, text: str) -> None:
    """Each is refused with the value and what to do."""
    with pytest.raises(InvalidInput, match=text):
        make()


def test_text_is_cleaned_where_it_enters() -> None:
    """BS-14: lone surrogates and NUL become U+FFFD, empty texts are left out."""
    message = Message.user("a\0b \ud83d", "", "ok")

    assert message.parts == (Text("a\ufffdb \ufffd"), Text("ok"))
    message.text.encode()
    assert Message.assistant("\udcc1", "", "ok").parts == (Text("\ufffd"), Text("ok"))
    assert Message.system("a\0").text == "a\ufffd"


def test_what_a_message_holds() -> None:
    """Text, reasoning, calls, results and media are found by kind, in order."""
    call = ToolCall.of("add", {"a": 1}, id="c1")
    message = Message.assistant(Reasoning("hm"), "one ", "two", call)

    assert (message.text, message.reasoning, message.tool_calls) == ("one two", "hm", (call,))
    assert Message("user", (Text("a"),)).text == "a"
    assert call.arguments == {"a": 1}
    for raw in ("[1]", "{broken", "null", "", '{"a": ' + "[" * 5_000, '{"a": "\ud83d"}'):
        assert ToolCall("c", "t", raw).arguments == {}
    assert Message.user("x", Image.from_bytes(PNG, "image/png")).has_media
    assert texts([Message.system("s"), message]) == ["s", "one two"]


def test_every_part_survives_json() -> None:
    """Encoded and decoded they are equal."""
    result = with_value("c1", "t", {"n": 2**70, "t": (1, 2)}, "{}")
    message = Message(
        "assistant",
        (
            Text("a", {"openai_chat": {"x": 1}}),
            Image.from_bytes(PNG, "image/png", detail="high"),
            Audio.from_bytes(b"1", "audio/wav", transcript="hi"),
            File.from_bytes(b"%PDF-", "application/pdf", name="a.pdf"),
            Reasoning("r", signature="s", redacted="z"),
            ToolCall.of("t", {"a": [1]}, id="c1"),
            result,
        ),
        incomplete=True,
    )

    decoded = msgspec.json.decode(msgspec.json.encode(message), type=Message)

    assert decoded == message
    assert decoded.incomplete
    assert decoded.tool_results[0].value == {"n": 2**70, "t": (1, 2)}
    assert type(decoded.tool_results[0].value["t"]) is tuple
    assert ToolResult("c", "t", (Text("plain"),)).value == "plain"


def test_a_thread_keeps_what_codecs_made_of_it() -> None:
    """Copies know it, too, and each goes its own way from there."""
    thread = Thread([Message.user("a")])
    thread.encoded["codec"] = b"bytes"
    copied = Thread(thread)
    copied.append(Message.user("b"))
    copied.extend([Message.user("c")])
    copied += [Message.user("d")]

    assert copied.encoded == thread.encoded == {"codec": b"bytes"}
    copied.encoded["codec"] = b"more"
    assert thread.encoded == {"codec": b"bytes"}
    assert Thread(list(thread)).encoded == {}
    for other in (copy.copy(thread), copy.deepcopy(thread), pickle.loads(pickle.dumps(thread))):  # noqa: S301 our own
        assert (type(other), list(other), other.encoded) == (Thread, list(thread), {})


def _deleted(thread: Thread) -> None:
    del thread[0]


def _set(thread: Thread) -> None:
    thread[0] = Message.user("x")


def _cut(thread: Thread) -> None:
    thread[:1] = []


def _doubled(thread: Thread) -> None:
    thread *= 2


CHANGES: list[Callable[[Thread], object]] = [
    _deleted,
    _set,
    _cut,
    _doubled,
    lambda thread: thread.insert(0, Message.user("x")),
    lambda thread: thread.pop(),
    lambda thread: thread.remove(thread[0]),
    lambda thread: thread.clear(),
    lambda thread: thread.reverse(),
    lambda thread: thread.sort(key=str),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_thread_that_is_changed_forgets(change: Callable[[Thread], object]) -> None:
    """What was encoded holds for the first messages only as long as they are the first."""
    thread = Thread([Message.user("b"), Message.user("a")])
    thread.encoded["codec"] = b"bytes"
    change(thread)
    assert thread.encoded == {}
