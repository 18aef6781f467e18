"""The built-in assistant on a hosted model, here a server on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Treadle
from tests.loopback import Loopback

Serve = Callable[[Path], Loopback]


@pytest.fixture
def replies(scripted_openai: Serve, tmp_path: Path) -> Loopback:
    """OpenAI, with a key in the environment, that asks for the calculator and then answers."""
    held = tmp_path / "replies.json"
    call = {"call": "calculator", "arguments": {"expression": "23 * 17"}}
    held.write_text(json.dumps([call, "It is 391."]))
    return scripted_openai(held)


def test_the_assistant_calculates(treadle: Treadle, replies: Loopback) -> None:
    """With no agent named, the assistant answers by its own tool."""
    model = f"openai:{replies.url}"  # models are kept by name, so each test has its own

    ended = treadle("run", "What is 23 * 17?", "--stream", "--model", model)

    assert (ended.code, ended.out) == (0, "It is 391.\n")
    assert ended.err == '-> calculator(expression="23 * 17")\n<- 391\n'
    assert replies.left == 0


def test_the_assistant_chats(treadle: Treadle, replies: Loopback) -> None:
    """The same in a conversation."""
    model = f"openai:{replies.url}"

    ended = treadle("chat", "--model", model, stdin="What is 23 * 17?\n/model\n")

    assert ended.code == 0
    assert ended.out.endswith(f"<- 391\nIt is 391.\n{model}\n")
    assert replies.left == 0


def test_a_missing_key_is_told(treadle: Treadle) -> None:
    """One line says what to set; a conversation goes on."""
    run = treadle("run", "hello", "--model", "openai:no-key")
    chat = treadle("chat", "--model", "openai:no-key", stdin="hello\n/model\n")

    assert (run.code, run.out) == (1, "")
    assert (chat.code, chat.out) == (0, "openai:no-key\n")
    assert run.err == chat.err
    assert "set OPENAI_API_KEY" in run.err
    assert run.err.count("\n") == 1
