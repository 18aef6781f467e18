"""IDs are checked once, at the border."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from treadle.errors import InvalidId
from treadle.ids import check_id, new_span_id, new_stamp


@pytest.mark.parametrize("good", ["a", "user-42", "Zoë", "a b", "x" * 200, "a.b", "run:1", "日本"])
def test_usable_ids(good: str) -> None:
    """They come back as they are."""
    assert check_id(good, "conversation") == good


@pytest.mark.parametrize(
    "bad",
    ["", " ", ".", "..", "../x", "a/b", "a\\b", "a\0b", "a\nb", "x" * 201, "é" * 101, "\ud800", 7],
)
def test_unusable_ids(bad: Any) -> None:
    """S58: one error type, with the value and the rule."""
    with pytest.raises(InvalidId, match="conversation") as caught:
        check_id(bad, "conversation")

    shown = repr(bad[:60]) if isinstance(bad, str) else type(bad).__name__
    rules = "is empty|is a path step|leave out slashes and control|at most 200 are|is a str, got"
    assert shown in str(caught.value)
    assert re.search(rules, str(caught.value))


def test_new_ids_are_unique_and_sort_by_time() -> None:
    """Later ones sort behind, but for those of one millisecond."""
    stamps = [new_stamp() for _ in range(1_000)]

    assert len(set(stamps)) == 1_000
    assert [stamp[:12] for stamp in stamps] == sorted(stamp[:12] for stamp in stamps)
    spans = {new_span_id() for _ in range(1_000)}
    assert len(spans) == 1_000
    assert all(re.fullmatch("[0-9a-f]{16}", span) for span in spans)


def test_a_forked_child_makes_other_ids() -> None:
    """Two processes from one never give the same."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "".join(new_span_id() for _ in range(4)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 200).decode()
    os.close(read)
    os.close(write)

    assert theirs != "".join(new_span_id() for _ in range(4))
