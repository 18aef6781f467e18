"""A server on this machine that answers from a list: in Chat Completions, or what stands there."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

# A reply as JSON: a text, `{"call": name, "arguments": {...}}`, or a list of such calls; or
# `{"body": {...}}`, sent as it stands, in whatever protocol, with a "status" where it is not 200.
Call = dict[str, Any]
Reply = str | Call | list[Call]

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


class Loopback:
    """Gives one reply for each request, in order; `left` says how many are still to come."""

    def __init__(self, replies: list[Reply], origin: str) -> None:
        self._replies = replies
        self._origin = origin
        self._asked = 0
        self._lock = Lock()
        self.url = ""

    @property
    def left(self) -> int:
        """How many replies nobody has asked for yet."""
        return len(self._replies) - self._asked

    def next(self) -> Reply:
        """Return the next reply; IndexError says where to write one more."""
        with self._lock:
            self._asked += 1
            if self._asked > len(self._replies):
                held = f"{self._origin} holds {len(self._replies)}"
                raise IndexError(f"request {self._asked} has no reply: {held}")
            return self._replies[self._asked - 1]


@contextmanager
def serve(replies: list[Reply], origin: str) -> Generator[Loopback]:
    """Serve these replies on a free port of this machine until the block ends."""
    script = Loopback(replies, origin)

    class Exchange(BaseHTTPRequestHandler):
        """One request and its answer."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer with the next reply of the script, whole or streamed."""
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                reply = script.next()
            except IndexError as error:
                refusal = {"error": {"message": str(error), "type": "invalid_request_error"}}
                self._send(400, "application/json", json.dumps(refusal))
                return
            if isinstance(reply, dict) and "body" in reply:
                body = json.dumps(reply["body"])
                self._send(reply.get("status", 200), "application/json", body)
            elif request.get("stream"):
                self._send(200, "text/event-stream", streamed(reply, request["model"]))
            else:
                self._send(200, "application/json", whole(reply, request["model"]))

        def _send(self, status: int, kind: str, body: str) -> None:
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(reply: Reply, model: str) -> str:
    """Return the reply as one Chat Completions body."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(reply, str):
        message["content"] = reply
    else:
        message["tool_calls"] = calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply)}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model}
    return json.dumps({**head, "choices": [choice], "usage": USAGE})


def streamed(reply: Reply, model: str) -> str:
    """Return the reply as server-sent events, a text in pieces of ten characters."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if isinstance(reply, str):
        deltas += [{"content": reply[at : at + 10]} for at in range(0, len(reply), 10)]
    else:
        deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(calls(reply))]
    choices: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": finish_reason(reply)})
    ends: dict[str, Any] = {"choices": [], "usage": USAGE}
    chunks = [*({"choices": [{"index": 0, **choice}]} for choice in choices), ends]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}
    events = [json.dumps({**head, **chunk}) for chunk in chunks]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


def calls(reply: Call | list[Call]) -> list[dict[str, Any]]:
    """Return the tool calls of a reply in the provider's form."""
    return [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call["call"], "arguments": json.dumps(call["arguments"])},
        }
        for number, call in enumerate([reply] if isinstance(reply, dict) else reply, 1)
    ]


def finish_reason(reply: Reply) -> str:
    """Return why the model stopped."""
    return "stop" if isinstance(reply, str) else "tool_calls"
