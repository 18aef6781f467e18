"""Pages of a long text: its ends, some of its lines, some of its bytes, or lines with a text."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.errors import ToolError

SHOWN = 240  # characters of a line, around what was found in it


def head_of(content: bytes, room: int) -> tuple[str, int]:
    """Return the beginning of a text in so many bytes, and how many whole lines that are.

    It ends with a line where that leaves no more than half of the room empty, else with a
    character, and is 0 lines.
    """
    head = content[: max(0, room)]
    end = head.rfind(b"\n")
    if end >= room / 2 and end > 0:
        return head[:end].decode(), head.count(b"\n", 0, end) + 1
    return head.decode(errors="ignore"), 0


def tail_of(content: bytes, room: int) -> tuple[str, int]:
    """Return the end of a text like `head_of`."""
    tail = content[len(content) - room :] if room > 0 else b""
    start = tail.find(b"\n") + 1
    if 0 < start <= room / 2 and start < len(tail):
        kept = tail[start:]
        return kept.decode(), kept.count(b"\n") + (not kept.endswith(b"\n"))
    return tail.decode(errors="ignore"), 0


def lines_of(content: bytes, start: int, count: int | None, most: int) -> str:
    """Return lines from one on, counting from 1, in at most so many bytes, under a heading.

    Raises:
        ToolError: there is no such line.
    """
    total = content.count(b"\n") + (not content.endswith(b"\n"))
    if start > total:
        raise ToolError(f"There is no line {start}: the last is {total}.")
    wanted = total - start + 1 if count is None else min(count, total - start + 1)
    place = _begin_of(content, start)
    room, taken, end = most - 200, 0, place
    while taken < wanted:
        following = content.find(b"\n", end)
        following = len(content) if following < 0 else following + 1
        if following - place > room:
            break
        taken, end = taken + 1, following
    if not taken:
        piece = content[place : place + room].decode(errors="ignore")
        read = len(piece.encode())
        return (
            f"[line {start} of {total} is long; its beginning]\n{piece}\n"
            f'[read on with start={place + read + 1}, by="bytes"]'
        )
    last = start + taken - 1
    text = content[place:end].decode().removesuffix("\n")
    more = "" if last == total else f"\n[line {last + 1} is next]"
    return f"[lines {start} to {last} of {total}]\n{text}{more}"


def bytes_of(content: bytes, start: int, count: int | None, most: int) -> str:
    """Return bytes from one on, counting from 1, at most so many, under a heading.

    They begin and end between characters.

    Raises:
        ToolError: there is no such byte.
    """
    if start > len(content):
        raise ToolError(f"There is no byte {start}: the last is {len(content)}.")
    begin = start - 1
    while begin and content[begin] & 0xC0 == 0x80:  # in the middle of a character
        begin -= 1
    room = most - 200
    piece = content[begin : begin + (room if count is None else max(4, min(count, room)))]
    text = piece.decode(errors="ignore")
    end = begin + len(text.encode())
    more = "" if end >= len(content) else f"\n[byte {end + 1} is next]"
    return f"[bytes {begin + 1} to {end} of {len(content)}]\n{text}{more}"


def found_in(content: bytes, search: str, start: int, count: int | None, most: int) -> str:
    """Return the lines with a text in them from a line on, numbered, with a heading.

    Of long lines only what is around the text is shown. Small and capital letters are alike where
    the text has no capital ones.
    """
    total, room = 0, most - 200
    width = min(SHOWN, room // 4 - 10)  # so that one line always fits: else reading stands still
    shown: list[str] = []
    after = 0
    for number, line, place in _matches(content, search, start):
        total += 1
        row = f"{number}: {_around(line, place, len(search), width)}"
        room -= len(row.encode()) + 1
        if after or room < 0 or (count is not None and len(shown) >= count):
            after = after or number
            continue
        shown.append(row)
    since = "" if start == 1 else f" from line {start} on"
    if not total:
        return f"[no line has {search!r:.80}{since}]"
    more = f"\n[more from line {after} on: start={after}]" if after else ""
    lines = "\n".join(shown)
    return f"[{total} {'line has' if total == 1 else 'lines have'} it{since}]\n{lines}{more}"


def _begin_of(content: bytes, line: int) -> int:
    """Return where a line begins, counting lines from 1."""
    place = 0
    for _ in range(line - 1):
        place = content.index(b"\n", place) + 1
    return place


def _matches(content: bytes, search: str, start: int) -> Iterator[tuple[int, str, int]]:
    alike = search == search.lower()
    for number, raw in enumerate(content.split(b"\n"), 1):
        if number < start:
            continue
        line = raw.decode()
        place = (line.lower() if alike else line).find(search)
        if place >= 0:
            yield number, line, place


def _around(line: str, place: int, length: int, width: int) -> str:
    if len(line) <= width:
        return line
    begin = max(0, min(place - (width - min(length, width)) // 2, len(line) - width))
    end = begin + width
    return f"{'...' if begin else ''}{line[begin:end]}{'...' if end < len(line) else ''}"
