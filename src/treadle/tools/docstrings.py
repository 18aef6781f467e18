"""What a docstring says: the description of a function, and of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docstring_parser import DocstringStyle, ParseError, parse
from docstring_parser.common import (
    Docstring,
    DocstringExample,
    DocstringMeta,
    DocstringParam,
    DocstringRaises,
    DocstringReturns,
)
from msgspec import Struct

STYLES = (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST)

_WRAPPED_LINE = re.compile(r"(?<!\n)\n(?=[^\s>*\-\d])")
"""A line break inside a paragraph: not before a list, a quotation or an example."""


class Description(Struct, frozen=True):
    """The text about a function as a whole, and about each of its parameters."""

    text: str
    parameters: dict[str, str] = {}


def describe(docstring: str) -> Description:
    """Read a docstring (Google, NumPy or Sphinx style; already dedented) for a model's eyes.

    The sections about parameters, results and errors are taken out of the text; all others, notes
    and examples, stay in it. A docstring in no known style is all text.
    """
    found = max(_readings(docstring), key=_recognised, default=None)
    if found is None or not _recognised(found):
        return Description(docstring.strip())
    parts = [found.description or "", *map(_section, found.meta)]
    parameters = {
        name: _WRAPPED_LINE.sub(" ", meta.description)
        for meta in found.meta
        if isinstance(meta, DocstringParam) and meta.description
        for name in _parameter_names(meta)
    }
    return Description("\n\n".join(part.strip() for part in parts if part.strip()), parameters)


def _readings(docstring: str) -> Iterator[Docstring]:
    for style in STYLES:
        try:
            yield parse(docstring, style=style)
        except ParseError:
            continue


def _recognised(reading: Docstring) -> int:
    """Return how much a style explains; parameters count most, as other styles see none."""
    known = (DocstringParam, DocstringReturns, DocstringRaises)
    return sum(1 for meta in reading.meta if isinstance(meta, known))


def _parameter_names(meta: DocstringParam) -> list[str]:
    """Return the names an entry is about: `x, y : int` and `*args` are usual."""
    return [name.strip().lstrip("*") for name in meta.arg_name.split(",")]


def _section(meta: DocstringMeta) -> str:
    """Return a section as text again, "" for those a model needs not see."""
    if isinstance(meta, DocstringParam | DocstringReturns | DocstringRaises) or not meta.args:
        return ""
    snippet = meta.snippet if isinstance(meta, DocstringExample) else None
    body = "\n".join(text for text in (snippet, meta.description) if text)
    return f"{meta.args[0].replace('_', ' ').capitalize()}:\n{body}" if body else ""
