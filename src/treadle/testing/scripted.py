"""Models without a network: one follows a script, one is a function of the request."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import ConfigError
from treadle.messages import Message, Part, Reasoning, Text, Thread, ToolCall
from treadle.ports.model import (
    FinishReason,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    ReasoningPiece,
    TextPiece,
)
from treadle.usage import Price, Usage

ONE_REQUEST = Usage(requests=1)


class Raises(Struct, frozen=True):
    """A script step that fails, after having streamed `after`."""

    error: Exception
    after: tuple[str, ...] = ()


class Chunks(Struct, frozen=True):
    """A script step that streams these pieces one by one."""

    pieces: tuple[str | Reasoning | ToolCall, ...]
    finish: FinishReason | None = None
    usage: Usage = ONE_REQUEST


Step = str | Message | ModelReply | Raises | Chunks


def reply(
    *parts: str | Part, usage: Usage = ONE_REQUEST, finish: FinishReason | None = None
) -> ModelReply:
    """Build a reply from texts and parts, with its usage."""
    message = Message("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts))
    return ModelReply(message=message, usage=usage, finish_reason=finish or _finish_of(message))


def calls(
    *requests: tuple[str, str, dict[str, Any]], text: str = "", usage: Usage = ONE_REQUEST
) -> ModelReply:
    """Build a reply that asks for tools: each request is (call ID, tool name, arguments)."""
    parts = [ToolCall.of(name, arguments, id=call_id) for call_id, name, arguments in requests]
    return reply(*([text] if text else []), *parts, usage=usage)


def calls_raw(*requests: tuple[str, str, str], usage: Usage = ONE_REQUEST) -> ModelReply:
    """Build a reply whose calls carry this very argument text, valid JSON or not."""
    return reply(*(ToolCall(call_id, name, raw) for call_id, name, raw in requests), usage=usage)


def raises(error: Exception, *after: str) -> Raises:
    """Fail with `error`, when streaming after these pieces of text."""
    return Raises(error, after)


def chunks(
    pieces: Iterable[str | Reasoning | ToolCall],
    *,
    finish: FinishReason | None = None,
    usage: Usage = ONE_REQUEST,
) -> Chunks:
    """Stream these pieces one by one; they make up the reply."""
    return Chunks(tuple(pieces), finish, usage)


class ScriptedModel:
    """A model that answers by a script, one step for each request.

    ```python
    from treadle import Agent
    from treadle.testing import ScriptedModel

    model = ScriptedModel(["Hello."])
    print(Agent("greeter", model=model).run_sync("Hi!").output)
    #> Hello.
    print(model.requests[0].messages[-1].text)
    #> Hi!
    ```

    `requests` has what it was asked, each with a copy of the messages as they were. Asked beyond
    its script, it raises `ConfigError`.
    """

    def __init__(
        self,
        script: Sequence[Step],
        *,
        name: str = "scripted",
        price: Price | None = None,
        native_output: bool = False,
        streams: bool = True,
        profile: ModelProfile | None = None,
    ) -> None:
        if isinstance(script, str) or not isinstance(script, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"script={script!r:.60}: a script is a list of steps.")
        self._script = list(script)
        self._asked = 0
        self.requests: list[ModelRequest] = []
        self.profile = profile or ModelProfile(
            provider="scripted",
            name=name,
            price=price,
            native_output=native_output,
            native_output_with_tools=native_output,
        )
        if not streams:
            self.__dict__["stream"] = None  # hides the method, as in a model that has none

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer with the next step."""
        return _reply_of(self._next(request), self.profile.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        """Answer with the next step, its text in pieces."""
        for delta in _deltas_of(self._next(request), self.profile.name):
            yield delta

    def _next(self, request: ModelRequest) -> Step:
        self.requests.append(replace(request, messages=Thread(list(request.messages))))
        if self._asked >= len(self._script):
            raise ConfigError(
                f"The script of model {self.profile.name!r} has {len(self._script)} steps "
                "and was asked for one more."
            )
        step = self._script[self._asked]
        self._asked += 1
        return step


Answer = Step | Awaitable[Step]


class FunctionModel:
    """A model whose replies are a function of the request (sync or async).

    The function returns text, a message, a `ModelReply`, or what `calls` and `raises` build.
    """

    def __init__(
        self, function: Callable[[ModelRequest], Answer], *, profile: ModelProfile | None = None
    ) -> None:
        self._function = function
        self.requests: list[ModelRequest] = []
        self.profile = profile or ModelProfile(
            provider="function", name=getattr(function, "__name__", "function")
        )

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer with what the function returns."""
        return _reply_of(await self._step(request), self.profile.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        """Answer with what the function returns, its text in pieces."""
        for delta in _deltas_of(await self._step(request), self.profile.name):
            yield delta

    async def _step(self, request: ModelRequest) -> Step:
        self.requests.append(replace(request, messages=Thread(list(request.messages))))
        answer = self._function(request)
        return await answer if inspect.isawaitable(answer) else answer


def _reply_of(step: Step, model: str) -> ModelReply:
    match step:
        case str():
            made = reply(*([step] if step else []))
        case Message():
            made = ModelReply(message=step, usage=ONE_REQUEST, finish_reason=_finish_of(step))
        case ModelReply():
            made = step
        case Chunks():
            made = _whole(step)
        case Raises():
            raise step.error
        case _:
            raise ConfigError(
                f"{step!r:.80} is no step of a script: it is text, a Message, or what reply(), "
                "calls(), chunks() or raises() build."
            )
    return made if made.model else replace(made, model=model)


def _whole(step: Chunks) -> ModelReply:
    """Join neighbouring texts, as a provider's reply has them."""
    parts: list[Part] = []
    for piece in step.pieces:
        last = parts[-1] if parts else None
        if isinstance(piece, str) and isinstance(last, Text):
            parts[-1] = Text(last.text + piece)
        else:
            parts.append(Text(piece) if isinstance(piece, str) else piece)
    message = Message("assistant", tuple(parts))
    return ModelReply(
        message=message, usage=step.usage, finish_reason=step.finish or _finish_of(message)
    )


def _deltas_of(step: Step, model: str) -> Iterator[ModelDelta]:
    """Yield the pieces of a step and then its reply, or raise its error."""
    if isinstance(step, Raises):
        yield from map(TextPiece, step.after)
    made = _reply_of(step, model)
    shown = step.pieces if isinstance(step, Chunks) else made.message.parts
    yield from filter(None, map(_piece, shown))
    yield made


def _piece(part: object) -> ModelDelta | None:
    match part:
        case str():
            return TextPiece(part)
        case Text():
            return TextPiece(part.text)
        case Reasoning():
            return ReasoningPiece(part.text)
        case _:
            return None


def _finish_of(message: Message) -> FinishReason:
    return "tool_calls" if message.tool_calls else "stop"


def last_text(request: ModelRequest) -> str:
    """Return the text of the newest message, tool results included: handy in `FunctionModel`."""
    message = request.messages[-1]
    return message.text or "".join(result.text for result in message.tool_results)


def as_json(request: ModelRequest) -> bytes:
    """Return a request as JSON, for reading in a failed test."""
    return msgspec.json.format(msgspec.json.encode(list(request.messages)))
