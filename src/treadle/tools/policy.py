"""Rules for calls: which run, which wait for somebody, and which do not run at all."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from treadle.errors import ConfigError
from treadle.tools.conditions import as_condition, check_condition, looks
from treadle.tools.outcome import describe
from treadle.values import clean, is_object

Verdict = Literal["allow", "ask", "deny"]
Once = Literal["tool", "arguments"]


class Rule(Struct, frozen=True):
    """What becomes of the calls of some tools: "allow", "ask" somebody, or "deny".

    `tools` are names, or patterns such as "files_*", as the model is told them. `where` has for
    each argument a value or a condition (`Above(100)`, `Inside("src")`), and all must hold; an
    argument that is left out stands for its default. `reason` is told to whoever is asked, and of
    "deny" to the model.

    With `once="tool"` a yes holds for the rest of the conversation for this tool, with
    `once="arguments"` for this tool with the very same arguments. A no does not, nor does a yes to
    an edit. `name` is what the journal calls the rule.

    Raises:
        ConfigError: a field is not of its kind.
    """

    verdict: Verdict
    tools: str | tuple[str, ...] = "*"
    where: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reason: str = ""
    once: Once | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Check, and take copies of what the caller could change."""
        if self.verdict not in ("allow", "ask", "deny"):
            raise ConfigError(f"Rule({self.verdict!r:.60}) is none of 'allow', 'ask', 'deny'.")
        force_setattr(self, "tools", _names(self.tools))
        force_setattr(self, "where", _arguments(self.where))
        if self.once not in (None, "tool", "arguments") or (self.once and self.verdict != "ask"):
            raise ConfigError(f"Rule({self.verdict!r}, once={self.once!r:.60}): only 'ask' has it.")
        for name, text in (("reason", self.reason), ("name", self.name)):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"Rule({name}={text!r:.60}): give a text.")

    @property
    def label(self) -> str:
        """Its name, or what it says in short."""
        if self.name:
            return self.name
        about = f" by {', '.join(self.where)}" if self.where else ""
        return clean(f"{self.verdict} {', '.join(self.tools)}{about}"[:200])

    def applies(self, name: str, parameters: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Whether it is about this call. Raises what a condition raises."""
        if not any(fnmatchcase(name, pattern) for pattern in self.tools):
            return False
        properties = parameters.get("properties")
        for argument, wanted in self.where.items():
            schema = properties.get(argument) if is_object(properties) else None
            if argument in values:
                value = values[argument]
            elif is_object(schema) and "default" in schema:
                value = schema["default"]
            elif (
                schema is None and name in self.tools and not parameters.get("additionalProperties")
            ):
                raise LookupError(f"tool {name!r} has no argument {argument!r}")
            else:
                return False
            if not as_condition(wanted).holds(value):
                return False
        return True


def _names(given: Any) -> tuple[str, ...]:
    tools: tuple[Any, ...] = (given,) if isinstance(given, str) else ()
    if type(given) in (list, tuple):
        tools = (*given,)
    if not all(isinstance(each, str) and each for each in tools) or not tools:
        raise ConfigError(f"Rule(tools={given!r:.60}): give a name, a pattern, or a list.")
    return tools


def _arguments(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):  # pyright: ignore[reportUnknownVariableType]
        raise ConfigError(f"Rule(where={given!r:.60}): give a dict by argument.")
    for wanted in given.values():  # pyright: ignore[reportUnknownVariableType]
        check_condition(wanted)
    return {**given}


class Ruling(Struct, frozen=True):
    """What is to become of one call, and why. `by` and `note` are those of a yes that holds."""

    verdict: Verdict
    reason: str = ""
    rule: str = ""
    once: Once | None = None
    by: str = ""
    note: str = ""


class Rules:
    """Rules in order: the first that applies decides. Where none does, nothing is said.

    ```python
    from treadle import Agent, tool
    from treadle.testing import ScriptedModel, calls
    from treadle.tools import Above, Rule, Rules


    @tool
    def pay(amount: int) -> str:
        return f"paid {amount}"


    rules = Rules(
        Rule("deny", "pay", {"amount": Above(1000)}, reason="Nobody pays more than 1000."),
        Rule("ask", "pay", {"amount": Above(100)}, once="arguments"),
    )
    model = ScriptedModel([calls(("c1", "pay", {"amount": 5000})), "Too much."])
    agent = Agent("cashier", model=model, tools=[pay], approval=rules)
    print(agent.run_sync("Pay 5000.").tool_results[0].text)
    #> Not run: a rule does not allow this call. The reason: Nobody pays more than 1000.
    ```

    As `approval` of a tool they are about its calls only: a call that no rule is about runs. As
    `approval` of an agent or a run they are about all of its tools, and come first: what they say
    nothing about the tool's own `approval` decides. A rule that raises asks. `looks` is whether a
    rule looks at files.
    """

    __slots__ = ("looks", "rules")

    def __init__(self, *rules: Rule) -> None:
        for rule in rules:
            if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"Rules({rule!r:.60}): give Rule objects.")
        self.rules = rules
        self.looks = any(looks(each) for rule in rules for each in rule.where.values())

    def __repr__(self) -> str:
        return f"Rules({', '.join(rule.label for rule in self.rules)})"

    def judge(
        self, name: str, parameters: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Ruling | None:
        """Return what the first rule that applies says, None where none does."""
        for rule in self.rules:
            try:
                if rule.applies(name, parameters, values):
                    return Ruling(rule.verdict, rule.reason, rule.label, rule.once)
            except Exception as error:  # noqa: BLE001 when in doubt, ask
                why = f"The rule {rule.label!r} failed: {describe(error)}"
                return Ruling("ask", why, rule.label)
        return None
