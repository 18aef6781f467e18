"""Finding the agent that a command is for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import agents
from treadle import Agent, ConfigError
from treadle.cli.loading import default_model, find_agent, load_agent, single
from treadle.cli.terminal import Terminal
from treadle.tools.registry import ToolRegistry


def the_agent(reference: str | None, **options: Any) -> Agent[Any, Any]:
    """What is found, which is one agent."""
    found = single(find_agent(reference, **options))
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to be in, with nothing left of it in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("hello", "'hello' names no agent; write module:attribute"),
        (":x", "names no agent"),
        ("x:", "names no agent"),
        ("missing_module:x", "There is no module 'missing_module' in "),
        ("tests.cli.agent:adder", "There is no module 'tests.cli.agent' in "),
        ("tests/cli/agents.py:adder", "name the module, for example tests.cli.agents:adder."),
        ("tests.cli.agents:addr", "has no 'addr'. Its agents: counter, adder,"),
        ("tests.cli.agents:number", "is no agent; its type is int. Its agents: counter, adder,"),
        ("tests.cli.agents:adder.xname", "has no 'adder.xname'"),
        ("json:load", "is no agent; its type is function. It has no agents."),
        ("json:lods", "Module 'json' has no 'lods'. Did you mean 'loads'?"),
    ],
)
def test_what_cannot_be_found_is_told(reference: str, told: str) -> None:
    """Each mistake has its own message, and most a hint."""
    with pytest.raises(ConfigError) as raised:
        load_agent(reference)

    assert told in str(raised.value)


def test_modules_of_the_folder_are_found(folder: Path) -> None:
    """An agent in a file of the current folder needs no installation."""
    (folder / "my_agents.py").write_text("from treadle import Agent\nwriter = Agent('writer')\n")

    assert load_agent("my_agents:writer").name == "writer"
    with pytest.raises(ConfigError, match="Did you mean 'my_agents'"):
        load_agent("my_agent:writer")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n1 / 0\n", r"ZeroDivisionError: division by zero \(.*broken.py, line 2\)$"),
        ("import not_there\n", r"No module named 'not_there' \(.*broken.py, line 1\)$"),
        ("x = 1\nx = = 1\n", r"SyntaxError: invalid syntax \(.*broken.py, line 2\)$"),
        ("import sys\nsys.exit('no')\n", r"SystemExit: no \(.*broken.py, line 2\)$"),
    ],
)
def test_a_module_that_fails_is_told(folder: Path, source: str, told: str) -> None:
    """The error is the module's own, with its file and line."""
    (folder / "broken.py").write_text(source)

    with pytest.raises(ConfigError, match=r"^Module 'broken' cannot be imported: .*" + told):
        load_agent("broken:agent")


@pytest.fixture
def nobody() -> Terminal:
    """A terminal that is none."""
    return Terminal(sys.stdin, sys.stdout, sys.stderr, {})


def test_options_change_the_agent(nobody: Terminal) -> None:
    """A model and a limit replace the agent's; the agent itself stays."""
    found = the_agent("tests.cli.agents:adder", model="local:", max_turns=2, terminal=nobody)

    assert found.model == "local:"
    assert found.limits.max_turns == 2
    assert agents.adder.limits.max_turns == 10


def test_an_agent_without_a_model_gets_the_default(
    nobody: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key in the environment that is a hosted model, without one a local one."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert default_model() == "local:"

    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    found = the_agent("tests.cli.agents:modelless", model=None, max_turns=None, terminal=nobody)
    assert str(found.model).startswith("openai:")


def test_without_a_name_the_assistant_answers(nobody: Terminal) -> None:
    """The built-in assistant reads, and offers nothing that would need a yes nobody can give."""
    found = the_agent(None, model="local:", max_turns=None, terminal=nobody)

    assert found.name == "assistant"
    names = ToolRegistry(found.tools).names()
    assert names == ("calculator", "clock", "list_files", "read_file")


def test_options_for_one_agent_are_refused(nobody: Terminal) -> None:
    """What is made of several can be named, with what its members have."""
    found = find_agent("tests.cli.agents:relay", model=None, max_turns=None, terminal=nobody)

    assert found.name == "relay"
    with pytest.raises(ConfigError, match="--model is for one agent"):
        find_agent("tests.cli.agents:relay", model="local:", max_turns=None, terminal=nobody)
