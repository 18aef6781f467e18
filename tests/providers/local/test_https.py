"""Models over HTTP: resumed by range, given up on when they are not what they should be."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.providers.local.made_up import CONTENT, FakeSource, Heard, tiny
from treadle.errors import ModelFilesError
from treadle.providers.local.https import HttpsSource
from treadle.providers.local.weights import fetch

QUICK = HttpsSource(patience=1.0)


class Shelf:
    """What a server does: the status, the content, and where the first answers break off."""

    def __init__(
        self,
        *,
        content: bytes = CONTENT,
        status: int = 200,
        breaks: list[int] | None = None,
        ranges: bool = True,
    ) -> None:
        self.content = content
        self.status = status
        self.breaks = breaks or []
        self.ranges = ranges
        self.asked: list[str | None] = []
        self.url = ""


@contextmanager
def serving(shelf: Shelf) -> Generator[Shelf]:
    """Serve on this machine until the end of the block."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            shelf.asked.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            start = start if shelf.ranges else 0
            body, size = shelf.content[start:], len(shelf.content)
            self.send_response(206 if start and shelf.status == 200 else shelf.status)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: shelf.breaks.pop(0)] if shelf.breaks else body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    shelf.url = f"http://127.0.0.1:{server.server_port}/tiny.gguf"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield shelf
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_is_read_from_its_address(tmp_path: Path) -> None:
    """One request brings it."""
    with serving(Shelf()) as shelf:
        path = fetch(tiny(url=shelf.url), tmp_path, [QUICK], Heard())

    assert path.read_bytes() == CONTENT
    assert shelf.asked == [None]


def test_a_broken_connection_is_taken_up_at_once(tmp_path: Path) -> None:
    """Every request asks for what is still missing."""
    with serving(Shelf(breaks=[100_000, 50_000])) as shelf:
        path = fetch(tiny(url=shelf.url), tmp_path, [QUICK], Heard())

    assert path.read_bytes() == CONTENT
    assert shelf.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_pull_asks_for_the_rest(tmp_path: Path) -> None:
    """What an earlier process left is not fetched again."""
    (tmp_path / "tiny.gguf.part").write_bytes(CONTENT[:300_000])
    with serving(Shelf()) as shelf:
        path = fetch(tiny(url=shelf.url), tmp_path, [QUICK], Heard())

    assert path.read_bytes() == CONTENT
    assert shelf.asked == ["bytes=300000-"]


def test_a_server_without_ranges_starts_again(tmp_path: Path) -> None:
    """Its whole file replaces what was there."""
    (tmp_path / "tiny.gguf.part").write_bytes(CONTENT[:300_000])
    with serving(Shelf(ranges=False)) as shelf:
        path = fetch(tiny(url=shelf.url), tmp_path, [QUICK], Heard())

    assert path.read_bytes() == CONTENT


def test_a_connection_that_brings_nothing_is_given_up(tmp_path: Path) -> None:
    """It is tried a few times in a row, and what came before is kept."""
    with (
        serving(Shelf(breaks=[100_000, 0, 0, 0, 0])) as shelf,
        pytest.raises(ModelFilesError, match="closed early"),
    ):
        fetch(tiny(url=shelf.url), tmp_path, [QUICK], Heard())

    assert len(shelf.asked) == 4
    assert (tmp_path / "tiny.gguf.part").stat().st_size == 100_000


@pytest.mark.parametrize(
    ("shelf", "said"),
    [
        (Shelf(status=404), "HTTP 404"),
        (Shelf(status=503), "HTTP 503"),
        (Shelf(content=b"<html>please log in</html>"), "another file is there, of 26 bytes"),
    ],
)
def test_what_is_not_the_file_leaves_the_field_to_the_next_source(
    tmp_path: Path, shelf: Shelf, said: str
) -> None:
    """A missing file, a failing server and a login page are no reason to stop, nor to wait."""
    with serving(shelf):
        model = tiny(url=shelf.url)
        with pytest.raises(ModelFilesError, match=said):
            fetch(model, tmp_path, [QUICK], Heard())
        assert fetch(model, tmp_path, [QUICK, FakeSource()], Heard()).read_bytes() == CONTENT

    assert len(shelf.asked) == 2


def test_a_host_that_cannot_be_reached_is_given_up_quickly(tmp_path: Path) -> None:
    """Nothing listens there: the next source gets its turn after one attempt."""
    with pytest.raises(ModelFilesError, match=r"127\.0\.0\.1:9/none: .*refused"):
        fetch(tiny(), tmp_path, [QUICK], Heard())


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """Patience ends, also while a name is looked up."""
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # never answers
    try:
        model = tiny(url=f"http://127.0.0.1:{silent.server_port}/tiny.gguf")
        with pytest.raises(ModelFilesError, match=r"timed out|no answer within"):
            fetch(model, tmp_path, [HttpsSource(patience=0.1)], Heard())
    finally:
        silent.server_close()
