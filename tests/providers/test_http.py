"""The transport, against servers on this machine."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Answer, free_port, serve, stream, whole
from treadle.errors import BadReply, IncompleteReply, ModelError, ModelTimeout, Overloaded
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers import _exchange, _http
from treadle.providers._http import HttpTransport


def post(url: str, body: bytes = b"{}", timeout: float | None = None) -> HttpRequest:
    """Return a request as clients send it."""
    return HttpRequest("POST", url, {"content-type": "application/json"}, body, timeout)


async def ask(transport: HttpTransport, url: str, *, patience: float | None = None) -> bytes:
    """Send, read the whole body, close."""
    response = await transport.send(post(url, timeout=patience))
    try:
        return await response.read()
    finally:
        await response.close()


async def test_a_request_arrives_as_it_was_given() -> None:
    """Path, query, headers and body are sent unchanged, and no cookie or library name is added."""
    async with serve(whole({"ok": True})) as server:
        sent = HttpRequest("POST", f"{server.url}/x%2Fy?a=b%20c", {"user-agent": "t"}, b'{"a":1}')
        response = await HttpTransport().send(sent)
        assert (response.status, await response.read()) == (200, b'{"ok": true}')
        assert response.headers["CONTENT-TYPE"] == "application/json"
    received = server.requests[0]
    assert received.path == "/v1/x%2Fy?a=b%20c"
    assert received.body == b'{"a":1}'
    assert received.headers["user-agent"] == "t"
    assert "cookie" not in received.headers


async def test_connections_are_pooled_and_cookies_forgotten() -> None:
    """Requests one after another share a connection; nothing is kept between them."""
    answer = whole({}, headers={"Set-Cookie": "a=b"})
    async with serve(answer) as server:
        transport = HttpTransport()
        for _ in range(3):
            await ask(transport, server.url)
        assert server.connections == 1
        assert all("cookie" not in request.headers for request in server.requests)


async def test_pieces_come_as_the_network_gives_them() -> None:
    """A piece is there before the next one is sent."""
    async with serve(Answer(pieces=(b"one", b"two", b"three"))) as server:
        response = await HttpTransport().send(post(server.url))
        pieces = [piece async for piece in response.pieces()]
        await response.close()
        assert pieces == [b"one", b"two", b"three"]


async def test_a_response_left_early_drops_its_connection() -> None:
    """Closing before the end tells the server to stop."""
    async with serve(Answer(pieces=(b"one",), end="hang")) as server:
        response = await HttpTransport().send(post(server.url))
        assert await anext(aiter(response.pieces())) == b"one"
        await response.close()
        await server.wait_closed_by_client()


async def test_more_than_a_hundred_requests_run_at_once() -> None:
    """No limit of the pool holds back the runs of a busy process."""
    async with serve(Answer(end="hang")) as server:
        transport = HttpTransport()
        async with asyncio.timeout(10):
            heads = [await transport.send(post(server.url)) for _ in range(150)]
            for head in heads:
                await head.close()
        assert server.connections == 150


async def test_an_unreachable_server_is_overloaded_and_named() -> None:
    """Nobody listens: retryable, with the address and what to look at."""
    port = free_port()
    with pytest.raises(
        Overloaded, match=rf"127\.0\.0\.1:{port}: connection refused\. Is base_url"
    ) as caught:
        await ask(HttpTransport(), f"http://127.0.0.1:{port}/v1")
    assert caught.value.retryable


async def test_an_unknown_host_is_overloaded_and_named() -> None:
    """A name that no one has."""
    with pytest.raises(Overloaded, match=r"nobody\.invalid"):
        await ask(HttpTransport(), "http://nobody.invalid/v1")


async def test_a_server_that_is_no_web_server_is_a_bad_reply() -> None:
    """Something else listens on that port."""
    async with serve(Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n", end="close")) as server:
        with pytest.raises(BadReply, match="not HTTP"):
            await ask(HttpTransport(), server.url)


async def test_a_connection_dropped_before_the_answer_is_overloaded() -> None:
    """The server took the request and hung up."""
    for end in ("close", "reset"):
        async with serve(Answer(raw=b"", end=end)) as server:
            with pytest.raises(Overloaded, match="dropped the connection") as caught:
                await ask(HttpTransport(), server.url)
            assert caught.value.retryable


async def test_a_silent_server_times_out() -> None:
    """No byte for `timeout` seconds, before the answer or in the middle of it."""
    async with serve(Answer(raw=b"", end="hang")) as server:
        with pytest.raises(ModelTimeout, match=r"0\.02 s") as caught:
            await ask(HttpTransport(), server.url, patience=0.02)
        assert caught.value.retryable
    async with serve(Answer(pieces=(b"one",), end="hang")) as server:
        with pytest.raises(ModelTimeout, match="in the middle"):
            await ask(HttpTransport(), server.url, patience=0.02)


async def test_signs_of_life_put_the_timeout_off() -> None:
    """BS-21: comments that keep a connection alive count; only silence times out."""
    beats = Answer(pieces=(b":\n",) * 60)
    async with serve(beats) as server:
        body = await ask(HttpTransport(), server.url, patience=0.03)  # 60 beats take longer
    assert body == b":\n" * 60


async def test_only_the_time_spent_waiting_counts() -> None:
    """Piece by piece, too: many short waits are none too long, nor is a reader that takes long."""
    async with serve(Answer(pieces=(b":\n",) * 60)) as server:
        response = await HttpTransport().send(post(server.url, timeout=0.02))
        pieces = response.pieces()
        await anext(pieces)
        await asyncio.sleep(0.03)  # the reader is busy
        rest = [piece async for piece in pieces]
        await response.close()
        assert b"".join(rest) == b":\n" * 59
    async with serve(Answer(pieces=(b"one",), end="hang")) as server:
        response = await HttpTransport().send(post(server.url, timeout=0.02))
        pieces = response.pieces()
        assert await anext(pieces) == b"one"
        with pytest.raises(ModelTimeout, match="in the middle"):
            await anext(pieces)
        await response.close()


async def test_what_is_kept_for_a_server_is_bounded() -> None:
    """Addresses and timeouts of all kinds do not pile up."""
    async with serve(whole({})) as server:
        transport = HttpTransport()
        for number in range(110):
            await ask(transport, f"{server.url}?{number}", patience=5 + number)
        assert [request.path for request in server.requests][-1] == "/v1?109"
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(pieces=(b"one",), end="close"),
        Answer(pieces=(b"one",), end="reset"),
        Answer(pieces=(b"one",), framing="length", length=10, end="close"),
        Answer(pieces=(b"one",), framing="length", length=10, end="reset"),
    ],
)
async def test_a_body_that_breaks_off_is_incomplete(answer: Answer) -> None:
    """Whole or in pieces: the end that HTTP announced never came."""
    async with serve(answer) as server:
        with pytest.raises(
            IncompleteReply, match=r"in the middle of the reply: .*Try again"
        ) as caught:
            await ask(HttpTransport(), server.url)
        assert "Error" not in str(caught.value)
        assert caught.value.retryable
        response = await HttpTransport().send(post(server.url))
        with pytest.raises(IncompleteReply):
            async for _ in response.pieces():
                pass
        await response.close()


async def test_a_request_that_cannot_be_sent_says_so() -> None:
    """A line break in a header would be another header."""
    async with serve(whole({})) as server:
        sent = HttpRequest("POST", server.url, {"x": "a\nb"}, b"")
        with pytest.raises(ModelError, match="cannot be sent") as caught:
            await HttpTransport().send(sent)
        assert not caught.value.retryable
        assert not server.requests


async def test_redirects_are_not_followed() -> None:
    """The key would go to whoever the answer names."""
    answer = Answer(status=307, headers={"Location": "http://127.0.0.1:1/"}, framing="length")
    async with serve(answer) as server:
        response = await HttpTransport().send(post(server.url))
        await response.close()
        assert response.status == 307


async def test_a_cancelled_request_drops_its_connection() -> None:
    """Cancelling while the server thinks reaches the socket."""
    async with serve(Answer(raw=b"", end="hang")) as server:
        sending = asyncio.ensure_future(ask(HttpTransport(), server.url))
        await server.wait_asked()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.wait_closed_by_client()


async def test_credentials_in_an_address_are_sent_as_basic_authorization() -> None:
    """They never stand in the request line."""
    async with serve(whole({})) as server:
        await ask(HttpTransport(), server.url.replace("://", "://al%40ice:s3cret@"))
    received = server.requests[0]
    assert received.headers["authorization"] == "Basic YWxAaWNlOnMzY3JldA=="
    assert received.path == "/v1"


async def test_hints_before_the_answer_are_passed_over() -> None:
    """A 103 is no answer; the one that follows is."""
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    async with serve(Answer(raw=hint + body)) as server:
        assert await ask(HttpTransport(), server.url) == b"{}"


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "http:///x"])
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ModelError, match="cannot be sent"):
        await ask(HttpTransport(), address)


async def test_one_late_server_does_not_end_the_others() -> None:
    """One timer watches over all exchanges, each with its own patience."""
    transport = HttpTransport()
    async with serve(Answer(raw=b"", end="hang")) as silent, serve(whole({})) as good:
        waits = [transport.send(post(silent.url, timeout=t)) for t in (0.3, 0.02, 0.1)]
        ends: list[float] = []
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()

        async def wait_for(sending: Coroutine[Any, Any, HttpResponse]) -> None:
            with pytest.raises(ModelTimeout):
                await sending
            ends.append(loop.time() - began)

        async with asyncio.TaskGroup() as group:
            for sending in waits:
                group.create_task(wait_for(sending))
            assert await ask(transport, good.url, patience=0.02) == b"{}"
        assert ends == sorted(ends)
        assert 0.02 <= ends[0] < ends[1]
        assert ends[2] >= 0.3


async def through_a_session(monkeypatch: pytest.MonkeyPatch) -> HttpTransport:
    """Return a transport that takes aiohttp's own session, as for a version not yet tried."""
    monkeypatch.setattr(_exchange, "TRIED", ())
    _http.POOLS.pop(asyncio.get_running_loop(), None)
    return HttpTransport()


async def test_a_version_not_yet_tried_goes_through_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What aiohttp documents does all the same, only slower."""
    transport = await through_a_session(monkeypatch)
    async with serve(Answer(pieces=(b"one", b"two"))) as server:
        response = await transport.send(post(server.url))
        assert [piece async for piece in response.pieces()] == [b"one", b"two"]
        await response.close()
        assert await ask(transport, server.url) == b"onetwo"
        assert server.connections == 1
    async with serve(Answer(pieces=(b"one",), end="close")) as server:
        with pytest.raises(IncompleteReply, match="in the middle of the reply"):
            await ask(transport, server.url)
        response = await transport.send(post(server.url))
        with pytest.raises(IncompleteReply):
            async for _ in response.pieces():
                pass
        await response.close()
    async with serve(Answer(raw=b"", end="hang")) as server:
        with pytest.raises(ModelTimeout, match=r"0\.02 s"):
            await ask(transport, server.url, patience=0.02)
    async with serve(Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n", end="close")) as server:
        with pytest.raises(BadReply, match="not HTTP"):
            await ask(transport, server.url)


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy is asked for the whole address, and answers."""
    async with serve(whole({"from": "proxy"})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        _http.POOLS.pop(asyncio.get_running_loop(), None)
        assert await ask(HttpTransport(), "http://model.invalid/v1") == b'{"from": "proxy"}'
        assert proxy.requests[0].path == "http://model.invalid/v1"


def test_each_event_loop_has_its_own_pool() -> None:
    """BS-67: one transport in three loops one after another, with nothing left open."""
    transport = HttpTransport()

    async def exchange() -> int:
        async with serve(stream(b"data: 1\n\n")) as server:
            for _ in range(2):
                await ask(transport, server.url)
            return server.connections

    assert [asyncio.run(exchange()) for _ in range(3)] == [1, 1, 1]
    gc.collect()  # what was not closed would warn now, and warnings are errors


def test_a_loop_that_ended_is_not_kept() -> None:
    """Its pool goes with it."""
    port = free_port()

    async def fail() -> None:
        with pytest.raises(Overloaded):
            await ask(HttpTransport(), f"http://127.0.0.1:{port}/")

    with asyncio.Runner() as runner:
        runner.run(fail())
        loop = weakref.ref(runner.get_loop())
    gc.collect()
    assert loop() is None


def test_loops_in_many_threads_do_not_meet() -> None:
    """BS-67: eight threads, each with loops of its own, share one transport."""
    transport = HttpTransport()

    async def exchange() -> bytes:
        async with serve(whole({})) as server:
            return await ask(transport, server.url)

    assert asyncio.run(exchange()) == b"{}"  # loads aiohttp: threads would wait for each other
    with ThreadPoolExecutor(8) as threads:
        bodies = [threads.submit(asyncio.run, exchange()) for _ in range(24)]
        assert {body.result() for body in bodies} == {b"{}"}
    gc.collect()


PROGRAM = """
import asyncio, sys
from tests.servers import serve, stream
from treadle.ports.transport import HttpRequest
from treadle.providers._http import HTTP

assert "aiohttp" not in sys.modules

async def main():
    async with serve(stream(b"data: 1\\n\\n")) as server:
        for early in (True, False):
            response = await HTTP.send(HttpRequest("POST", server.url, {}, b"{}"))
            if not early:
                await response.read()
                await response.close()

for _ in range(3):
    asyncio.run(main())
"""


def test_a_process_ends_without_a_word() -> None:
    """BS-67: with every warning an error, three loops and a response left unread end cleanly."""
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
