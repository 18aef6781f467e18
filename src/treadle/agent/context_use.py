"""What fills the window of a run's model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from treadle.agent.setup import RunSetup
from treadle.journal import PromptSizes
from treadle.messages import Thread
from treadle.models.calibration import calibration_of
from treadle.models.tokens import sizes_of
from treadle.ports.model import ModelProfile, ModelRequest, ToolSpec
from treadle.run_record import RunRecord
from treadle.tools.names import SKILL_TOOLS
from treadle.view import View

_CHARACTERS = 4
"""Of a token, in common text and in JSON."""
_NOTHING = PromptSizes()


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


class Prompted(Protocol):
    """The work whose model is told something before its history."""

    system: str
    of_skills: str
    setup: RunSetup


def prompt_sizes(work: Prompted) -> PromptSizes | None:
    """Return how long what stands around a run's history is, None for nothing."""
    reading, tools = work.setup.registry.lengths
    output, skills = work.setup.output, len(work.of_skills)
    sizes = PromptSizes(
        len(work.system) - skills, tools, skills + reading, 0 if output is None else output.length
    )
    return None if sizes == _NOTHING else sizes


def recorded_use(view: View, record: RunRecord, counted: int) -> ContextUse:
    """Return what a run's last request took, as its journal tells: `counted` tokens in all.

    What stood around the history is known by its length; it takes its share of what the messages
    leave of the count.
    """
    said = list(view.messages)
    if said and said[-1].role == "assistant":
        said.pop()  # it is the reply to the request
    history = sizes_of(ModelRequest(messages=Thread(said)))
    around = PromptSizes() if record.prompt is None else record.prompt
    lengths = (around.instructions, around.tools, around.skills, around.output)
    tokens = [length / _CHARACTERS for length in lengths]
    scale = counted / max(1.0, sum(tokens) + history.total) if counted else 1.0
    instructions, tools, skills, output = (int(each * scale) for each in tokens)
    return ContextUse(
        instructions=instructions,
        tools=tools,
        skills=skills,
        output=output,
        history=int(history.history * scale),
        media=int(history.media * scale),
    )


class Compacted(Struct, frozen=True):
    """How often old turns have left a history, and how many messages that were."""

    times: int = 0
    messages: int = 0


NOTHING_LEFT = Compacted()


def left_in(record: RunRecord) -> Compacted:
    """Return what has left the history in a run, as its journal tells."""
    return Compacted(record.compactions, record.compacted)


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
