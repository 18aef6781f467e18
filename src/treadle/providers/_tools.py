"""Tools that a server runs itself, and those that `extra_body` brings: added to the agent's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from treadle.values import is_array

Wire = dict[str, Any]
_TOOLS = "tools"


def parted(extra: Mapping[str, Any], whole: Collection[str]) -> tuple[Wire, Wire, list[Wire]]:
    """Return what of `extra_body` is merged in, what replaces a whole field, and the tools added.

    A list of tools is added; an empty one takes all away, as anything else replaces them.
    """
    replaced = {name: value for name, value in extra.items() if name in whole}
    rest = {name: value for name, value in extra.items() if name not in replaced}
    added: Any = replaced.get(_TOOLS)
    if not is_array(added) or not added:
        return rest, replaced, []
    del replaced[_TOOLS]
    return rest, replaced, added


def with_added(tools: Iterable[Wire], added: Iterable[Wire]) -> list[Wire]:
    """Return tools with others behind them, none of them twice."""
    wires = list(tools)
    for tool in added:
        if tool not in wires:
            wires.append(tool)
    return wires
