"""What a Gemini reply comes to: why it ended and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.messages import Message, Opaque, Part, ToolCall
from treadle.ports.model import FinishReason, ModelReply
from treadle.providers._counts import tokens, usage_from
from treadle.providers.gemini.objects import WireUsage
from treadle.usage import Usage
from treadle.values import clean

BLOCKED = "blocked"
"""Why a reply ended whose prompt was refused without a reason."""

_FINISHES: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "JAILBREAK"),
            *("ESCALATION", "PUP_LIMITED_DISABLED", "CONTENT_FILTER"),
        ),
        "content_filter",
    ),
}


def outcome_of(
    parts: Sequence[Part],
    *,
    finish: str | None,
    blocked: str | None,
    usage: WireUsage,
    model: str,
    response_id: str | None,
    provider: Opaque | None = None,
) -> ModelReply:
    """Return the reply that these parts make. `blocked` is why its prompt was refused."""
    reason: FinishReason = "stop"
    if blocked:
        reason = "content_filter"
    elif finish:
        reason = _FINISHES.get(finish.upper(), "other")
    if reason == "stop" and any(type(part) is ToolCall for part in parts):
        reason = "tool_calls"
    return ModelReply(
        message=Message("assistant", tuple(parts), provider),
        usage=usage_of(usage),
        finish_reason=reason,
        model=clean(model),
        response_id=clean(response_id or "") or None,
        provider_finish=clean(blocked or finish or "") or None,
    )


def usage_of(usage: WireUsage) -> Usage:
    """Return the counts of one call.

    What the provider's own tools gave the model to read is input beside the prompt, what it
    thought is output beside the answer.
    """
    prompt, fetched = tokens(usage.prompt_token_count), tokens(usage.tool_use_prompt_token_count)
    answer, thought = tokens(usage.candidates_token_count), tokens(usage.thoughts_token_count)
    return usage_from(  # it does not tell what it put into its cache
        prompt=(prompt or 0) + (fetched or 0),
        read=usage.cached_content_token_count,
        output=(answer or 0) + (thought or 0),
        reasoning=thought,
    )
