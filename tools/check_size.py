"""Refuse modules, classes, functions and parameter lists that have grown too long.

Where longer is better, say why beside it: `# size: the reason` on a line of the signature,
or, for a module, alone on one of its first twenty lines.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE, CLASS, FUNCTION, PARAMETERS = 400, 250, 60, 8
ROOMS = ("src", "tests", "typing_tests", "examples", "benchmarks", "tools")
REASON = re.compile(r"# size: \S")


def findings(path: Path) -> Iterator[str]:
    """Say what is too long in one file, by file and line."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    if len(lines) > MODULE and not any(map(REASON.match, lines[:20])):
        yield f"{path}:1: module of {len(lines)} lines; split it, at most {MODULE}"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(map(REASON.search, lines[node.lineno - 1 : node.body[0].lineno])):
            continue
        place = f"{path}:{node.lineno}: {node.name}"
        most = CLASS if isinstance(node, ast.ClassDef) else FUNCTION
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > most:
            yield f"{place} has {length} lines; split it, at most {most}"
        if not isinstance(node, ast.ClassDef) and (count := parameters(node.args)) > PARAMETERS:
            yield f"{place} takes {count} parameters; group them, at most {PARAMETERS}"


def parameters(arguments: ast.arguments) -> int:
    """Count what a caller may pass; `self` and `cls` come by themselves."""
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len(named) - (bool(named) and named[0].arg in {"self", "cls"})


if __name__ == "__main__":
    files = sorted(path for room in ROOMS for path in Path(room).rglob("*.py"))
    found = [line for path in files for line in findings(path)]
    print("\n".join(found) or f"sizes: {len(files)} files, nothing too long")
    sys.exit(bool(found))
