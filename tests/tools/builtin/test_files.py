"""Reading, writing and editing files of a workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tools.builtin.conftest import Call
from treadle import ToolError
from treadle.tools import write_tool


async def test_write_creates_the_folders_it_needs(call: Call, workspace: Path) -> None:
    """A file in folders that are not there is written, and read back as it was (S26)."""
    written = await call("write_file", path="a/b/c.txt", content="one\nzwölf\n")

    assert written.text == "Created 'a/b/c.txt': 11 bytes."
    assert (workspace / "a/b/c.txt").read_text(encoding="utf-8") == "one\nzwölf\n"
    assert (await call("read_file", path="a/b/c.txt")).text == "one\nzwölf\n"


async def test_write_replaces_and_keeps_the_mode(call: Call, workspace: Path) -> None:
    """Overwriting leaves an executable executable, and nothing beside it."""
    script = workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)

    written = await call("write_file", path="run.sh", content="new")

    assert written.text.startswith("Overwrote")
    assert script.read_text() == "new"
    assert script.stat().st_mode & 0o777 == 0o750
    assert os.listdir(workspace) == ["run.sh"]


async def test_a_file_is_replaced_as_a_whole(call: Call, workspace: Path) -> None:
    """Whoever has the old file open goes on reading the old content."""
    (workspace / "a.txt").write_text("old")
    with (workspace / "a.txt").open() as reader:
        await call("write_file", path="a.txt", content="new")
        assert reader.read() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_read_only_file_stays(call: Call, workspace: Path) -> None:
    """A file without write permission is not replaced, though its folder would allow it."""
    (workspace / "a.txt").write_text("old")
    (workspace / "a.txt").chmod(0o444)

    assert "read-only" in (await call("write_file", path="a.txt", content="new")).text
    assert (workspace / "a.txt").read_text() == "old"


@pytest.mark.parametrize("path", ["", "folder", "folder/", "folder/.", ".", "file/x", "file/x/y"])
async def test_writing_to_what_is_no_file_is_refused(
    call: Call, workspace: Path, path: str
) -> None:
    """A folder, or a path through a file, cannot be written; the answer is a text."""
    (workspace / "folder").mkdir()
    (workspace / "file").write_text("x")

    refused = await call("write_file", path=path, content="x")

    assert refused.is_error
    assert refused.text
    assert sorted(os.listdir(workspace)) == ["file", "folder"]
    assert os.listdir(workspace / "folder") == []


def test_half_a_character_is_not_written(workspace: Path) -> None:
    """A lone surrogate has no bytes; the file stays as it is."""
    (workspace / "a.txt").write_text("old")

    with pytest.raises(ToolError, match="half of a character at position 3"):
        write_tool(workspace)(path="a.txt", content="abc\ud800")
    with pytest.raises(ToolError, match="cannot be a file name"):
        write_tool(workspace)(path="\ud800", content="abc")
    assert (workspace / "a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(1, None, "1\n2\n3"), (2, None, "2\n3"), (2, 1, "2\n"), (3, 5, "3"), (1, 2, "1\n2\n")],
)
async def test_read_takes_lines(
    call: Call, workspace: Path, offset: int, limit: int | None, expected: str
) -> None:
    """`offset` and `limit` count lines, from 1."""
    (workspace / "a.txt").write_text("1\n2\n3")

    assert (await call("read_file", path="a.txt", offset=offset, limit=limit)).text == expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"path": "b.txt"},
            "There is no 'b.txt' in the workspace at 'b.txt'. Did you mean 'a.txt'?",
        ),
        ({"path": "x/y.txt"}, "There is no 'x' in the workspace at 'x/y.txt'."),
        ({"path": "folder"}, "'folder' is a folder, not a file."),
        ({"path": "a.txt/b"}, "A step of 'a.txt/b' is a file, not a folder."),
        ({"path": "a.txt", "offset": 9}, "offset=9 is beyond the end of 'a.txt'."),
        ({"path": "a.txt", "offset": 0}, "offset=0 and limit=None: both count from 1."),
        ({"path": "binary"}, "'binary' is a binary file, not text."),
        ({"path": "latin"}, "'latin' is not UTF-8 text: byte 0xE9 at position 0."),
        ({"path": "pipe"}, "'pipe' is no regular file (but a pipe, socket or device)."),
        ({"path": "n" * 300}, "File name too long."),
    ],
)
async def test_what_cannot_be_read_is_told(
    call: Call, workspace: Path, arguments: dict[str, object], told: str
) -> None:
    """Each failure is a text that says what is wrong; nothing is raised (S26)."""
    (workspace / "folder").mkdir()
    (workspace / "a.txt").write_text("text")
    (workspace / "binary").write_bytes(b"\x7fELF\0\0")
    (workspace / "latin").write_bytes(b"\xe9t\xe9")
    os.mkfifo(workspace / "pipe")

    answer = await call("read_file", **arguments)

    assert answer.is_error
    assert answer.text.endswith(told)


async def test_an_empty_file_is_not_nothing(call: Call, workspace: Path) -> None:
    """A model is told that a file is there and empty."""
    (workspace / "empty").touch()

    assert (await call("read_file", path="empty")).text == "[The file is empty.]"


async def test_a_large_file_is_read_in_part(call: Call, workspace: Path) -> None:
    """A megabyte is read at most, also when that cuts through a character."""
    (workspace / "large.txt").write_text("x" + "ä" * 700_000, encoding="utf-8")

    answer = await call("read_file", path="large.txt")

    assert not answer.is_error
    assert len(answer.text.encode()) <= 40_000
    assert answer.text.startswith("xää")
    assert answer.text.endswith("[Only 1000000 bytes were read; read on with offset and limit.]")


async def test_lines_of_a_large_file_can_be_read(call: Call, workspace: Path) -> None:
    """What lies beyond the first megabyte is reached by line numbers."""
    (workspace / "large.txt").write_text("".join(f"{n}\n" for n in range(1, 300_001)))

    answer = await call("read_file", path="large.txt", offset=299_999, limit=1)

    assert answer.text == "299999\n"


async def test_edit_replaces_the_one_place(call: Call, workspace: Path) -> None:
    """A text that is there once is replaced, and the rest stays byte for byte."""
    (workspace / "a.py").write_bytes(b"def f():\n\treturn 1\n\n\ndef g():\n\treturn 2")

    answer = await call("edit_file", path="a.py", old_string="return 2", new_string="return 3")

    assert answer.text == "Edited 'a.py' at line 6."
    assert (workspace / "a.py").read_bytes() == b"def f():\n\treturn 1\n\n\ndef g():\n\treturn 3"


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("return", "occurs 2 times in 'a.py' (lines 2, 4), not once: nothing was changed."),
        ("retxrn 1", "occurs 0 times in 'a.py': nothing was changed. The nearest line is 2:"),
        ("  return 1\n  x", "Line 2 is like its first; spaces or later lines differ:"),
        ("", "old_string is empty"),
        ("nothing like it at all", "Read the file and copy the text exactly."),
    ],
)
async def test_edit_refuses_all_but_one_match(
    call: Call, workspace: Path, old: str, told: str
) -> None:
    """No match and two matches change nothing, and the answer helps to find the place (S26)."""
    content = "def f():\n    return 1\ndef g():\n    return 2\n"
    (workspace / "a.py").write_text(content)

    answer = await call("edit_file", path="a.py", old_string=old, new_string="x")

    assert answer.is_error
    assert told in answer.text
    assert (workspace / "a.py").read_text() == content


async def test_matches_that_overlap_are_two(call: Call, workspace: Path) -> None:
    """`aa` stands twice in `aaa`: which one is meant is not known."""
    (workspace / "a.txt").write_text("aaa")

    answer = await call("edit_file", path="a.txt", old_string="aa", new_string="b")

    assert "occurs 2 times" in answer.text


async def test_edit_without_a_change_is_refused(call: Call, workspace: Path) -> None:
    """Replacing a text with itself is a mistake that the model should hear of."""
    (workspace / "a.txt").write_text("same")

    answer = await call("edit_file", path="a.txt", old_string="same", new_string="same")

    assert "nothing to change" in answer.text


async def test_edit_fits_windows_line_ends(call: Call, workspace: Path) -> None:
    """A model writes plain line breaks; the file keeps its own."""
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")

    answer = await call("edit_file", path="a.txt", old_string="one\ntwo", new_string="1\n2")

    assert not answer.is_error
    assert (workspace / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_list_names_files_and_folders(call: Call, workspace: Path) -> None:
    """Names are sorted, folders marked, and a long list is cut."""
    (workspace / "b").mkdir()
    (workspace / "a.txt").touch()
    for number in range(600):
        (workspace / "b" / f"{number:03}").touch()

    assert (await call("list_files")).text == "a.txt\nb/"
    listed = (await call("list_files", folder="b")).text
    assert listed.endswith("499\n[100 more names are left out.]")
    missing = (await call("list_files", folder="c")).text
    assert missing.startswith("There is no 'c' in the workspace at 'c'.")
    assert (await call("list_files", folder="a.txt")).is_error


async def test_think_gives_the_thought_back(call: Call) -> None:
    """A thought stays in the context and changes nothing (S26)."""
    answer = await call("think", thought="first read, then write")

    assert answer.text == "first read, then write"
