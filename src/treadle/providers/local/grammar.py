"""What a model is allowed to write: a grammar in the Lark dialect of llguidance.

With tools, a reply is either a call whose arguments satisfy the tool's schema, or text that does
not begin like one, so that the first character tells which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.providers._json import encode
from treadle.providers.local.template import call_start, function_of
from treadle.values import is_object

Wire = dict[str, Any]

MOST_CALLS = 4
"""Calls in one reply; a small model that may write more repeats itself."""

_HEAD = "%llguidance {}\n"
_FORM = {
    "whitespace_flexible": False,
    "key_separator": ": ",
    "item_separator": ", ",
    "lenient": True,  # a keyword that cannot be enforced is checked later, not refused here
}
_TEXT = r"TEXT: /[^{](.|\n)*/"


def grammar_of(
    tools: Sequence[Wire],
    *,
    must_call: bool = False,
    no_calls: bool = False,
    several: bool = False,
    schema: Mapping[str, Any] | None = None,
) -> str | None:
    """Return the grammar of a reply, None when anything may be said.

    `must_call` leaves out the answer, `several` allows more than one call, `schema` is what the
    answer must follow. Without tools, `no_calls` keeps a model that has seen calls from writing
    one as its answer.
    """
    if not tools and schema is None:
        return f"{_HEAD}start: TEXT\n{_TEXT}\n" if no_calls else None
    answer = "TEXT" if schema is None else f"%json {_json(schema)}"
    if not tools:
        return f"{_HEAD}start: {answer}\n"
    more = f' ("\\n" call){{0,{MOST_CALLS - 1}}}' if several else ""
    lines = [f"start: call{more}" + ("" if must_call else f" | {answer}")]
    lines += [_TEXT] if schema is None and not must_call else []
    lines.append("call: " + "\n    | ".join(_call(tool) for tool in tools))
    return _HEAD + "\n".join(lines) + "\n"


def _call(tool: Wire) -> str:
    found = function_of(tool)
    start = encode(call_start(str(found.get("name", "")))).decode()
    return f'{start} %json {_json(_closed(found.get("parameters")))} "}}"'


def _closed(parameters: object) -> Wire:
    """Return a schema of arguments that allows no argument it does not name."""
    schema = {"type": "object", **(parameters if is_object(parameters) else {})}
    return schema if "additionalProperties" in schema else {**schema, "additionalProperties": False}


def _json(schema: Mapping[str, Any]) -> str:
    return encode({**schema, "x-guidance": _FORM}).decode()
