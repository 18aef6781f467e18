"""Find the agent and the model that a command is for."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from treadle.agent.agent import Agent
from treadle.agent.startable import Startable
from treadle.cli.assistant import assistant
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError
from treadle.tools.names import likely

AnyAgent = Startable[Any, Any]

HOSTED_MODEL = "openai:gpt-5.2"
LOCAL_MODEL = "local:"


def find_agent(
    reference: str | None, *, model: str | None, max_turns: int | None, terminal: Terminal
) -> AnyAgent:
    """Return the agent that `module:attribute` names, or the built-in assistant, as asked for.

    `model` replaces the agent's; an agent without a model gets the default one. What is made of
    several agents, such as a swarm, is an agent here; its members keep their models and limits.

    Raises:
        ConfigError: there is no such agent, or it cannot take what was asked for.
    """
    found = assistant(terminal) if reference is None else load_agent(reference)
    agent = single(found)
    if agent is not None:
        if model is not None or agent.model is None:
            agent = agent.replace(model=model or default_model())
        if max_turns is not None:
            agent = agent.replace(limits=replace(agent.limits, max_turns=max_turns))
        return agent
    for option, value in (("--model", model), ("--max-turns", max_turns)):
        if value is not None:
            raise ConfigError(
                f"{option} is for one agent; {reference!r} is made of several, which have their "
                "own: set it there."
            )
    return found


def single(agent: AnyAgent) -> Agent[Any, Any] | None:
    """Return an agent that has a model and tools of its own, None for what is made of several."""
    found: Any = agent
    return found if isinstance(agent, Agent) else None


def default_model() -> str:
    """Return the model for who names none: a hosted one where there is a key, else a local one."""
    return HOSTED_MODEL if os.environ.get("OPENAI_API_KEY") else LOCAL_MODEL


def load_agent(reference: str) -> AnyAgent:
    """Import the agent that `module:attribute` names; modules of this folder come first.

    Raises:
        ConfigError: that names no agent, or its module cannot be imported.
    """
    found, module = load(reference, kind="agent")
    if not isinstance(found, Startable):
        kind = type(found).__name__
        raise ConfigError(
            f"{reference!r} is no agent; its type is {kind}.{_instead('', module, ())}"
        )
    return found  # pyright: ignore[reportUnknownVariableType] its type arguments are not known at run time


def load(reference: str, *, kind: str) -> tuple[object, ModuleType]:
    """Import what `module:attribute` names, which is to be of some kind; return it and its module.

    Raises:
        ConfigError: that names nothing, or its module cannot be imported.
    """
    name, _, attribute = reference.partition(":")
    if not name or not attribute:
        raise ConfigError(
            f"{reference!r} names no {kind}; write module:attribute, for example my_agents:writer."
            + (" A question of several words goes in quotes." if kind == "agent" else "")
        )
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f"{name!r} is a file; name the module, for example {dotted}:{attribute}.")
    module = _import(name)
    found: object = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise ConfigError(
                f"Module {name!r} has no {attribute!r}.{_instead(attribute, module, vars(module))}"
            )
        found = getattr(found, step)
    return found, module


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"There is no module {name!r} in {here}, nor is one installed."
                f"{_near(name, _modules(here))}"
            ) from error
        raise ConfigError(_failed(name, error)) from error
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise ConfigError(_failed(name, error)) from error


def _failed(name: str, error: BaseException) -> str:
    """Say what a module raised, and in which of its lines."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)
    ]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:  # no frame: the module never ran
        place = f" ({error.filename}, line {error.lineno})"
    raised = traceback.format_exception_only(error)[-1].strip()
    return f"Module {name!r} cannot be imported: {raised}{place}"


def _is_users(filename: str) -> bool:
    return not filename.startswith("<") and filename != __file__ and "/importlib/" not in filename


def _modules(folder: str) -> list[str]:
    """Return the names of the modules and packages in a folder."""
    return [
        entry.stem if entry.suffix == ".py" else entry.name
        for entry in Path(folder).iterdir()
        if entry.suffix == ".py" or (entry / "__init__.py").is_file()
    ]


def _instead(attribute: str, module: ModuleType, names: Iterable[str]) -> str:
    """Say what a module has instead: its agents, else the nearest name."""
    agents = [name for name, value in vars(module).items() if isinstance(value, Startable)]
    if agents:
        return f" Its agents: {', '.join(agents)}."
    return _near(attribute, names) or " It has no agents."


def _near(name: str, known: Iterable[str]) -> str:
    near = likely(name, known)
    return f" Did you mean {near!r}?" if near is not None else ""
