"""Edges: where a walk goes after a node, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from treadle.workflows.graph.context import GraphView, NodeOutcome
from treadle.workflows.graph.functions import answer, check_function, name_of

START: Final = "START"
"""Stands for the beginning of a walk: edges from here lead to the first node."""
END: Final = "END"
"""Stands for the end of a walk."""

Test = Callable[[GraphView[Any]], object]
"""A predicate: whatever it returns counts as true or false."""


@dataclass(frozen=True, slots=True)
class Condition:
    """When an edge is taken: `ON_SUCCESS`, `ON_FAILURE`, `ON_TOOL_CALL`, a predicate, or several.

    ``a | b`` holds when one of them does, ``a & b`` when both do; either side may be a predicate.
    A predicate decides alone, also after a failure.

    ```python
    from treadle import ON_FAILURE, ON_SUCCESS

    always = ON_SUCCESS | ON_FAILURE
    fails_again = ON_FAILURE & (lambda s: s.visits("fetch") > 1)
    print(always, "/", fails_again)
    #> on success or on failure / on failure and <lambda>
    ```
    """

    kind: Literal["success", "failure", "tool call", "predicate", "or", "and"]
    test: Test | None = None
    parts: tuple[Condition, ...] = ()

    def __or__(self, other: Condition | Test) -> Condition:
        """Hold when either does."""
        return Condition("or", parts=(self, condition(other)))

    def __ror__(self, other: Test) -> Condition:
        """Hold when either does."""
        return Condition("or", parts=(condition(other), self))

    def __and__(self, other: Condition | Test) -> Condition:
        """Hold when both do."""
        return Condition("and", parts=(self, condition(other)))

    def __rand__(self, other: Test) -> Condition:
        """Hold when both do."""
        return Condition("and", parts=(condition(other), self))

    def holds(self, outcome: NodeOutcome, view: GraphView[Any]) -> bool:
        """Whether it holds after a node that ended so."""
        match self.kind:
            case "success":
                return outcome.ok
            case "failure":
                return not outcome.ok
            case "tool call":
                return outcome.ok and outcome.tool_called
            case "or":
                return any(part.holds(outcome, view) for part in self.parts)
            case "and":
                return all(part.holds(outcome, view) for part in self.parts)
            case "predicate":
                return self.test is not None and bool(answer(self.test, view))

    def can_hold_after(self, *, success: bool) -> bool:
        """Whether it may hold after a success, or after a failure."""
        match self.kind:
            case "success" | "tool call":
                return success
            case "failure":
                return not success
            case "or":
                return any(part.can_hold_after(success=success) for part in self.parts)
            case "and":
                return all(part.can_hold_after(success=success) for part in self.parts)
            case "predicate":
                return True

    def __str__(self) -> str:
        """Say when, with functions by their names."""
        if self.test is not None:
            return name_of(self.test)
        if self.parts:
            told = (f"({part})" if part.parts else str(part) for part in self.parts)
            return f" {self.kind} ".join(told)
        return f"on {self.kind}"


ON_SUCCESS = Condition("success")
"""The node succeeded."""
ON_FAILURE = Condition("failure")
"""The node failed: the walk goes on, and the error is the view's `error(node)`."""
ON_TOOL_CALL = Condition("tool call")
"""The node succeeded, and called a tool on its way."""


def condition(given: object) -> Condition:
    """Return a predicate as a condition, and a condition as it is.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(given, Condition):
        return given
    return Condition("predicate", test=check_function(given, "A condition", takes="the view"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One way from a node: to a node, or to the one that a function names.

    `targets` are those that the function may name; None when it may name any. `place` counts the
    edges of the graph.
    """

    source: str
    target: str | None = None
    to: Callable[[GraphView[Any]], str] | None = None
    targets: tuple[str, ...] | None = None
    when: Condition | None = None
    priority: int = 0
    place: int = 0

    @property
    def leads_to(self) -> tuple[str, ...]:
        """The nodes that it can lead to, as far as they are known."""
        return (self.target,) if self.target is not None else self.targets or ()

    @property
    def is_open(self) -> bool:
        """Whether it can lead to any node."""
        return self.to is not None and self.targets is None

    def can_follow(self, *, success: bool) -> bool:
        """Whether it may be taken after a success, or after a failure."""
        return success if self.when is None else self.when.can_hold_after(success=success)

    def follows(self, outcome: NodeOutcome, view: GraphView[Any]) -> bool:
        """Whether it is to be taken. Without a condition it is, unless the node failed."""
        return outcome.ok if self.when is None else self.when.holds(outcome, view)

    def __str__(self) -> str:
        """Name its ends."""
        target = repr(self.target) if self.to is None else name_of(self.to)
        return f"{self.source!r} → {target}"
