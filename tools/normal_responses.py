"""Responses requests in the one form that stands for all equivalent ones."""

from __future__ import annotations

from tools.recording import Json
from treadle.values import is_array, is_object


def normal(request: Json) -> Json:
    """Return a request in the one form that stands for all equivalent ones.

    Dropped are fields that are null, ``stream: false``, empty lists, instructions, descriptions
    and annotations, messages that say nothing, and the ``type`` of a message. An image's detail
    is "auto" where it is left out, a lone block of text is that text.
    """
    wire = kept(request)
    if not wire.get("stream"):
        wire.pop("stream", None)
    items: str | list[Json] = wire.get("input", [])
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    normed = [normal_item(item) for item in items]
    wire["input"] = [item for item in normed if item.keys() - {"role"}]
    wire["tools"] = [_normal_tool(tool) for tool in wire.get("tools", [])]
    for name in ("tools", "instructions"):
        if not wire.get(name):
            wire.pop(name, None)
    for name in ("reasoning", "text"):
        if name in wire:
            wire[name] = kept(wire[name])
    return wire


def kept(wire: Json) -> Json:
    """Return an object without its nulls."""
    return {name: value for name, value in wire.items() if value is not None}


def normal_item(item: Json) -> Json:
    """Return an input item in its one form."""
    wire = kept(item)
    if wire.get("type") == "message":
        del wire["type"]
    for name in ("content", "output"):
        if is_array(wire.get(name)):
            wire[name] = _normal_content(wire[name])
        if name == "content" and not wire.get(name):
            wire.pop(name, None)
    return wire


def _normal_content(blocks: list[Json]) -> object:
    bare = [kept(block) if is_object(block) else block for block in blocks]
    for block in bare:
        if not block.get("annotations"):
            block.pop("annotations", None)
        if block.get("type") == "input_image":
            block.setdefault("detail", "auto")
    lone = len(bare) == 1 and bare[0].keys() == {"type", "text"}
    return bare[0]["text"] if lone and bare[0]["type"] in ("input_text", "output_text") else bare


def _normal_tool(tool: Json) -> Json:
    wire = kept(tool)
    if wire.get("type") == "function" and not wire.get("description"):
        wire.pop("description", None)
    return wire
