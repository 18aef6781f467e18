"""Reasoning that arrives in pieces, in any of the places where servers put it."""

from __future__ import annotations

from typing import Any

from treadle.providers.openai.chat_objects import WireMessage
from treadle.providers.openai.chat_reply import details_text


class ThoughtFold:
    """Collects reasoning, and knows the place it came in so that it can go back there.

    That is a field of the message, OpenRouter's list of details, or Mistral's blocks in the
    content ("block").
    """

    __slots__ = ("_details", "_pieces", "_place")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._place = ""
        self._details: dict[str, dict[str, Any]] = {}

    def add(self, text: str, place: str) -> None:
        """Take a piece that came in this place."""
        self._pieces.append(text)
        self._place = place

    def add_details(self, delta: WireMessage) -> str:
        """Merge pieces of details, and return their words unless a field beside repeats them."""
        details = delta.reasoning_details or []
        for detail in details:
            key = f"{detail.get('type')} {detail.get('index')}"
            known = self._details.get(key, {})
            self._details[key] = continued(known, detail, ("text", "summary"))
        return "" if delta.reasoning or delta.reasoning_content else details_text(details)

    def fill(self, message: WireMessage) -> None:
        """Put what was collected into its place of the whole message."""
        text = "".join(self._pieces)
        if self._place == "block":
            block = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            message.content = [block, {"type": "text", "text": message.content}]
        elif self._place == "reasoning":
            message.reasoning = text
        elif self._place == "reasoning_content":
            message.reasoning_content = text
        message.reasoning_details = list(self._details.values()) or None


def continued(
    known: dict[str, Any], piece: dict[str, Any], growing: tuple[str, ...]
) -> dict[str, Any]:
    """Return an object with a further piece of it: some fields grow, the others are replaced."""
    merged = dict(known)
    for name, value in piece.items():
        before = merged.get(name)
        if name in growing and isinstance(before, str) and isinstance(value, str):
            merged[name] = before + value
        elif value or name not in merged:
            merged[name] = value
    return merged
