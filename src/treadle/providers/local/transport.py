"""Chat Completions answered by llama.cpp in this process, as if it were a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from treadle.errors import ModelTimeout
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers._json import decode, encode, is_array, is_object
from treadle.providers.local.calls import CallBegan, CallReader, CallWent, Piece, Said
from treadle.providers.local.grammar import grammar_of
from treadle.providers.local.llama import Generation, Llama
from treadle.providers.local.template import in_words

Wire = dict[str, Any]

_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "response_format")


class Ready(Struct, frozen=True):
    """A loaded model. `constrained` says that our words and a grammar make its tool calls.

    Otherwise they are made by llama.cpp, in the way the model's own template describes.
    """

    llama: Llama
    constrained: bool


class Loader(Protocol):
    """Gives the model to answer with, loading it the first time."""

    async def __call__(self) -> Ready:
        """Load, or return what is loaded."""
        ...


class LlamaTransport:
    """Answers streamed Chat Completions requests; the address they go to means nothing."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Begin a reply and return when its first chunk is there.

        Raises:
            ModelTimeout: no chunk came in time; reading a long prompt counts as a sign of life.
            ModelFilesError: the model's file is missing or cannot be loaded.
            MissingExtra: llama.cpp is not installed.
        """
        ready = await self._loader()
        body = decode(request.body)
        names = _offered(body) if ready.constrained else []
        generation = ready.llama.generate(encode(_asked(body, ready)))
        reply = _Reply(generation, CallReader(names), request.timeout)
        try:
            await reply.begin()
        except BaseException:
            generation.stop()
            raise
        return reply


class _Delta(Struct):
    content: str | None = None


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(Struct):
    """What is looked at in a chunk of llama.cpp."""

    choices: list[_Choice] = msgspec.field(default_factory=list[_Choice])
    id: str = ""
    prompt_progress: object | UnsetType = UNSET
    error: Wire | None = None


_read_chunk = msgspec.json.Decoder(_Chunk).decode


class _Reply:
    """One answer: an event stream, or an error in one piece."""

    def __init__(self, generation: Generation, calls: CallReader, timeout: float | None) -> None:
        self._generation = generation
        self._calls = calls
        self._timeout = timeout
        self._first: bytes | None = None
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    async def begin(self) -> None:
        """Wait for the first chunk: it tells whether there is an answer."""
        self._first = await self._next()
        error = _read_chunk(self._first).error if self._first else None
        if error is not None:
            code = error.get("code")
            self.status = code if isinstance(code, int) and 400 <= code < 600 else 500
            self.headers = {"content-type": "application/json"}

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
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
                raise ModelTimeout(
                    f"The local model said nothing for {self._timeout} s."
                ) from error
            except ValueError as error:  # the library refuses the request
                return encode({"error": {"code": 400, "message": str(error)}})
            if chunk is None or _read_chunk(chunk).prompt_progress is UNSET:
                return chunk

    def _events(self, chunk: bytes) -> Iterator[bytes]:
        """Return the events of one chunk, with the calls in it told apart from text."""
        read = _read_chunk(chunk)
        choice = read.choices[0] if read.choices else None
        if choice is None:
            yield chunk
            return
        pieces = list(self._calls.feed(choice.delta.content or ""))
        if choice.finish_reason:
            pieces += self._calls.finish()
        if [piece for piece in pieces if not isinstance(piece, Said)] or self._calls.has_calls:
            ...
        yield chunk


def _offered(body: Wire) -> list[str]:
    return []
