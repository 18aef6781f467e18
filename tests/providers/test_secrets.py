"""Keys are in no message and no repr, whatever brought them and however a server spells them."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from openai import AsyncOpenAI

from tests.servers import serve, whole
from treadle.errors import ModelError
from treadle.messages import Message, Thread
from treadle.ports.model import ModelRequest, ModelSettings
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.values.secret import spellings

KEY = 'k/live+ab cd"ef\\gh1234567890'
AT = "https://x.example/v1"
Client = OpenAI | OpenAIResponses | Anthropic | Gemini
CLIENTS: tuple[Callable[..., Client], ...] = (OpenAI, OpenAIResponses, Anthropic, Gemini)
SPELLINGS = {
    KEY,
    json.dumps(KEY)[1:-1],
    json.dumps(KEY)[1:-1].replace("/", "\\/"),
    quote(KEY),
    quote(KEY, safe=""),
    quote_plus(KEY),
    KEY.replace('"', "&quot;"),
}


class Echo:
    """A transport that answers everything with one body."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.body = body
        self.status = status
        self.headers: Mapping[str, str] = headers or {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Echo:
        """Answer with itself."""
        return self

    async def read(self) -> bytes:
        """Return the body."""
        return self.body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body at once."""
        yield self.body

    async def close(self) -> None:
        """There is no connection."""


async def said(model: Client, settings: ModelSettings, *, streamed: bool) -> str:
    """Everything that can be read of a failure and of the model."""
    request = ModelRequest(messages=Thread([Message.user("x")]), settings=settings)
    with pytest.raises(ModelError) as caught:
        await (_drain(model, request) if streamed else model.complete(request))
    error = caught.value
    trace = "".join(traceback.format_exception(error))
    return "\n".join([str(error), repr(error), trace, str(vars(error)), repr(model), str(model)])


async def _drain(model: Client, request: ModelRequest) -> None:
    async for _ in model.stream(request):
        pass


def assert_hidden(text: str) -> None:
    """None of the spellings, and no half of one."""
    for spelled in SPELLINGS:
        assert spelled not in text
    assert "k/live" not in text
    assert "1234567890" not in text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        ({"api_key": KEY}, None),
        ({"api_key": "", "query": {"api_key": KEY}}, None),
        ({"api_key": "", "query": {"sig": KEY}}, None),
        ({"api_key": "", "base_url": f"{AT}?key={quote(KEY, safe='')}"}, None),
        ({"api_key": "", "base_url": f"{AT}?access_token={quote(KEY, safe='')}"}, None),
        ({"api_key": "", "headers": {"X-Gateway-Secret": KEY}}, None),
        ({"api_key": "", "headers": {"Cookie": f"session={quote(KEY, safe='')}"}}, None),
        ({"api_key": ""}, {"Authorization": f"Bearer {KEY}"}),
        ({"api_key": ""}, {"X-Api-Key": KEY}),
    ],
)
async def test_a_key_shows_nowhere(
    client: Callable[..., Client],
    fields: dict[str, Any],
    extra: dict[str, str] | None,
    streamed: bool,
) -> None:
    """As an error's words, in a page, in what is no reply, and where a server points to."""
    location = {"location": f"https://h.example/?x=1&api_key={quote(KEY, safe='')}"}
    if client is Gemini and "?key=" in fields.get("base_url", ""):
        fields = {"base_url": fields["base_url"]}  # where that is the key, unless there is another
    bodies = [f"you sent {each}!" for each in sorted(SPELLINGS)]
    for body in (*bodies, json.dumps({"error": {"message": bodies[0]}}), ""):
        for status in (200, 401, 307):
            transport = Echo(body.encode(), status, location if status == 307 else None)
            model = client("m", transport=transport, **{"base_url": AT, **fields})
            assert_hidden(await said(model, ModelSettings(extra_headers=extra), streamed=streamed))


async def test_a_password_of_basic_authorisation_shows_nowhere() -> None:
    """As it is sent, and what it stands for."""
    pair = f"me:{KEY}"
    word = base64.b64encode(pair.encode()).decode()
    model = OpenAI(
        "m",
        base_url=AT,
        headers={"Authorization": f"Basic {word}"},
        transport=Echo(f"not {word}, not {pair}, not {KEY}".encode(), 401),
    )
    text = await said(model, ModelSettings(), streamed=False)
    assert word not in text
    assert_hidden(text)


async def test_what_an_sdk_shows_to_the_server_shows_nowhere() -> None:
    """Its key is as secret as one that is given here."""
    key = "k-of-the-sdk"
    answer = whole({"error": {"message": f"bad {key}"}}, 401)
    async with serve(answer) as server, AsyncOpenAI(api_key=key, base_url=server.url) as sdk:
        for model in (OpenAI("m", client=sdk), OpenAIResponses("m", client=sdk)):
            text = await said(model, ModelSettings(), streamed=False)
            assert "bad ***" in text
            assert key not in text


@pytest.mark.parametrize("cut", range(6, len(KEY)))
@pytest.mark.parametrize("limit", [200, 300, 1_000, 20_000])
async def test_a_key_that_is_cut_off_shows_nowhere(cut: int, limit: int) -> None:
    """Long answers are shown by their beginning."""
    body = f"{'.' * (limit - cut)}{KEY}!".encode()
    for status in (200, 401):
        model = OpenAI("m", base_url=AT, api_key=KEY, transport=Echo(body, status))
        assert "k/live" not in await said(model, ModelSettings(), streamed=False)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_repr_shows_where_and_no_query(client: Callable[..., Client]) -> None:
    """The codec's own too."""
    model = client("m", api_key=KEY, base_url=f"{AT}?api-key=abc&x=1", query={"token": KEY})
    assert repr(model).endswith("('m', base_url='https://x.example/v1')")


def test_each_spelling_is_known() -> None:
    """The longest first, so that none is left in half."""
    known = spellings([KEY])
    assert set(known) >= SPELLINGS
    assert known == sorted(known, key=len, reverse=True)
