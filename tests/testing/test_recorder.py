"""Recorded traffic: what is written down, what is not, and what is answered from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loopback import serve
from tests.models.quota_contract import settled
from treadle import Agent, ConfigError, IncompleteReply, Message, Overloaded, Retry, TextDelta
from treadle.errors import ModelError
from treadle.messages import Thread
from treadle.ports.model import ModelRequest, ModelSettings
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
from treadle.testing import FakeClock, Recorder, Replayer
from treadle.testing.recordings import Secrets, exchanges_in

KEY = "sk-proj-0123456789abcdefghij"
URL = "https://api.example.com/v1/chat"


class Served:
    """A transport that answers one thing, and may break or hang."""

    def __init__(
        self,
        *pieces: bytes,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        error: Exception | None = None,
        hangs: bool = False,
        unsent: Exception | None = None,
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.sent = pieces
        self.error = error
        self.hangs = hangs
        self.unsent = unsent
        self.closed = 0

    async def send(self, request: HttpRequest) -> Served:
        """Answer with itself."""
        if self.unsent:
            raise self.unsent
        if self.hangs and not self.sent:
            await FakeClock.forever()
        return self

    async def read(self) -> bytes:
        """Return all."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        for piece in self.sent:
            yield piece
        if self.hangs:
            await FakeClock.forever()
        if self.error:
            raise self.error

    async def close(self) -> None:
        """Count it."""
        self.closed += 1


def asking(body: object, url: str = URL, **headers: str) -> HttpRequest:
    """A request with this JSON."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("POST", url, given, json.dumps(body).encode())


async def exchange(transport: Recorder | Replayer, request: HttpRequest) -> list[bytes]:
    """Send, read all pieces, and close."""
    response = await transport.send(request)
    try:
        return [piece async for piece in response.pieces()]
    finally:
        await response.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    """What is in a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_an_exchange_is_written_and_read_again(tmp_path: Path) -> None:
    """With the pieces as they came, also those that are no text."""
    path, pieces = tmp_path / "deep" / "x.jsonl", [b"data: \xc3", b"\xa4\n\n", b"\xff\x00", b""]
    served = Served(*pieces, headers={"Content-Type": "text/event-stream"})

    assert await exchange(Recorder(path, served), asking({"a": 1}, accept="*/*")) == pieces

    (line,) = lines_of(path)
    assert (line["method"], line["url"], line["body"]) == ("POST", URL, '{"a": 1}')
    assert (line["headers"], line["status"]) == ({"accept": "*/*"}, 200)
    assert line["pieces"] == [
        {"base64": "ZGF0YTogww=="},
        {"base64": "pAoK"},
        {"base64": "/wA="},
        "",
    ]
    assert served.closed == 1

    response = await Replayer(path).send(asking({"a": 1}))
    assert response.headers["CONTENT-type"] == "text/event-stream"
    assert await response.read() == b"".join(pieces)


async def test_no_secret_is_written(tmp_path: Path) -> None:
    """Wherever it stands: headers, query, bodies, and in two pieces of a body."""
    path = tmp_path / "x.jsonl"
    word = 'pa/ss"word+é'
    echo = f'you sent {KEY} and {json.dumps(word)[1:-1]}, your cookie is "tasty-cookie"'.encode()
    cut = echo.index(b"0123") + 4
    served = Served(
        echo[:cut],
        echo[cut:],
        headers={
            "Set-Cookie": "session=fresh-cookie",
            "x-ratelimit-remaining-tokens": "12",
            "x-echo": KEY,
        },
    )
    recorder = Recorder(path, served, secrets=[word])
    request = asking(
        {"system": f"My key is {KEY}, my word {word}", "other": "gsk_0123456789abcdef"},
        f"{URL}?key=AnotherSecret1&api-version=2025&word=pa%2Fss%22word%2B%C3%A9",
        authorization=f"Bearer {KEY}",
        x_goog_api_key="plain-but-secret",
        cookie="a=tasty-cookie; b=2",
        x_about="key plain-but-secret",
    )

    await exchange(recorder, request)

    text = path.read_text(encoding="utf-8")
    for hidden in (KEY, KEY[:12], "0123", "pa/ss", "word+", "AnotherSecret1", "pa%2Fss", "gsk_"):
        assert hidden not in text
    for hidden in ("plain-but-secret", "tasty-cookie", "fresh-cookie"):
        assert hidden not in text
    (line,) = lines_of(path)
    assert line["url"] == f"{URL}?key=***&api-version=2025&word=***"
    assert line["headers"]["authorization"] == "***"
    assert line["headers"]["x-about"] == "key ***"
    assert line["answer_headers"]["x-ratelimit-remaining-tokens"] == "12"
    assert json.loads(line["body"])["system"] == "My key is ***, my word ***"
    assert "".join(line["pieces"]) == 'you sent *** and ***, your cookie is "***"'

    other = asking(
        {"system": "My key is other-key-0, my word ***", "other": "***"},
        f"{URL}?key=x&api-version=2025&word=***",
        authorization="Bearer other-key-0",
    )
    await exchange(Replayer(path), other)


async def test_what_an_answer_points_to_is_not_written(tmp_path: Path) -> None:
    """The secrets in its location and its new cookie, there and wherever else they stand."""
    path = tmp_path / "x.jsonl"
    headers = {
        "Location": "https://me:hunter2pw@h.example/?api_key=only-here-1&x=1",
        "Set-Cookie": "session=fresh-cookie; Path=/; HttpOnly",
        "WWW-Authenticate": 'Bearer realm="everywhere"',
    }
    body = b'{"a": "only-here-1 fresh-cookie hunter2pw everywhere HttpOnly Bearer"}'
    served = Served(body, status=307, headers=headers)

    await exchange(Recorder(path, served), asking({}, "https://h.example/?sig=signed%2B1"))

    (line,) = lines_of(path)
    assert line["url"] == "https://h.example/?sig=***"
    assert line["answer_headers"]["location"] == "https://***@h.example/?api_key=***&x=1"
    assert line["answer_headers"]["set-cookie"] == "***"
    assert line["pieces"] == ['{"a": "*** *** *** everywhere HttpOnly Bearer"}']


async def test_headers_of_one_request_are_not_written(tmp_path: Path) -> None:
    """Nor what they hold where a server repeats it, however it is spelled."""
    path, key = tmp_path / "x.jsonl", 'other/key"0'
    echo = json.dumps({"error": {"message": f"bad {key}, other%2Fkey%220"}}).encode()
    model = OpenAI("m", api_key="", transport=Recorder(path, Served(echo, status=400)))
    settings = ModelSettings(extra_headers={"X-Api-Key": key})
    thread = Thread([Message.user("x")])

    with pytest.raises(ModelError) as caught:
        await model.complete(ModelRequest(messages=thread, settings=settings))

    assert "bad ***, ***" in str(caught.value)
    assert "other" not in path.read_text(encoding="utf-8")


@given(
    st.lists(st.binary(max_size=6), max_size=5),
    st.lists(st.sampled_from([b"secret", b"sec", b"ret", b"cretsec"]), max_size=4),
    st.integers(0, 1_000),
)
def test_no_piece_gives_a_secret_away(others: list[bytes], parts: list[bytes], seed: int) -> None:
    """However it is cut, and nothing else changes."""
    mixed = [*others, *parts]
    mixed = mixed[seed % (len(mixed) or 1) :] + mixed[: seed % (len(mixed) or 1)]
    clean = Secrets(["secret"]).pieces(mixed)

    assert len(clean) == len(mixed)
    assert b"".join(clean) == b"".join(mixed).replace(b"secret", b"***")


async def test_what_broke_breaks_again(tmp_path: Path) -> None:
    """In the middle of an answer, or before there was one."""
    path = tmp_path / "x.jsonl"
    late = Overloaded("dropped", retry_after=2.0)
    with pytest.raises(Overloaded):
        await exchange(Recorder(path, Served(b"a", b"b", error=late)), asking(1))
    refused = IncompleteReply(f"refused {KEY}", retryable=True)
    with pytest.raises(IncompleteReply):
        await exchange(Recorder(path, Served(unsent=refused)), asking(2))
    with pytest.raises(OSError, match="odd"):
        await exchange(Recorder(path, Served(unsent=OSError("odd"))), asking(3))

    with pytest.raises(Overloaded):
        await (await Recorder(path, Served(b"a", error=late)).send(asking(4))).read()

    assert [line["outcome"] for line in lines_of(path)] == ["broken"] * 4
    replayer = Replayer(path)
    response = await replayer.send(asking(1))
    pieces = response.pieces()
    assert [await anext(pieces), await anext(pieces)] == [b"a", b"b"]
    with pytest.raises(Overloaded, match="dropped") as caught:
        await anext(pieces)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 2.0)
    with pytest.raises(IncompleteReply, match=r"refused \*\*\*"):
        await replayer.send(asking(2))
    with pytest.raises(Overloaded, match="odd"):
        await replayer.send(asking(3))


async def test_what_was_left_ends_there(tmp_path: Path) -> None:
    """By a reader who has enough, or who is cancelled while reading or waiting."""
    path = tmp_path / "x.jsonl"
    response = await Recorder(path, Served(b"a", b"b")).send(asking(1))
    assert await anext(response.pieces()) == b"a"
    await response.close()

    for served in (Served(b"a", hangs=True), Served(hangs=True)):
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(exchange(Recorder(path, served), asking(2)))
            await settled()
            reading.cancel()

    assert [(line["outcome"], line.get("pieces", [])) for line in lines_of(path)] == [
        ("cancelled", ["a"]),
        ("cancelled", ["a"]),
        ("cancelled", []),
    ]
    with pytest.raises(IncompleteReply, match="left here"):
        await exchange(Replayer(path), asking(1))
    replayer = Replayer(path)
    await replayer.send(asking(2))
    with pytest.raises(IncompleteReply, match="request was left here"):
        await replayer.send(asking(2))


async def test_equal_requests_are_answered_in_order(tmp_path: Path) -> None:
    """Each recorded answer once; one more is told, and so is what was not asked for."""
    path = tmp_path / "x.jsonl"
    for answer in (b"one", b"two"):
        await exchange(Recorder(path, Served(answer)), asking({"a": 1, "b": 2}))
    await exchange(Recorder(path, Served(b"other")), asking({"a": 2}))

    replayer = Replayer(path)
    got = [await exchange(replayer, asking({"b": 2, "a": 1})) for _ in range(2)]

    assert got == [[b"one"], [b"two"]]
    assert await asyncio.to_thread(lambda: replayer.left) == 1
    with pytest.raises(ConfigError, match=r"asked 3 times .*has it 2 times"):
        await exchange(replayer, asking({"a": 1, "b": 2}))


async def test_another_request_is_shown_beside_the_nearest(tmp_path: Path) -> None:
    """As a difference that a human reads."""
    path = tmp_path / "x.jsonl"
    for text in ("Paris", "Rome"):
        body = {"model": "m", "messages": [{"role": "user", "content": f"Weather in {text}?"}]}
        await exchange(Recorder(path, Served(b"ok")), asking(body))

    body = {"messages": [{"content": "Weather in Romes?", "role": "user"}], "model": "m"}
    with pytest.raises(ConfigError, match="is not recorded in") as caught:
        await Replayer(path).send(asking(body))

    assert str(caught.value).splitlines()[1:] == [
        "--- recorded",
        "+++ asked",
        "@@ -3,5 +3,5 @@",
        '   "messages": [',
        "     {",
        '-      "content": "Weather in Rome?",',
        '+      "content": "Weather in Romes?",',
        '       "role": "user"',
        "     }",
    ]
    long = asking({"content": "word\n" * 1_000})
    with pytest.raises(ConfigError, match="lines more"):
        await Replayer(path).send(long)


async def test_no_recording(tmp_path: Path) -> None:
    """None at all, an empty one, or something else."""
    path = tmp_path / "x.jsonl"
    with pytest.raises(ConfigError, match=r"no recording at .*transport=Recorder\(path\)"):
        await Replayer(path).send(asking(1))
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="Nothing is"):
        await Replayer(path).send(asking(1))
    path.write_bytes(b'\n{"method": "POST"}\n')
    with pytest.raises(ConfigError, match="line 2 is no recorded exchange"):
        await Replayer(path).send(asking(1))
    newer: dict[str, object] = {"version": 2, "method": "POST", "url": URL, "headers": {}}
    path.write_text(json.dumps({**newer, "body": ""}))
    with pytest.raises(ConfigError, match="line 1 was recorded by a newer version"):
        await Replayer(path).send(asking(1))


async def test_a_run_is_recorded_and_replayed(tmp_path: Path) -> None:
    """Against a real server, streamed and whole, without a key the second time."""
    path = tmp_path / "x.jsonl"
    with serve(["Hello.", "Bye."], "test") as server:
        url = server.url
        model = OpenAI("m", base_url=url, api_key=KEY, transport=Recorder(path))
        streamed = await text_of(Agent("a", model))
        whole = (await Agent("a", model).run("x again")).output

    model = OpenAI("m", base_url=url, api_key="", transport=Replayer(path))
    assert await text_of(Agent("a", model)) == streamed == "Hello."
    assert (await Agent("a", model).run("x again")).output == whole == "Bye."
    assert KEY not in path.read_text()
    assert [each.outcome for each in exchanges_in(path.read_bytes())] == ["whole", "whole"]


async def test_a_failure_and_its_retry_are_replayed(tmp_path: Path) -> None:
    """The same request has two answers."""
    path = tmp_path / "x.jsonl"
    busy = Served(b'{"error": {"message": "busy"}}', status=503, headers={"retry-after": "7"})
    fine = Served(
        b'{"choices": [{"message": {"role": "assistant", "content": "hi"}, '
        b'"finish_reason": "stop"}]}',
        headers={"content-type": "application/json"},
    )
    for served in (busy, fine):
        model = OpenAI("m", base_url="http://localhost:1/v1", transport=Recorder(path, served))
        try:
            await Agent("a", model, retry=Retry(attempts=1)).run("x")
        except Overloaded:
            assert served is busy

    clock = FakeClock()
    replayed = OpenAI("m", base_url="http://localhost:1/v1", transport=Replayer(path))
    agent = Agent("a", replayed, retry=Retry(jitter=0, clock=clock))

    assert (await agent.run("x")).output == "hi"
    assert clock.sleeps == [7.0]


async def text_of(agent: Agent[None, str]) -> str:
    """The streamed answer to x."""
    return "".join(
        [event.text async for event in agent.stream("x") if isinstance(event, TextDelta)]
    )
