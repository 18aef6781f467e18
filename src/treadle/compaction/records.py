"""The messages that leave a view as numbered records, which facts cite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from treadle.compaction.turns import Turn
from treadle.messages import Audio, File, Image, Message, Text, ToolResult
from treadle.values import clean, is_array, is_object

_LONGEST_LINE = 400
"""Characters of a name or an ID that somebody else has chosen."""


class Record(Struct, frozen=True):
    """A message that leaves the view. `stretch` is the same for records that stood together.

    A stretch ends at what a user said, at skills that were read, and where a message stays.
    """

    number: int
    message: Message
    stretch: int

    @property
    def id(self) -> str:
        """What facts cite it by."""
        return record_id(self.number)


def record_id(number: int) -> str:
    """Return the name of a record: "M0001" for 1."""
    return f"M{number:04d}"


def records_of(turns: Sequence[Turn], first: int) -> list[Record]:
    """Return the messages of turns as records, the first of them numbered `first`."""
    records: list[Record] = []
    stretch = 0
    end, was_apart = None, False
    for turn in turns:
        apart = turn.kind in ("user", "skills")
        if apart or was_apart or turn.start != end:
            stretch += 1
        end, was_apart = turn.stop, apart
        for message in turn.messages:
            records.append(Record(first + len(records), message, stretch))
    return records


def said_in(message: Message) -> Iterator[str]:
    """Yield what a user or a model said in a message, and what the model gave to tools."""
    if message.role == "tool":
        return
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
            yield from (each.url for each in part.citations if each.url)
        elif isinstance(part, Image | Audio | File):
            yield media_reference(part)
    for call in message.tool_calls:
        yield plain_text(call.raw)


def returned_in(message: Message) -> Iterator[str]:
    """Yield what tools returned in a message."""
    for result in message.tool_results:
        yield plain_text(result.text)
        yield from (media_reference(part) for part in result.parts if not isinstance(part, Text))


def plain_text(text: str) -> str:
    """Return the texts in a JSON value, one a line, numbers as they are spelled; else the text."""
    text = clean(text)
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text, parse_float=str, parse_int=str, strict=False)
    except (ValueError, RecursionError):
        return text
    return "\n".join(_leaves(value))


def _leaves(value: Any) -> Iterator[str]:
    open_values: list[Any] = [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, str):
            yield each
        elif is_array(each):
            open_values.extend(reversed(each))
        elif is_object(each):
            for key, inner in reversed(each.items()):
                open_values.append(inner)
                open_values.append(key)


def media_reference(part: Image | Audio | File) -> str:
    """Return what a medium is, without its content: where it is, or its type and size."""
    words = [type(part).__name__.lower()]
    if isinstance(part, File) and part.name:
        words.append(part.name)
    if isinstance(part, File) and part.file_id:
        words.append(part.file_id)
    if part.url is not None and not part.url.startswith("data:"):
        words.append(part.url)
    elif part.media_type:
        words.append(part.media_type)
    if part.content is not None:
        words.append(f"({len(part.content):,} bytes)")
    return one_line(" ".join(words))


def tool_names(records: Sequence[Record]) -> dict[str, str]:
    """Return the name of the tool of each call, by the call's ID."""
    return {call.id: call.name for each in records for call in each.message.tool_calls}


def name_of(result: ToolResult, names: dict[str, str]) -> str:
    """Return the tool that a result is from; its call says so where the result does not."""
    return result.name or names.get(result.call_id, "an unknown tool")


def one_line(text: str) -> str:
    """Return a name without line breaks, and not without end."""
    return " ".join(clean(text).split())[:_LONGEST_LINE]
