"""The seam to language models, and the values that cross it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import fields, replace

from treadle.messages import Message, Thread
from treadle.usage import NOTHING, Price, Usage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]
ToolChoice = Literal["auto", "none", "required"] | str
"""How the model may use tools; any other string is the name of the one tool it must call."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class OutputSchema(Struct, frozen=True):
    """The JSON Schema that the model's text must satisfy, where the model can guarantee that."""

    name: str
    schema: dict[str, Any]


class ModelSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to sample; None leaves the provider's default.

    `tool_choice` holds for the first call of a run and is "auto" after it, so that a forced
    tool does not force for ever. `timeout` is seconds without a sign of life from the server.
    `extra_body` is merged into the request's JSON and `extra_headers` into its headers.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    timeout: float | None = None
    extra_body: dict[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def merged(self, other: ModelSettings | None) -> ModelSettings:
        """Return these settings with everything that `other` sets laid over them."""
        if other is None or other == DEFAULT_SETTINGS:
            return self
        given = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})


DEFAULT_SETTINGS = ModelSettings()


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What a model can do. The loop asks here and never looks at a vendor's name.

    `native_output` says whether an `OutputSchema` is obeyed, `native_output_with_tools` whether
    that also holds while tools are offered.
    """

    provider: str = "custom"
    name: str = "custom"
    native_output: bool = False
    native_output_with_tools: bool = False
    vision: bool = True
    price: Price | None = None


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One question to a model.

    `messages` has no system message: `system` is rendered for each run. `messages.encoded` is
    where codecs keep their encoded prefix. `tools` is the same tuple object for the whole run.
    """

    messages: Thread
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = DEFAULT_SETTINGS
    output: OutputSchema | None = None
    conversation_id: str = ""


class ModelReply(Struct, frozen=True, kw_only=True):
    """One whole answer of a model.

    `message` is an assistant message whose tool calls carry the provider's IDs; the loop gives
    them IDs of its own. `provider_finish` is the reason in the provider's spelling.
    """

    message: Message
    usage: Usage = NOTHING
    finish_reason: FinishReason = "stop"
    model: str = ""
    response_id: str | None = None
    provider_finish: str | None = None


class TextPiece(Struct, frozen=True, gc=False):
    """More of the reply's text."""

    text: str


class ReasoningPiece(Struct, frozen=True, gc=False):
    """More of the reply's reasoning."""

    text: str


ModelDelta = TextPiece | ReasoningPiece | ModelReply
"""What a stream yields: pieces for whoever watches, and last the whole reply."""


class Model(Protocol):
    """A language model. One method is enough.

    A model may also have a `profile: ModelProfile`; without one it is taken to be plain.
    """

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece, or raise a `ModelError`."""
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can also answer piece by piece; found at run time."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        """Yield pieces and, as the last item, exactly one `ModelReply`; or raise a `ModelError`."""
        ...


PLAIN_PROFILE = ModelProfile()


def profile_of(model: object) -> ModelProfile:
    """Return the model's profile, or the plain one."""
    profile = getattr(model, "profile", None)
    return profile if isinstance(profile, ModelProfile) else PLAIN_PROFILE
