"""What every test stands on: no keys from outside, no blocked event loop, no deadlines."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

from tests.loopback import Loopback, serve

# No test may reach a real provider by accident, or behave otherwise on a machine that has a key.
PROVIDERS = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")
for name in [name for name in os.environ if name.startswith(PROVIDERS)]:
    del os.environ[name]

# A shell ignores Ctrl-C for what it runs in the background, and so would the programs of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("treadle", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("treadle")


MAY_BLOCK = {
    # What is loaded when it is first needed is read from disk once in a process.
    "<frozen importlib._bootstrap>": {"_find_and_load", "_load_unlocked"},
    "importlib/metadata/__init__.py": {"entry_points", "load"},
    "treadle/tools/decoder.py": {"_load_validator"},
    "treadle/tools/names.py": {"_likeness"},
    # A driver looks for its password file and certificates once for each connection.
    "asyncpg/connect_utils.py": {"_parse_connect_arguments"},
    # run_sync() inside a running loop blocks that loop: that is what its caller asked for.
    "treadle/agent/blocking.py": {"run_blocking"},
}


@pytest.fixture(scope="session", autouse=True)
def unblocked() -> Iterator[None]:
    """Fail a test in which code of this package blocks the event loop."""
    with blockbuster_ctx("treadle") as guard:
        for function in guard.functions.values():
            for file, callers in MAY_BLOCK.items():
                function.can_block_in(file, callers)
        yield


@pytest.fixture
def scripted_openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Loopback]]:
    """Put a server in the providers' place that answers from a file of replies, or not at all."""
    with ExitStack() as stack:

        def start(replies: Path) -> Loopback:
            """Serve the replies in this file (see `tests/loopback.py` for their form)."""
            held = replies.read_text(encoding="utf-8") if replies.exists() else "[]"
            server = stack.enter_context(serve(json.loads(held), str(replies)))
            for place in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
                monkeypatch.setenv(place, server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
            return server

        yield start
