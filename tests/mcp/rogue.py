"""An MCP server written by hand, which can do what a good one never does.

`python rogue.py '{"tools": [...], ...}'`: see `PLAN` for what can be asked of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PLAN: dict[str, Any] = {
    "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
    "pages": 0,  # tools of a page; 0 for all at once
    "banner": "",  # printed first, without an end of line
    "junk": "",  # printed before each answer, with an end of line, as latin-1
    "flood": 0,  # bytes on standard error before the first answer
    "silent": False,  # never answers anything
    "deaf": False,  # goes on when its input ends and when it is asked to stop
    "child": "",  # a file for the PID of a process of its own
    "name": "rogue",
    "strict": False,  # ends when the first message is not the handshake
    "list": {},  # in place of a list of tools, when it is None
}
RESULTS: dict[str, Any] = {}
LISTINGS: list[None] = []


def say(message: dict[str, Any]) -> None:
    """Write a message, and the junk that is wanted before it."""
    if PLAN["junk"]:
        sys.stdout.buffer.write(PLAN["junk"].encode("latin-1") + b"\n")
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def page(cursor: str | None) -> dict[str, Any]:
    """Return a page of the tools."""
    tools, size = PLAN["tools"], PLAN["pages"] or len(PLAN["tools"])
    first = int(cursor or 0)
    found: dict[str, Any] = {"tools": tools[first : first + size]}
    if first + size < len(tools):
        found["nextCursor"] = str(first + size)
    return found


def ask(message: dict[str, Any]) -> dict[str, Any]:
    """Ask the client something, and return its answer."""
    say({"id": "q1", "method": "elicitation/create", "params": message})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == "q1":
            return answer


def crash(_: Any, arguments: dict[str, Any]) -> None:
    """End in the middle of a call."""
    print("boom", file=sys.stderr, flush=True)
    os._exit(int(arguments.get("code", 3)))


def once(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """End in the first call, and answer the second."""
    if not os.path.exists(arguments["file"]):
        with open(arguments["file"], "w"):
            os._exit(5)
    return text("done")


def mute(_: Any, __: Any) -> None:
    """Close the output, and go on running."""
    os.close(1)
    signal.pause()


def grow(_: Any, __: Any) -> dict[str, Any]:
    """Have one more tool, and say so."""
    PLAN["tools"].append({"name": "grown", "inputSchema": {"type": "object"}})
    say({"method": "notifications/tools/list_changed"})
    return text("grown")


def count(request: dict[str, Any], _: Any) -> dict[str, Any]:
    """Tell how far it is."""
    token = request["params"]["_meta"]["progressToken"]
    for step in (1, 2, 3):
        progress = {"progressToken": token, "progress": step, "total": 3, "message": "on"}
        say({"method": "notifications/progress", "params": progress})
    return text("counted")


def refuse(request: dict[str, Any], _: Any) -> None:
    """Refuse a call with a protocol error."""
    say({"id": request["id"], "error": {"code": -32602, "message": "no, sk-secret12345678"}})


def asking(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask a question, or several, and return what was answered."""
    answers = [ask(question) for question in arguments["questions"]]
    return text(json.dumps([each.get("result", each.get("error")) for each in answers]))


def echo(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what was given."""
    return text(json.dumps(arguments))


def raw(request: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Write a line as it is."""
    line = arguments["line"].replace("$ID", json.dumps(request["id"]))
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def storm(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Say again and again that the list has changed."""
    PLAN["tools"].append({"name": "grown", "inputSchema": {"type": "object"}})
    for _ in range(arguments["times"]):
        say({"method": "notifications/tools/list_changed"})
    return text("calm")


Tool = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]
TOOLS: dict[str, Tool] = {
    "crash": crash,
    "once": once,
    "mute": mute,
    "hang": lambda _, __: None,
    "big": lambda _, arguments: text("x" * arguments["size"]),
    "pid": lambda _, __: text(str(os.getpid())),
    "environment": lambda _, __: text(json.dumps(dict(os.environ))),
    "folder": lambda _, __: text(os.getcwd()),
    "grow": grow,
    "raw": raw,
    "storm": storm,
    "listings": lambda _, __: text(str(len(LISTINGS))),
    "count": count,
    "ask": asking,
    "refuse": refuse,
    "invalid": lambda _, __: {"content": [{"type": "nonsense"}]},
    "result": lambda _, arguments: arguments["result"],
}
"""What the tools do, by name; any other says what it was given."""


def text(said: str) -> dict[str, Any]:
    """Return a result of text."""
    return {"content": [{"type": "text", "text": said}]}


def answer(message: dict[str, Any]) -> None:
    """Answer one message."""
    method, request_id = message.get("method"), message.get("id")
    if method == "notifications/cancelled":
        print(f"cancelled {message['params']['requestId']}", file=sys.stderr, flush=True)
        with open(os.environ.get("CANCELLED", os.devnull), "a") as file:
            file.write(f"{message['params']['requestId']}\n")
    if request_id is None:
        return
    params: dict[str, Any] = message.get("params") or {}
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            facts = {"name": PLAN["name"], "version": "1"}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": facts}
            say({"id": request_id, "result": result})
        case "tools/list":
            LISTINGS.append(None)
            listed = page(params.get("cursor")) if PLAN["list"] is not None else None
            say({"id": request_id, "result": listed})
        case "tools/call":
            arguments: dict[str, Any] = params.get("arguments") or {}
            found = TOOLS.get(params["name"], echo)(message, arguments)
            if found is not None:
                say({"id": request_id, "result": found})
        case _:
            say({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    """Serve until the input ends."""
    PLAN.update(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    if PLAN["child"]:
        started = subprocess.Popen(["sleep", "300"])
        with open(PLAN["child"], "w") as file:
            file.write(str(started.pid))
    if PLAN["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(PLAN["banner"])
    sys.stdout.flush()
    if PLAN["flood"]:
        line = b"noise " * 1000 + b"\n"
        for _ in range(PLAN["flood"] // len(line)):
            sys.stderr.buffer.write(line)
    for line in sys.stdin:
        if PLAN["strict"] and json.loads(line)["method"] != "initialize":
            os._exit(7)
        PLAN["strict"] = False
        if not PLAN["silent"]:
            answer(json.loads(line))
    while PLAN["deaf"]:
        signal.pause()


if __name__ == "__main__":
    main()
