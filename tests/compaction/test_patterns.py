"""Exact references: found in any text, spelled as they stand there, and in linear time."""

from __future__ import annotations

import time
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.compaction.patterns import find_references

FOUND = {
    "urls": [
        "https://example.com/a/b?x=1&y=(2)#part",
        "https://en.wikipedia.org/wiki/Foo_(bar)",
        "postgresql://user@db.internal:5432/orders",
        "s3://bucket-7/key.parquet",
        "git@github.com:org/repo.git",
        "docs.example.org",
    ],
    "emails": ["bob.smith+x@example.co.uk"],
    "paths": [
        "/srv/app/config.yaml",
        "~/notes/todo",
        "./run.sh",
        "../lib/a.so",
        "src/treadle/view.py",
        "report_final.pdf",
        "/srv/数据/报告.txt",
        "/home/jürgen/Übersicht.md",
        r"C:\Users\bob\f.txt",
        r"C:\Program Files\App Two\x.exe",
        r"\\server\share\dir",
    ],
    "dates": [
        "2026-03-14",
        "2026-03-14T10:15:30.250+01:00",
        "2026-03-14 10:15:30 UTC",
        "20260314T101500Z",
        "14.03.2026",
        "03/14/2026",
        "March 14, 2026",
        "14 March 2026",
        "14. März 2026",
        "2026年3月14日",
        "10:15",
    ],
    "amounts": [
        "12,450 EUR",
        "€1,200.50",
        "$3.5m",
        "15 %",
        "3.5GB",
        "42 ms",
        "-12.5 °C",
        "100 km/h",
        "5 million",
        "12,450元",
        "300 requests/s",
    ],
    "versions": ["v2", "2.1.0", "v1.2.3-rc.1", "react@18.2.0"],
    "ids": [
        "550e8400-e29b-41d4-a716-446655440000",
        "a1b2c3d",
        "0x7ffee4",
        "ORD-7731",
        "us-east-1",
        "row_12",
        "INV20391",
        "#481",
        "10.0.0.1:5432",
        "localhost:8080",
        "CVE-2025-1234",
        "arn:aws:s3:::bucket-1",
        "+1-555-0123-99",
    ],
    "names": ["user_id", "API_KEY"],
    "numbers": ["8443", "3.14159"],
}
PAIRS = [(kind, value) for kind, values in FOUND.items() for value in values]
FRAMES = [
    "{}",
    "Look at {}.",
    "({}), and so on",
    "first line\n{}\nlast line",
    'He said "{}" and left.',
    "- **{}**: yes",
    "value: {};",
    "<b>{}</b>",
    "请看 {}。谢谢",
]


@pytest.mark.parametrize(("kind", "value"), PAIRS)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_reference_is_found_as_it_stands(kind: str, value: str, frame: str) -> None:
    """What is around it takes nothing away from it and adds nothing to it."""
    assert (kind, value) in find_references(frame.format(value))


@pytest.mark.parametrize(
    "value", ["订单ORD-7731已发货", "端口localhost:8080可用", "见https://x.example/a/b吗"]
)
def test_scripts_without_blanks_end_a_reference(value: str) -> None:
    """An identifier in Chinese text is found though nothing stands between."""
    wanted = {"ORD-7731", "localhost:8080", "https://x.example/a/b"}

    assert wanted & {found for _, found in find_references(value)}


@pytest.mark.parametrize(
    "text",
    [
        "A well-known state-of-the-art thing and/or another, 24/7 at 5 p.m. or so.",
        "Is this (really) it? Yes! No... maybe; e.g. i.e. the 3rd, the 12th.",
        "你好。今天天气很好。",
        "",
        "   \n\t ",
        "a" * 3_000,
        "-- :: // \\\\ __ .. @@ ##",
    ],
)
def test_prose_has_none(text: str) -> None:
    """Words, hyphens, slashes and punctuation are no references."""
    assert find_references(text) == []


def test_bare_numbers_count_only_where_somebody_speaks() -> None:
    """A table of numbers that a tool returned is no list of references."""
    assert find_references("Use port 8443.") == [("numbers", "8443")]
    assert find_references("8443 17 3.25 99812", said=False) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Use port 9090 from 2026-04-01.", "2026-04-01"),
        ("In May 2026-05-01 was said", "2026-05-01"),
        ("On May 10:15 it began", "10:15"),
        ("On March 3 2026-04-01", "2026-04-01"),
        ("version 1.2.14 March", "1.2.14"),
        ("at 2026-03-14 10:15:30 UTC and later", "2026-03-14 10:15:30 UTC"),
        ("at 2026-03-14T10:15:30Z and later", "2026-03-14T10:15:30Z"),
        ("le 3 août 2026", "3 août 2026"),
        ("el 3 de marzo de 2026", "3 de marzo de 2026"),
    ],
)
def test_a_date_takes_nothing_from_what_stands_beside_it(text: str, value: str) -> None:
    """What looks like a day and a month may be the end and the beginning of something else."""
    assert value in [found for _, found in find_references(text)]


@given(st.text(max_size=400) | st.text(alphabet=r"a1/\:.@_- ,'\"()é中€$", max_size=200))
def test_any_text_is_read(text: str) -> None:
    """What is found stands in the text, each value once; nothing raises."""
    found = [value for _, value in find_references(text)]

    assert len(found) == len(set(found))
    assert all(value in text for value in found)


@given(
    st.lists(st.sampled_from(PAIRS), max_size=12, unique=True),
    st.sampled_from([" ; ", " and ", ", ", "\n", " | "]),
)
def test_references_stand_beside_one_another(pairs: list[tuple[str, str]], between: str) -> None:
    """Each of many in one text is found."""
    text = between.join(value for _, value in pairs)

    assert set(pairs) <= set(find_references(text))


SEEDS = [
    *("a", "/", "1.", "1.1", "1 ", "1-", "\\", "C:\\", "C:\\a a ", "://", "a://b", "@", "a@", "_"),
    *(
        "-",
        '"/ ',
        "Jan 1 ",
        "12 de ",
        "中1",
        "$",
        "#",
        "a:",
        "a.",
        " ",
        "\n",
        "http://x)",
        "(",
        "1T1:",
    ),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_time_grows_with_length_only(seed: str) -> None:
    """A megabyte of what makes patterns go back and forth is read at once."""
    text = "".join(islice(cycle(seed), 1_000_000))
    began = time.process_time()

    find_references(text)

    assert time.process_time() - began < 3  # 0.1 to 0.5 s; what goes back and forth takes hours


def test_one_bracket_after_another_does_not_slow_it() -> None:
    """A URL that never ends is passed over in one go."""
    began = time.process_time()

    assert find_references("see http://x" + ")" * 1_000_000) in ([], [("urls", "http://x")])
    assert time.process_time() - began < 3
