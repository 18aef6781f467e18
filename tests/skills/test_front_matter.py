"""Front matter of any kind: read, or refused with a line; the same with and without YAML."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.skills._yaml import read_yaml
from treadle.skills.fields import understood
from treadle.skills.front_matter import read_front_matter
from treadle.skills.plain import read_plain
from treadle.skills.problems import Broken

PIECES = st.sampled_from(
    [
        *("name", "description", "allowed-tools", "metadata", "a", "b c", "1.0", "no", "~", "<<"),
        *(":", ": ", " :", "- ", "-", "? ", "#", " #", "\n", "\n  ", "\n- ", "\n\t", " ", "|", ">"),
        *("'", '"', "''", "\\n", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "%", "@", "`"),
        *(
            "---",
            "...",
            "\u00e9",
            "\u2028",
            "\u0085",
            "\ufeff",
            "\x07",
            "\ud83d\ude00",
            "=",
            "(",
            ")",
        ),
    ]
)
HEADS = st.lists(PIECES, max_size=14).map("".join)
LINES = st.lists(
    st.sampled_from(
        ["name", "description", "metadata", "  k", "  l", "- x", "  - y", "# c", ""]
    ).flatmap(
        lambda key: HEADS.map(lambda value: f"{key}: {value}" if key.strip().isalpha() else key)
    ),
    max_size=6,
).map("\n".join)


@given(st.one_of(HEADS, LINES))
@example("name: a\n---")
@example("[" * 3000)
@example("a: " + "{a: " * 500)
@settings(max_examples=300)
def test_whatever_it_is_it_is_read_or_refused(head: str) -> None:
    """Nothing else comes of it than a value or a problem with a line of the file."""
    text = f"---\n{head}\n---\nBody\n"
    try:
        found = read_front_matter(text.encode("utf-8", "replace"))
    except Broken as broken:
        problems = [broken.problem]
    else:
        _, problems = understood(found, "a")
    most = len(text.replace("\r", "\n").split("\n")) + text.count("\u2028") + text.count("\u0085")
    assert all(1 <= each.line <= most for each in problems)


@given(st.binary(max_size=200))
def test_bytes(content: bytes) -> None:
    """No bytes break it."""
    for each in (content, b"---\n" + content, b"---\n" + content + b"\n---\n"):
        with suppress(Broken):
            understood(read_front_matter(each), "a")


@given(st.one_of(HEADS, LINES))
@settings(max_examples=500)
def test_what_is_plain_means_the_same_in_yaml(head: str) -> None:
    """What can be read without the package, and needs no quotes, reads the same with it."""
    lines = head.split("\n")
    try:
        fields, colons = read_plain(lines, 1)
    except Broken:
        return
    if colons:
        return
    other, _ = read_yaml(head, 1)

    assert {key: field.value for key, field in fields.items()} == {
        key: field.value for key, field in other.items()
    }
