"""The seam to language models, and the values that cross it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import astuple, fields, force_setattr, replace

from treadle.errors import ConfigError
from treadle.messages import Message, Thread
from treadle.usage import NOTHING, Price, Usage

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "refusal", "pause", "other"
]
"""Why a reply ended. At a pause the provider's own tools are still at work: it goes on when the
reply is sent back as it is."""
ToolChoice = Literal["auto", "none", "required"] | str
"""How the model may use tools; any other string is the name of the one tool it must call."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
PromptCache = Literal["off", "short", "long"]
Rule = Callable[[object], str]


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
    `extra_body` is merged into the request's JSON and `extra_headers` into its headers. `stop`
    may be given as one text or a list; it becomes a tuple. `prompt_cache` is how long the provider
    is to keep what the next request begins with too: minutes or hours, where it can be asked.

    Raises:
        ConfigError: a value is not of its field's type, or out of its range.
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
    prompt_cache: PromptCache | None = None
    timeout: float | None = None
    extra_body: dict[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        stop: Any = self.stop
        if isinstance(stop, str):
            force_setattr(self, "stop", (stop,))
        elif isinstance(stop, list):
            force_setattr(self, "stop", (*self.stop,) if self.stop else ())
        for index, value in enumerate(astuple(self)):
            if value is not None and (wanted := _CHECKS[index](value)):
                name = self.__struct_fields__[index]
                raise ConfigError(f"ModelSettings({name}={value!r}): give {wanted}.")

    def merged(self, other: ModelSettings | None) -> ModelSettings:
        """Return these settings with everything that `other` sets laid over them."""
        if other is None or other == DEFAULT_SETTINGS:
            return self
        if self is DEFAULT_SETTINGS:
            return other
        given = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})


_NUMBER = (int, float)


def _number(least: float, most: float, wanted: str) -> Rule:
    def check(value: object) -> str:
        if isinstance(value, _NUMBER) and not isinstance(value, bool):
            return "" if least <= value <= most else wanted
        return wanted

    return check


def _integer(least: int, wanted: str) -> Rule:
    def check(value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return "" if least <= value <= _MOST else wanted
        return wanted

    return check


def _stop(value: object) -> str:
    known: Any = value
    if isinstance(value, tuple) and all(isinstance(text, str) and text for text in known):
        return ""
    return "a text or a tuple of texts, none of them empty"


def _tool_choice(value: object) -> str:
    known = isinstance(value, str) and value
    return "" if known else "'auto', 'none', 'required' or the name of a tool"


def _parallel(value: object) -> str:
    return "" if isinstance(value, bool) else "True or False"


def _one_of(known: tuple[str, ...]) -> Rule:
    wanted = f"one of {', '.join(map(repr, known))}"
    return lambda value: "" if value in known else wanted


def _extra_body(value: object) -> str:
    wanted = "a dict of JSON values, its keys texts"
    known: Any = value
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in known):
        return wanted
    try:
        encode(known)
    except UnicodeEncodeError:
        return ""  # a lone surrogate, which providers clean away
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"{wanted} ({error})"
    return ""


def _extra_headers(value: object) -> str:
    known: Any = value
    if isinstance(value, Mapping) and all(
        isinstance(text, str) for item in known.items() for text in item
    ):
        return ""
    return "a mapping of texts to texts"


_MOST = 2**63 - 1  # an int in JSON that any server can read
_WANTED: dict[str, Rule] = {
    "temperature": _number(0, _MOST, "a number from 0 up"),
    "top_p": _number(0, 1, "a number from 0 to 1"),
    "max_output_tokens": _integer(1, "an int of at least 1"),
    "stop": _stop,
    "seed": _integer(-_MOST, "an int"),
    "frequency_penalty": _number(-_MOST, _MOST, "a number"),
    "presence_penalty": _number(-_MOST, _MOST, "a number"),
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _parallel,
    "reasoning_effort": _one_of(get_args(Effort)),
    "prompt_cache": _one_of(get_args(PromptCache)),
    "timeout": _number(5e-324, _MOST, "a number of seconds above 0"),
    "extra_body": _extra_body,
    "extra_headers": _extra_headers,
}
"""What to give for each setting; "" when the value is that already."""
_CHECKS = tuple(_WANTED[name] for name in ModelSettings.__struct_fields__)

DEFAULT_SETTINGS = ModelSettings()


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What a model can do. The loop asks here and never looks at a vendor's name.

    `native_output` says whether an `OutputSchema` is obeyed, `native_output_with_tools` whether
    that also holds while tools are offered. `window` is how many tokens a request may have,
    `max_output` how many its reply; None where nobody knows. `min_output` is the least limit of
    output tokens that its server takes. `settings` are the model's own, which
    lie under those of a request. `identity` tells apart models of one name that may answer
    otherwise: protocol, address, tools that the server runs; it holds no secret.
    """

    provider: str = "custom"
    name: str = "custom"
    native_output: bool = False
    native_output_with_tools: bool = False
    vision: bool = True
    price: Price | None = None
    window: int | None = None
    max_output: int | None = None
    min_output: int = 1
    settings: ModelSettings = DEFAULT_SETTINGS
    identity: str = ""

    def settings_for(self, request: ModelRequest) -> ModelSettings:
        """Return what holds for a request: its settings over the model's own."""
        return self.settings.merged(request.settings)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One question to a model.

    `messages` has no system message: `system` is rendered for each run. `messages.encoded` is
    where codecs keep their encoded prefix. `tools` is the same tuple object for the whole run.
    `seconds_left` is what the run's deadline leaves: no wait that is longer need begin.
    """

    messages: Thread
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = DEFAULT_SETTINGS
    output: OutputSchema | None = None
    conversation_id: str = ""
    seconds_left: float | None = None


class ModelReply(Struct, frozen=True, kw_only=True, gc=False):
    """One whole answer of a model.

    `message` is an assistant message whose tool calls carry the provider's IDs; the loop gives
    them IDs of its own. `provider_finish` is the reason in the provider's spelling. `settled` says
    that requests and cost in `usage` are right as they are, also where they are 0.
    """

    message: Message
    usage: Usage = NOTHING
    finish_reason: FinishReason = "stop"
    model: str = ""
    response_id: str | None = None
    provider_finish: str | None = None
    settled: bool = False


class TextPiece(Struct, frozen=True, gc=False):
    """More of the reply's text."""

    text: str


class ReasoningPiece(Struct, frozen=True, gc=False):
    """More of the reply's reasoning."""

    text: str


class Restart(Struct, frozen=True, gc=False):
    """Forget the pieces so far: the answer begins anew, because of `reason`."""

    reason: str


ModelDelta = TextPiece | ReasoningPiece | Restart | ModelReply
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
