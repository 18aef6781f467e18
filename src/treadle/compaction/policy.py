"""When old turns leave the view, what is protected, and how much stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args

from treadle.compaction.checkpoint import Checkpoint
from treadle.compaction.drop import DropOldest
from treadle.compaction.strategy import Strategy
from treadle.compaction.summary import Aggressive, Summary
from treadle.compaction.turns import Kind
from treadle.errors import ConfigError
from treadle.ports.model import Model
from treadle.values import clean

StrategyName = Literal["summary", "checkpoint", "aggressive", "drop_oldest"]
Protected = Literal["user", "final", "skills", "tools"]

_STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "summary": Summary,
    "checkpoint": Checkpoint,
    "aggressive": Aggressive,
    "drop_oldest": DropOldest,
}
_METHODS = ("name", "keep_recent", "protect", "share", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Keeps what the model is sent inside its window. The journal keeps what has left the view.

    ```python
    from treadle import Agent, Compaction
    from treadle.testing import ScriptedModel

    agent = Agent("a", model=ScriptedModel(["Hello."]), compaction=Compaction(window=128_000))
    print(agent.run_sync("Hi.").output)
    #> Hello.
    ```

    `window` is how many tokens a request may have, by default what is known of the model. Before a
    request that would take more than the share `trigger` of it, old turns leave the view, as
    `strategy` says: a record of facts with all exact references ("checkpoint"), one summary of all
    that is old ("summary") or of the tool traffic ("aggressive"), or nothing ("drop_oldest"); an
    object with a `note` method is your own. `keep_recent` stays as it is: a share of what the
    history may take, or a number of messages; `protect` are the kinds of turns that stay as long as
    they fit the window. Both are the strategy's own by default.

    `model` writes the notes, by default the agent's own. `tokenizer` counts the tokens of a text,
    where you have one that is exact.

    Raises:
        ConfigError: a value that cannot be.
    """

    window: int | None = None
    trigger: float = 0.8
    strategy: StrategyName | Strategy = "checkpoint"
    keep_recent: float | None = None
    protect: Sequence[Protected] | Protected | None = None
    model: Model | str | None = None
    tokenizer: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        _check_number("window", self.window, int, 1, None)
        _check_number("trigger", self.trigger, float, 0.05, 1.0)
        if isinstance(self.strategy, str):
            if self.strategy not in _STRATEGIES:
                names = ", ".join(map(repr, _STRATEGIES))
                raise ConfigError(f"strategy={self.strategy!r} is none of {names}.")
        elif missing := [name for name in _METHODS if not hasattr(self.strategy, name)]:
            raise ConfigError(f"strategy={self.strategy!r:.60} is none: it has no {missing[0]}.")
        else:
            _check_strategy(self.strategy)
        if self.keep_recent is not None:
            _check_recent("keep_recent", self.keep_recent)
        if self.protect is not None:
            object.__setattr__(self, "protect", _kinds(self.protect))
        if self.tokenizer is not None and not callable(self.tokenizer):
            raise ConfigError(f"tokenizer={self.tokenizer!r:.60}: give a function of a text.")

    @property
    def way(self) -> Strategy:
        """The strategy itself, also where only its name was given."""
        return _STRATEGIES[self.strategy]() if isinstance(self.strategy, str) else self.strategy

    @property
    def kept(self) -> float:
        """How much stays as it is: a share of what the history may take, or, an int, messages."""
        return self.way.keep_recent if self.keep_recent is None else self.keep_recent

    @property
    def protected(self) -> tuple[Kind, ...]:
        """What stays as long as it fits."""
        return _kinds(self.way.protect if self.protect is None else self.protect)


def _check_strategy(strategy: Strategy) -> None:
    """Look at what a strategy of one's own says of itself, before a run hangs on it."""
    name: Any = strategy.name
    if not isinstance(name, str) or clean(name) != name:
        raise ConfigError(f"strategy.name={name!r:.60}: give a text.")
    _check_recent("strategy.keep_recent", strategy.keep_recent)
    _check_number("strategy.share", strategy.share, float, 0.0, 1.0)
    _kinds(strategy.protect)
    if not callable(strategy.note):
        raise ConfigError(f"strategy.note={strategy.note!r:.60}: give a method.")


def _check_recent(name: str, value: Any) -> None:
    if isinstance(value, float):
        _check_number(name, value, float, 0.0, 1.0)
    else:
        _check_number(name, value, int, 0, None)


def _kinds(given: Any) -> tuple[Any, ...]:
    if not isinstance(given, Iterable):
        raise ConfigError(f"protect={given!r:.60}: give kinds of turns.")
    kinds: tuple[Any, ...] = (given,) if isinstance(given, str) else tuple(given)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    known = get_args(Protected)
    for kind in kinds:
        if kind not in known:
            raise ConfigError(f"protect={kind!r:.60} is none of {', '.join(map(repr, known))}.")
    return kinds


def _check_number(name: str, value: Any, kind: type, least: float, most: float | None) -> None:
    if value is None and name == "window":
        return  # as the model has it
    number: Any = value
    kinds: Any = int if kind is int else (int, float)
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits or not least <= number <= (inf if most is None else most):
        wanted = "a whole number" if kind is int else "a share"
        upto = f" from {least:g}" if most is None else f" from {least:g} to {most:g}"
        raise ConfigError(f"{name}={value!r:.60}: give {wanted}{upto}.")
