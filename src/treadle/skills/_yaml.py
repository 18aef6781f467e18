"""Front matter in YAML: the part of it that the specification's own reader takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml as untyped

from treadle.skills.problems import Broken, Field, Problem, Value

yaml: Any = untyped  # what its stubs leave open is looked at here
TOO_DEEP = 20
"""How deep values may lie in one another."""


def read_yaml(text: str, first: int) -> tuple[dict[str, Field], list[Problem]]:
    """Return the fields of a front matter whose first line is line `first` of its file.

    Anchors are refused, since a few of them can stand for gigabytes; so are keys that stand twice,
    of which one would be lost.

    Raises:
        Broken: it is no YAML, or none of these.
    """
    try:
        problems = list(_problems(text, first))
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = first if error.problem_mark is None else first + error.problem_mark.line
        raise Broken(line, f"This is no YAML: {error.problem or error.context}.") from error
    except yaml.reader.ReaderError as error:
        line = first + text.count("\n", 0, error.position)
        raise Broken(line, f"This is no YAML: {str(error).splitlines()[0]}.") from error
    except (ValueError, OverflowError) as error:  # numbers that the package does not look at
        raise Broken(first, f"This is no YAML: {error}.") from error
    if root is None:
        return {}, problems
    if not isinstance(root, yaml.MappingNode):
        raise Broken(first, "The front matter is no list of `key: value`.")
    pairs = _pairs(root, first)
    return {key: Field(_value(node, first), line) for key, line, node in pairs}, problems


def _problems(source: str, first: int) -> Iterator[Problem]:
    """Yield what other readers may refuse.

    Raises:
        Broken: it has anchors, or values too deep in one another.
    """
    depth = 0
    events = yaml.parse(source, Loader=yaml.SafeLoader)
    for event in events:
        line = first + event.start_mark.line
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > TOO_DEEP:
            raise Broken(line, f"Values lie more than {TOO_DEEP} deep in one another.")
        if getattr(event, "anchor", None):
            raise Broken(line, "Anchors (&) and aliases (*) of YAML are not read; write it out.")
        if isinstance(event, yaml.CollectionStartEvent) and event.flow_style:
            text = "Other programs may refuse [...] and {...}; give each item a line of its own."
            yield Problem(line, text, minor=True)
        if getattr(event, "tag", None):
            yield Problem(line, "Other programs may refuse tags (!) of YAML.", minor=True)


def _pairs(node: Any, first: int) -> list[tuple[str, int, Any]]:
    found: list[tuple[str, int, Any]] = []
    seen: set[str] = set()
    pairs: list[tuple[Any, Any]] = node.value
    for key, value in pairs:
        line = first + key.start_mark.line
        name: object = key.value
        if not isinstance(name, str):
            raise Broken(line, "A key is no text.")
        if name in seen:
            raise Broken(line, f"`{name}` stands twice.")
        seen.add(name)
        found.append((name, line, value))
    return found


def _value(node: Any, first: int) -> Value:
    if isinstance(node, yaml.MappingNode):
        return {key: _value(each, first) for key, _, each in _pairs(node, first)}
    held: str | list[Any] = node.value
    return held if isinstance(held, str) else [_value(each, first) for each in held]
