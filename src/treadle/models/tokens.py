"""About how many tokens a request will have, told before it is sent, by what they are for.

A middle estimate, for deciding what a model is to see; `models.estimate` has one that is never too
low, for budgets. What a provider counted afterwards corrects it: see `models.calibration`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.models.token_habits import Habits, habits_of
from treadle.models.token_media import tokens_of_media
from treadle.models.token_text import TOKEN, tokens_of_text, weigh
from treadle.ports.model import PLAIN_PROFILE, ModelProfile, ModelRequest, OutputSchema, ToolSpec
from treadle.values import is_array, is_object

__all__ = ["Count", "Sizes", "sizes_of", "tokens_of_message", "tokens_of_text"]

Count = Callable[[str], int]
"""Says how many tokens a text has, for example an exact tokenizer."""

_KEY = "treadle.models.tokens"
_SEALED_LENGTH = 100
_SEALED = 200
"""Thousandths of a token for a character of a long text in what a provider wants back: encrypted,
it is longer than what it stands for."""
_DEEPEST = 100


_Weight = tuple[int, int, int]
"""Thousandths of tokens: of text and what stands around it, of media, of what a model thought."""


class Sizes(Struct, frozen=True):
    """Tokens of one request by what they are for.

    `history` has the messages and what a vendor puts around them, `media` what is not text in them,
    `output` the schema that the answer has to fit.
    """

    instructions: int = 0
    tools: int = 0
    output: int = 0
    history: int = 0
    media: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.instructions + self.tools + self.output + self.history + self.media


class _Scale(Struct, frozen=True):
    """How texts are counted, and how a vendor puts them before its models."""

    habits: Habits
    count: Count | None

    def text(self, text: str) -> int:
        """Return the thousandths of tokens of a text."""
        if self.count is None:
            return weigh(text)
        return max(self.count(text), 0) * TOKEN if text else 0


class _Counted(Struct, frozen=True):
    """What was counted of a thread's first messages, and of what came beside them."""

    scale: _Scale
    count: int = 0
    history: int = 0
    media: int = 0
    thoughts: int = 0
    tools: tuple[ToolSpec, ...] = ()
    tools_weight: int = 0
    system: str = ""
    system_weight: int = 0
    output: OutputSchema | None = None
    output_weight: int = 0


def sizes_of(
    request: ModelRequest, profile: ModelProfile = PLAIN_PROFILE, *, count: Count | None = None
) -> Sizes:
    """Return about how many tokens a request has with the model of this profile.

    What a model thought counts until the user speaks again: then vendors leave it out. `count`
    counts texts exactly; without it they are estimated. What was counted is kept in
    `Thread.encoded`, so a turn costs what is new in it.

    What only the provider knows is not in it: what its own tools find, history that it keeps
    itself, and what `extra_body` means.
    """
    thread = request.messages
    known = thread.encoded.get(_KEY)
    habits = habits_of(profile)
    if (
        not isinstance(known, _Counted)
        or known.count > len(thread)
        or known.scale.habits is not habits
        or known.scale.count is not count
    ):
        known = _Counted(_Scale(habits, count))
    known = thread.encoded[_KEY] = _counted(known, request)
    return Sizes(
        _up(known.system_weight),
        _up(known.tools_weight),
        _up(known.output_weight),
        _up(known.history + known.thoughts + habits.request * TOKEN),
        _up(known.media),
    )


def tokens_of_message(
    message: Message, profile: ModelProfile = PLAIN_PROFILE, *, count: Count | None = None
) -> int:
    """Return about how many tokens a message has, with its media and what stands around it."""
    return _up(sum(_message(message, _Scale(habits_of(profile), count))))


def _counted(known: _Counted, request: ModelRequest) -> _Counted:
    """Return what is known of the request, where it differs from what was known before."""
    thread, scale = request.messages, known.scale
    weight = (known.history, known.media, known.thoughts)
    for message in thread[known.count :]:
        if message.role == "user":
            weight = (*weight[:2], 0)
        weight = _sum((weight, _message(message, scale)))
    system, tools, output = known.system_weight, known.tools_weight, known.output_weight
    if request.system is not known.system:
        system = _system(request.system, scale)
    if request.tools is not known.tools:
        tools = _tools(request.tools, scale)
    if request.output is not known.output:
        output = _output(request.output, scale)
    beside = (request.tools, tools, request.system, system, request.output, output)
    return _Counted(scale, len(thread), *weight, *beside)


def _system(system: str, scale: _Scale) -> int:
    return scale.text(system) + scale.habits.message * TOKEN if system else 0


def _tools(tools: Iterable[ToolSpec], scale: _Scale) -> int:
    """Return the weight of tools: their JSON, less or more what a vendor makes of it."""
    habits, weight = scale.habits, 0
    for tool in tools:
        spec = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        schema = int(scale.text(_json(spec)) * habits.schema)
        weight += max(schema + habits.tool * TOKEN, schema // 2)
    return weight + habits.with_tools * TOKEN if weight else 0


def _output(output: OutputSchema | None, scale: _Scale) -> int:
    if output is None:
        return 0
    schema = scale.text(_json(output.schema))
    return int(schema * scale.habits.output) + scale.habits.with_output * TOKEN


def _message(message: Message, scale: _Scale) -> _Weight:
    around = (scale.habits.message * TOKEN, 0, 0)
    return _sum((around, *[_part(part, scale) for part in message.parts]))


def _part(part: Part, scale: _Scale) -> _Weight:
    habits = scale.habits
    match part:
        case Text():
            return scale.text(part.text), 0, 0
        case ToolCall():
            weight = scale.text(part.name) + scale.text(part.raw) + habits.call * TOKEN
            return weight, 0, _proofs(part.provider, habits)
        case ToolResult():
            around = (habits.result * TOKEN, 0, 0)
            return _sum((around, *[_part(item, scale) for item in part.parts]))
        case Reasoning():
            own = len(part.signature or "") + len(part.redacted or "")
            thought = int(scale.text(part.text) * habits.thought + own * habits.proof * TOKEN)
            return 0, 0, thought + _proofs(part.provider, habits)
        case Hosted():
            return scale.text(part.name) + _opaque(part.provider, scale), 0, 0
        case Image():
            return 0, tokens_of_media(part, habits) * TOKEN, 0
        case Audio():
            return scale.text(part.transcript or ""), tokens_of_media(part, habits) * TOKEN, 0
        case File():
            return scale.text(part.name or ""), tokens_of_media(part, habits) * TOKEN, 0
        case _:
            assert_never(part)


def _proofs(provider: dict[str, Any] | None, habits: Habits) -> int:
    """Return the weight of the opaque texts that stand for what a model thought."""
    if not provider or not habits.proof:
        return 0
    kept = [value for value in provider.values() if is_object(value)]
    length = sum(
        len(text)
        for each in kept
        for name in ("thoughtSignature", "encrypted_content")
        if isinstance(text := each.get(name), str)
    )
    return int(length * habits.proof * TOKEN)


def _opaque(value: object, scale: _Scale, depth: int = 0) -> int:
    """Return the weight of what only the provider reads; its encrypted texts are long."""
    if isinstance(value, str):
        sealed = len(value) > _SEALED_LENGTH and not any(map(str.isspace, value[:_SEALED_LENGTH]))
        return len(value) * _SEALED if sealed else scale.text(value)
    if depth > _DEEPEST:
        return TOKEN
    if is_object(value):
        return sum(
            scale.text(name) + _opaque(each, scale, depth + 1) for name, each in value.items()
        )
    if is_array(value):
        return sum(_opaque(each, scale, depth + 1) for each in value)
    return TOKEN


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a pair of surrogates
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def _sum(weights: Iterable[_Weight]) -> _Weight:
    texts, media, thoughts = zip(*weights, strict=True)
    return sum(texts), sum(media), sum(thoughts)


def _up(weight: int) -> int:
    return -(-weight // TOKEN)
