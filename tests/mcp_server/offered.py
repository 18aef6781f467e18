"""What the tests of the MCP server serve; `treadle mcp offered:...` finds it in this folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle import (
    Agent,
    AskApproval,
    File,
    Interrupt,
    Message,
    ModelReply,
    ModelRequest,
    RunContext,
    ToolError,
    tool,
)
from treadle.mcp import MCPServer
from treadle.testing import FunctionModel, calls

print("noise of a module")


@dataclass
class Invoice:
    """What an agent reads from a text."""

    number: str
    total: int


@tool
def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two numbers."""
    print("noise of a tool")
    subprocess.run(["echo", "noise of a child"], check=True)
    return {"sum": a + b}


@tool
async def steps(ctx: RunContext, n: int) -> str:
    """Report some steps."""
    for step in range(1, n + 1):
        ctx.report({"progress": step, "total": n, "message": f"step {step}"})
        await asyncio.sleep(0)
    return "done"


@tool
def broken() -> str:
    """Fail."""
    raise ToolError("It is broken.")


@tool(timeout=None)
async def hold(ctx: RunContext, folder: str) -> str:
    """Hold on until somebody cancels; files say what became of it."""
    (Path(folder) / "held").touch()
    ctx.report("holding")
    try:
        await asyncio.sleep(600)
    finally:
        (Path(folder) / "let-go").touch()
    return "never"


@tool(approval=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"{amount} refunded"


@tool
def colour(ctx: RunContext) -> str:
    """Ask for a colour."""
    if ctx.answer is None:
        fields = {"colour": {"type": "string", "enum": ["red", "green"]}}
        raise AskApproval(
            "Which one?", {"type": "object", "properties": fields, "required": ["colour"]}
        )
    return f"It is {ctx.answer['colour']}."


@tool
def stop() -> Interrupt:
    """Pause the run."""
    return Interrupt("somebody has to look")


@tool
def die() -> str:
    """End the process as nobody can prevent."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _said(request: ModelRequest) -> str:
    return next(each.text for each in reversed(request.messages) if each.role == "user")


def _echo(request: ModelRequest) -> str:
    heard = [each.text for each in request.messages if each.role == "user"]
    return f"Heard: {', '.join(heard)}."


def _read_invoice(request: ModelRequest) -> str:
    return '{"number": "A1", "total": 3}' if "A1" in _said(request) else "no JSON at all"


def _calling(name: str, **arguments: Any) -> Any:
    """Return a model that calls a tool once and then tells what it gave."""

    def answer(request: ModelRequest) -> ModelReply | str:
        last: Message = request.messages[-1]
        if last.role == "tool":
            return f"The tool said: {last.tool_results[0].text}"
        folder = {"folder": _said(request)} if name == "hold" else {}
        return calls(("c1", name, {**arguments, **folder}))

    return FunctionModel(answer)


echo = Agent("echo", FunctionModel(_echo))
reader = Agent("reader", FunctionModel(_read_invoice), output_type=Invoice)
counter = Agent("counter", FunctionModel(lambda _: '{"result": [1, 2]}'), output_type=list[int])
clerk = Agent("clerk", _calling("refund", amount=5), tools=[refund])
holder = Agent("holder", _calling("hold"), tools=[hold])
pauser = Agent("pauser", _calling("stop"), tools=[stop])
painter = Agent("painter", _calling("colour"), tools=[colour])
ALL = [echo, reader, counter, clerk, holder, pauser, painter]
TOOLS = [add, steps, broken, hold, refund, colour, die]


def review(topic: str, style: str = "short") -> list[Any]:
    """Ask for a review.

    Args:
        topic: What of.
        style: How.
    """
    return [f"Review {topic}, {style}.", File.from_bytes(b"rules", "text/plain", name="rules.txt")]


def number(id: int) -> str:
    """Give a number."""
    return f"number {id}"


server = MCPServer(
    *ALL,
    *TOOLS,
    name="shop",
    prompts=[review],
    resources={"docs:///hello": "Hello.", "docs:///numbers/{id}": number},
)


@tool
async def stubborn(folder: str) -> str:
    """Do not end, whoever asks."""
    await asyncio.to_thread(Path(folder, "held").touch)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
