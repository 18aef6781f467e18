"""The page on compatible servers names the servers that there are."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

from treadle.models.resolve import GROUP
from treadle.providers.openai.dialect import SERVERS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "compatible-servers.md"
ROW = re.compile(r'^\| `"(\w+):\.\.\."` \| ([^|]+) \| ([^|]+) \|$', re.MULTILINE)
OWN_PAGES = {"openai", "google"}
"""Strings for these mean the vendor's own protocol or server, told of elsewhere."""


def test_the_page_names_every_server() -> None:
    """Each string with its server and its key, in the order of the alphabet."""
    rows = {name: (title, key) for name, title, key in ROW.findall(PAGE.read_text("utf-8"))}

    assert list(rows) == sorted(SERVERS.keys() - OWN_PAGES)
    assert rows.keys() <= entry_points(group=GROUP).names
    for name, (title, key) in rows.items():
        server = SERVERS[name]
        assert title == server.title
        assert key.startswith("none") is not server.needs_key
        assert all(f"`{variable}`" in key for variable in server.keys)
