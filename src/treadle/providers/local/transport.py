"""Chat Completions answered by llama.cpp in this process, as if it were a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from treadle.errors import ModelTimeout
from treadle.ports.transport import HttpRequest
from treadle.providers._json import decode, encode
from treadle.providers.local.calls import CallBegan, CallReader, CallWent, Piece, Said
from treadle.providers.local.llama import Generation, Llama
from treadle.providers.local.request import as_it_is, constrained

Wire = dict[str, Any]


class Ready(Struct, frozen=True):
    """A loaded model.

    `constrains` says that our words and a grammar make its tool calls. Otherwise llama.cpp makes
    them, in the way that the model's own template describes.
    """

    llama: Llama
    constrains: bool


class LlamaTransport:
    """Answers streamed Chat Completions requests; the address they go to means nothing.

    `loaded` gives the model, and loads it the first time.
    """

    def __init__(self, loaded: Callable[[], Awaitable[Ready]]) -> None:
        self._loaded = loaded

    async def send(self, request: HttpRequest) -> LlamaResponse:
        """Begin a reply and return when it is known whether there is one.

        Raises:
            ModelTimeout: no chunk came in time; reading a long prompt counts as a sign of life.
            ModelFilesError: the model's file is missing or cannot be loaded.
            MissingExtra: llama.cpp is not installed.
        """
        ready = await self._loaded()
        body = decode(request.body)
        asked = constrained(body) if ready.constrains else as_it_is(body)
        generation = ready.llama.generate(encode(asked.body))
        response = LlamaResponse(generation, CallReader(asked.functions), request.timeout)
        try:
            await response.begin()
        except BaseException:
            generation.stop()
            raise
        return response


class _Delta(Struct):
    content: str | None = None


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(Struct):
    """What is looked at in a chunk."""

    choices: list[_Choice] = []
    id: str = ""
    prompt_progress: object | UnsetType = UNSET
    error: Wire | None = None


_read = msgspec.json.Decoder(_Chunk).decode


class LlamaResponse:
    """One answer: an event stream, or an error in one piece."""

    def __init__(self, generation: Generation, calls: CallReader, timeout: float | None) -> None:
        self._generation = generation
        self._calls = calls
        self._timeout = timeout
        self._first: bytes | None = None
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    async def begin(self) -> None:
        """Wait for the first chunk: it may be an error."""
        try:
            self._first = await self._next()
            error = _read(self._first).error if self._first else None
        except ValueError as refusal:  # the library refuses the request
            error = {"code": 400, "message": str(refusal)}
            self._first = encode({"error": error})
        if error is not None:
            code = error.get("code")
            self.status = code if isinstance(code, int) and 400 <= code < 600 else 500
            self.headers = {"content-type": "application/json"}

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the events as they come; an error is the one piece of its answer."""
        chunk, self._first = self._first, None
        if self.status != 200:
            yield chunk or b""
            return
        while chunk is not None:
            for event in self._events(chunk):
                yield b"data: " + event + b"\n\n"
            chunk = await self._next()
        yield b"data: [DONE]\n\n"

    async def close(self) -> None:
        """Stop the model if it still writes."""
        self._generation.stop()

    async def _next(self) -> bytes | None:
        """Return the next chunk that says something."""
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    chunk = await self._generation.next()
            except TimeoutError as error:
                raise ModelTimeout(f"The model said nothing for {self._timeout} s.") from error
            if chunk is None or _read(chunk).prompt_progress is UNSET:
                return chunk

    def _events(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events of one chunk, with calls told apart from text."""
        read = _read(chunk)
        if not self._calls.expects_calls or not read.choices:
            yield chunk
            return
        choice = read.choices[0]
        pieces = [*self._calls.feed(choice.delta.content or "")]
        if choice.finish_reason:
            pieces += self._calls.finish()
        for piece in pieces:
            yield _event(read.id, _delta(piece, read.id), None)
        if choice.finish_reason:
            calls_made = choice.finish_reason == "stop" and self._calls.has_calls
            yield _event(read.id, {}, "tool_calls" if calls_made else choice.finish_reason)


def _event(id: str, delta: Wire, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return encode({"id": id, "object": "chat.completion.chunk", "choices": [choice]})


def _delta(piece: Piece, id: str) -> Wire:
    match piece:
        case Said(text=text):
            return {"content": text}
        case CallBegan(place=place, name=name):
            call = {"index": place, "id": f"call_{id.removeprefix('chatcmpl-')}_{place}"}
            return {"tool_calls": [{**call, "type": "function", "function": {"name": name}}]}
        case CallWent(place=place, arguments=arguments):
            return {"tool_calls": [{"index": place, "function": {"arguments": arguments}}]}
