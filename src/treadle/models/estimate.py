"""About how many tokens a request has."""

from __future__ import annotations

import msgspec

from treadle.messages import Text, ToolCall, ToolResult
from treadle.ports.model import ModelRequest

BYTES_PER_TOKEN = 3
"""A low figure on purpose: an estimate that is too high only stops a run a little early."""
MEDIA_TOKENS = 1_600


def estimate_input(request: ModelRequest) -> int:
    """Return about how many tokens a request has, never too few for common text."""
    size = len(request.system.encode())
    size += sum(len(msgspec.json.encode(spec)) for spec in request.tools)
    media = 0
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text():
                    size += len(part.text.encode())
                case ToolCall():
                    size += len(part.raw.encode()) + len(part.name)
                case ToolResult():
                    size += len(part.text.encode())
                    media += sum(type(item) is not Text for item in part.parts)
                case _:
                    media += 1
        size += 4 * BYTES_PER_TOKEN  # each message's frame
    return size // BYTES_PER_TOKEN + media * MEDIA_TOKENS
