"""What a tool returns, and what the model reads of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.tools.parts import asked, results_of, run_calls
from treadle import Agent, Image, Text, ToolCall, tool
from treadle.testing import ScriptedModel, calls
from treadle.tools.outcome import describe, error_result

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_images_stay_parts() -> None:
    """S34: text and image both reach the model, inside the result."""

    @tool
    async def screenshot() -> list[Any]:
        """Take one."""
        return ["the screen", Image.from_bytes(PIXEL, "image/png")]

    model = ScriptedModel([calls(("1", "screenshot", {})), "done"])
    await Agent("a", model, tools=[screenshot]).run("x")
    found = model.requests[1].messages[-1].tool_results[0]

    assert found.text == "the screen"
    assert isinstance(found.parts[1], Image)
    assert found.parts == (Text("the screen"), Image.from_bytes(PIXEL, "image/png"))


async def test_long_output_is_cut_at_both_ends() -> None:
    """BS-11: head, a marker with the size, and tail, within the limit."""

    @tool(max_output=1_000)
    async def dump() -> str:
        """Dump."""
        return "\n".join(f"line {n} é" for n in range(10_000))

    text = results_of(await run_calls([dump], asked("1", "dump")))[0].text

    assert 900 < len(text.encode()) <= 1_000, "whole lines where they leave little empty"
    assert text.startswith("line 0 ")
    assert text.endswith("line 9999 é")
    assert "bytes in all" in text
    whole = len("\n".join(f"line {n} é" for n in range(10_000)).encode())
    assert str(whole) in text
    assert "\ufffd" not in text


@pytest.mark.parametrize("most", [1_000, 1_001, 1_002, 1_003])
async def test_long_output_is_cut_between_characters(most: int) -> None:
    """BS-11: whatever the limit leaves, no character is cut in two."""

    @tool(max_output=most)
    async def dump() -> str:
        """Dump."""
        return "€" * 5_000

    text = results_of(await run_calls([dump], asked("1", "dump")))[0].text

    assert most - 10 < len(text.encode()) <= most
    head, marker, tail = text.split("\n")
    assert "15000 bytes in all" in marker
    assert set(head + tail) == {"€"}


async def test_a_result_that_cannot_be_told() -> None:
    """BS-10: an error result that names the type, never an object's address."""

    @tool
    async def handle() -> Any:
        """Return something odd."""
        return object()

    result = await run_calls([handle], asked("1", "handle"))
    found = results_of(result)[0]

    assert found.is_error
    assert "object" in found.text
    assert "0x" not in found.text
    assert result.output == "done"


async def test_values_come_back_in_their_own_type() -> None:
    """A dict stays a dict, and the model reads JSON."""

    @tool
    async def facts() -> dict[str, Any]:
        """Tell."""
        return {"ok": True, "n": 2**70}

    found = results_of(await run_calls([facts], asked("1", "facts")))[0]

    assert found.value == {"ok": True, "n": 2**70}
    assert msgspec.json.decode(found.text)["ok"] is True


def test_a_long_error_is_cut() -> None:
    """The model gets its head and its tail, never megabytes."""
    call = ToolCall.of("fail", {}, id="1")

    found = error_result(call, "begin" + "x" * 5_000_000 + "end")
    short = error_result(call, "é" * 1_000, max_output=500)

    assert found.is_error
    assert 39_900 < len(found.text.encode()) <= 40_000
    assert (found.text[:5], found.text[-3:]) == ("begin", "end")
    assert "5000008 bytes in all" in found.text
    assert len(short.text.encode()) <= 500
    assert error_result(call, "as it is").text == "as it is"


async def test_a_tool_that_raises_a_long_error() -> None:
    """What reaches the model is within the limit."""

    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("x" * 5_000_000)

    found = results_of(await run_calls([fail], asked("1", "fail")))[0]

    assert found.is_error
    assert "ValueError: xxx" in found.text
    assert len(found.text.encode()) <= 40_000


class Unspeakable(Exception):
    """Cannot tell its text."""

    def __str__(self) -> str:
        """Fail."""
        raise KeyError("lost")


class Wordless(Exception):
    """Tells something that is no text."""

    def __str__(self) -> str:
        """Return what was given."""
        text: Any = self.args[0]
        return text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (Unspeakable(), "Unspeakable (its text cannot be told: __str__ raised KeyError)"),
        (Wordless(3), "Wordless (its text cannot be told: __str__ raised TypeError)"),
    ],
)
def test_an_exception_in_words(error: BaseException, text: str) -> None:
    """Its type and its text; one that cannot tell its text is no second failure."""
    assert describe(error) == text
