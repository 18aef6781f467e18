"""An MCP server over HTTP, written by hand: it notes what it is sent, and fails when it is told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Rogue:
    """What the server has seen, and how it behaves.

    `status` is what calls are answered with; `sessions` are those that it knows; `token` is what it
    wants; `elsewhere` is where it sends everybody. `released` lets calls of `hang` end. Calls have
    `body` as their answer, or their own headers when it `repeats`, or none when it `cuts`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.status = 200
        self.sessions: set[str] = set()
        self.token = ""
        self.elsewhere = ""
        self.released = threading.Event()
        self.body = b""
        self.packing = ""
        self.repeats = self.cuts = False

    def of(self, method: str) -> list[dict[str, str]]:
        """The headers of all requests of one method."""
        return [headers for found, headers in self.seen if found == method]

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a JSON-RPC message."""
        match message.get("method"):
            case "initialize":
                return {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rogue", "version": "1"},
                }
            case "tools/list":
                names = ("echo", "hang")
                return {
                    "tools": [{"name": each, "inputSchema": {"type": "object"}} for each in names]
                }
            case "tools/call":
                if message["params"]["name"] == "hang":
                    self.released.wait(30)
                said = json.dumps(message["params"].get("arguments"))
                return {"content": [{"type": "text", "text": said}]}
            case _:
                return None


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"
    rogue: Rogue
    open: set[socket.socket]

    def setup(self) -> None:
        """Remember the connection, so that it can be cut."""
        super().setup()
        self.open.add(self.connection)

    def do_POST(self) -> None:
        """Answer a message."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, rogue = str(message.get("method")), self.rogue
        headers = {name.lower(): value for name, value in self.headers.items()}
        rogue.seen.append((method, headers))
        if rogue.elsewhere:
            self.send(307, None, {"Location": rogue.elsewhere})
        elif rogue.token and headers.get("authorization") != f"Bearer {rogue.token}":
            self.send(401, None, {"WWW-Authenticate": "Bearer"})
        elif method == "initialize":
            session = f"s{len(rogue.sessions) + 1}"
            rogue.sessions.add(session)
            self.reply(message, {"Mcp-Session-Id": session})
        elif headers.get("mcp-session-id", "s1") not in rogue.sessions:
            self.send(404, None, {})
        elif method == "tools/call" and rogue.cuts:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif method == "tools/call" and rogue.body:
            self.send(200, rogue.body, {"Content-Encoding": rogue.packing} if rogue.packing else {})
        elif method == "tools/call" and rogue.repeats:
            error = {"code": 1, "message": f"I was sent {headers}"}
            self.send(200, {"jsonrpc": "2.0", "id": message["id"], "error": error}, {})
        elif method == "tools/call" and rogue.status != 200:
            self.send(rogue.status, None, {})
        else:
            self.reply(message, {})

    def do_GET(self) -> None:
        """There is no stream."""
        self.send(405, None, {})

    def do_DELETE(self) -> None:
        """End a session."""
        self.send(200, None, {})

    def reply(self, message: dict[str, Any], headers: dict[str, str]) -> None:
        """Send a result, or that there is no such method."""
        if "id" not in message:
            self.send(202, None, headers)
            return
        found = self.rogue.answer(message)
        missing = {"code": -32601, "message": "Method not found"}
        said = {"result": found} if found is not None else {"error": missing}
        self.send(200, {"jsonrpc": "2.0", "id": message["id"], **said}, headers)

    def send(self, status: int, value: Any, headers: dict[str, str]) -> None:
        """Send an answer."""
        whole = value if isinstance(value, bytes) else json.dumps(value).encode()
        body = b"" if value is None else whole
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        with suppress(OSError):  # whoever asked may have gone
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 as its name is there
        """Say nothing."""


@contextmanager
def rogue_http() -> Generator[Rogue]:
    """Serve on a free port of this machine."""
    rogue, opened = Rogue(), set[socket.socket]()
    exchange = type("Bound", (Exchange,), {"rogue": rogue, "open": opened})
    server = ThreadingHTTPServer(("127.0.0.1", 0), exchange)
    rogue.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield rogue
    finally:
        rogue.released.set()
        server.shutdown()
        for connection in opened:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
