"""What OpenAI's two protocols have in common for a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from treadle.ports.model import ModelReply, ModelRequest, ModelSettings
from treadle.providers._client import Fold
from treadle.providers._failure import NO_HEADERS, Asked


class Encoder(Protocol):
    """Makes the bodies of requests in one protocol."""

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        ...

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body as JSON."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpenAICodec:
    """One of the protocols as a client needs it: `read` decodes a whole reply of `host`.

    `begin` returns what reads a streamed one.
    """

    encoder: Encoder
    host: str
    address: str
    read: Callable[[bytes, str, Asked, Mapping[str, str]], ModelReply]
    begin: Callable[[str, Asked, Mapping[str, str]], Fold]

    def url(self, *, stream: bool) -> str:  # noqa: ARG002 (the same for both)
        """Return the address that a request goes to."""
        return self.address

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        return self.encoder.settings(request)

    def headers(self, request: ModelRequest) -> Mapping[str, str]:  # noqa: ARG002 (none)
        """Return no headers: none are for one request only."""
        return NO_HEADERS

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body of a request."""
        return self.encoder.body(request, stream=stream)

    def decode(self, body: bytes, asked: Asked, headers: Mapping[str, str]) -> ModelReply:
        """Return what an answer in one piece says."""
        return self.read(body, self.host, asked, headers)

    def fold(self, asked: Asked, headers: Mapping[str, str]) -> Fold:
        """Return what reads one streamed answer."""
        return self.begin(self.host, asked, headers)


def key_variables(keys: tuple[str, ...], *, is_chosen: bool) -> tuple[str, ...]:
    """Return where to look for the key of a server that has `keys`.

    OPENAI_API_KEY goes where OPENAI_BASE_URL leads, but to no other known server that is chosen.
    """
    return keys if is_chosen or "OPENAI_API_KEY" in keys else (*keys, "OPENAI_API_KEY")


def account_headers(organization: str | None, project: str | None) -> dict[str, str]:
    """Return the headers that say which of OpenAI's accounts a request is for."""
    named = {"openai-organization": organization, "openai-project": project}
    return {name: value for name, value in named.items() if value}
