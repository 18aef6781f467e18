"""The built-in assistant with a model that wants to run a command."""

from __future__ import annotations

import os
import sys

from treadle import ModelReply
from treadle.cli.assistant import assistant
from treadle.cli.terminal import Terminal
from treadle.ports.model import ModelRequest
from treadle.testing import FunctionModel, calls
from treadle.testing.scripted import last_text


def run_it(request: ModelRequest) -> ModelReply | str:
    """Run what the user says, then tell how it went."""
    if request.messages[-1].role == "user":
        return calls(("c1", "bash", {"command": last_text(request)}), text="As you wish.")
    return f"It said: {last_text(request)!r}"


asker = assistant(Terminal(sys.stdin, sys.stdout, sys.stderr, os.environ)).replace(
    model=FunctionModel(run_it)
)
