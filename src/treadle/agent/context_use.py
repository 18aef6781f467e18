"""What fills the window of a run's model."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from treadle.messages import Thread
from treadle.models.calibration import calibration_of
from treadle.models.tokens import sizes_of
from treadle.ports.model import ModelProfile, ModelRequest, ToolSpec
from treadle.tools.names import SKILL_TOOLS


class ContextUse(Struct, frozen=True, kw_only=True):
    """About how many tokens a run's next request would take, by what takes them.

    `skills` are what the instructions say of skills, and the tools that read them; `output` is the
    schema of a typed answer. `window` is how many there may be, None where nobody knows.
    `compactions` is how often old turns have left the history in this run, `compacted` how many
    messages that were; the journal of a stored conversation has them still.
    """

    instructions: int = 0
    tools: int = 0
    skills: int = 0
    output: int = 0
    history: int = 0
    media: int = 0
    window: int | None = None
    compactions: int = 0
    compacted: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        parts = (self.instructions, self.tools, self.skills, self.output, self.history, self.media)
        return sum(parts)


class Compacted(Struct, frozen=True):
    """How often old turns have left a history, and how many messages that were."""

    times: int = 0
    messages: int = 0


NOTHING_LEFT = Compacted()


def context_use(
    request: ModelRequest,
    profile: ModelProfile,
    compacted: Compacted,
    *,
    skills: str = "",
    window: int | None = None,
    count: Callable[[str], int] | None = None,
) -> ContextUse:
    """Return what a request takes; `skills` is what its instructions say of skills."""
    own = [spec for spec in request.tools if spec.name in SKILL_TOOLS]
    for_skills = sizes_of(_only(skills, own), profile, count=count)
    sizes = sizes_of(request, profile, count=count)
    scale = calibration_of(profile).scale(sizes) / max(sizes.total, 1)
    return ContextUse(
        instructions=int((sizes.instructions - for_skills.instructions) * scale),
        tools=int((sizes.tools - for_skills.tools) * scale),
        skills=int((for_skills.instructions + for_skills.tools) * scale),
        output=int(sizes.output * scale),
        history=int(sizes.history * scale),
        media=int(sizes.media * scale),
        window=window or profile.window,
        compactions=compacted.times,
        compacted=compacted.messages,
    )


def _only(system: str, tools: list[ToolSpec]) -> ModelRequest:
    return ModelRequest(messages=Thread(), system=system, tools=tuple(tools))
