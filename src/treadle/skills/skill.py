"""A skill: instructions for one kind of task, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from treadle.errors import ConfigError
from treadle.ports.command_runner import CommandRunner
from treadle.ports.tool import ToolProtocol, ToolSource
from treadle.skills.fields import name_problems
from treadle.tools.tool import Tool

Load = Literal["on_demand", "eager"]
AnyTool = Tool | ToolProtocol | ToolSource | Callable[..., Any]
Stamp = tuple[int, int, int]
"""What tells one state of a file from the next: when it was written, its size, and which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Instructions for one kind of task. `load_skill` reads one from a folder.

    ```python
    from treadle import Agent, Skill
    from treadle.testing import ScriptedModel

    haiku = Skill(
        name="haiku",
        description="Use when a poem is asked for.",
        instructions="Three lines: 5, 7 and 5 syllables.",
    )
    agent = Agent("poet", model=ScriptedModel(["An old silent pond"]), skills=[haiku])
    print(agent.run_sync("A poem, please.").output)
    #> An old silent pond
    ```

    With `load="on_demand"` the model knows the name and the description, and reads the
    instructions with a tool; its `tools` are offered from then on. With `"eager"` the instructions
    are in the prompt and the tools are there from the beginning.

    `allowed_tools` are the tools that the skill is meant to be carried out with. The model is told
    of them; they give the agent no tool and no call a yes. Scripts of a `folder` are run only in a
    `sandbox`.

    Raises:
        ConfigError: the name cannot be one, there is no description, or an option is wrong.
    """

    name: str
    description: str
    instructions: str = ""
    tools: Sequence[AnyTool] = ()
    load: Load = "on_demand"
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()
    folder: str = ""
    sandbox: CommandRunner | Literal["auto"] | None = None
    stamp: Stamp | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("name", "description", "instructions", "license", "compatibility", "folder"):
            text: object = getattr(self, name)
            if not isinstance(text, str):
                raise ConfigError(f"Skill({name}={text!r:.60}): give a str.")
        problems = [each for each in name_problems(self.name) if each.fatal or not self.folder]
        if problems:
            raise ConfigError(f"Skill(name={self.name!r:.80}): {problems[0].text}")
        if not self.description.strip():
            raise ConfigError(f"Skill {self.name!r} has no description: say when it is of use.")
        check_load(self.load)
        if self.sandbox is not None:
            check_sandbox(self.sandbox)
        for name in ("tools", "allowed_tools"):
            value: Any = getattr(self, name)
            if type(value) not in (list, tuple):
                raise ConfigError(f"Skill {self.name!r}: {name}={value!r:.60}; give a list.")
            object.__setattr__(self, name, (*value,))


Skills = Sequence[Skill] | str | PathLike[str]
"""Skills, or the folder that holds their folders."""


def check_load(load: object) -> None:
    """Refuse what is no way to load a skill.

    Raises:
        ConfigError: it is none of the two.
    """
    if load not in ("on_demand", "eager"):
        raise ConfigError(f"load={load!r:.60} is none of 'on_demand', 'eager'.")


def check_sandbox(sandbox: object) -> None:
    """Refuse what cannot run scripts.

    Raises:
        ConfigError: with the value.
    """
    runs = callable(getattr(sandbox, "run", None)) and not isinstance(sandbox, type)
    if sandbox != "auto" and not runs:
        raise ConfigError(f"sandbox={sandbox!r:.60}: give a Sandbox(), or 'auto'.")


def check_skills(given: Any) -> None:
    """Refuse what is neither a list of skills nor a folder.

    Raises:
        ConfigError: with the value.
    """
    if isinstance(given, str | PathLike):
        return
    if type(given) not in (list, tuple):
        raise ConfigError(f"skills={given!r:.60}: give a list of skills, or a folder of them.")
    for each in given:
        if not isinstance(each, Skill):
            raise ConfigError(
                f"skills=[{each!r:.60}]: give Skill(...), load_skill(path), or a folder as "
                "skills=path."
            )
