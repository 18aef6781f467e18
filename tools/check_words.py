"""Refuse names of modules, classes and functions that are made of words which name nothing."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

EMPTY = re.compile(
    "manager|helpers?|utils?|common|base|misc|handler|processor|service|engine|data|info|do|perform"
)
# What things in the world are called, and methods that asyncio, aiohttp and MCP prescribe.
TERMS = re.compile(
    "base_?64|data_?url|data_received|body_from_data|[gs]et_client_info", re.IGNORECASE
)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def findings(path: Path) -> Iterator[str]:
    """Say which names of one file are made of such words, by file and line."""
    yield from judge(path.stem, f"{path}:1: module")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from judge(node.name, f"{path}:{node.lineno}:")


def judge(name: str, place: str) -> Iterator[str]:
    """Name the empty words in one name."""
    for word in WORD.findall(TERMS.sub("", name)):
        if EMPTY.fullmatch(word.lower()):
            yield f"{place} {name}: {word!r} names nothing; say what it is or does"


if __name__ == "__main__":
    files = sorted(Path("src").rglob("*.py"))
    found = [line for path in files for line in findings(path)]
    print("\n".join(found) or f"names: {len(files)} files, every word says something")
    sys.exit(bool(found))
