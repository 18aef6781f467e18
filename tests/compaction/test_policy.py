"""A policy says what it takes, and what it does by default."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import Agent, Compaction, ConfigError
from treadle.testing import ScriptedModel


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 0}, "window=0: give a whole number from 1"),
        ({"window": 2.5}, "window=2.5"),
        ({"window": True}, "window=True"),
        ({"trigger": 0}, "trigger=0: give a share from 0.05 to 1"),
        ({"trigger": 1.5}, "trigger=1.5"),
        ({"trigger": None}, "trigger=None"),
        ({"trigger": float("nan")}, "trigger=nan"),
        ({"strategy": "precise"}, "strategy='precise' is none of 'summary', 'checkpoint'"),
        ({"strategy": object()}, "it has no name"),
        ({"keep_recent": -1}, "keep_recent=-1"),
        ({"keep_recent": 1.5}, "keep_recent=1.5"),
        ({"keep_recent": "all"}, "keep_recent='all'"),
        ({"protect": ("users",)}, "protect='users' is none of 'user', 'final', 'skills', 'tools'"),
        ({"protect": "user "}, "protect='user '"),
        ({"tokenizer": 5}, "tokenizer=5: give a function"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Compaction(**options)
    assert said in str(error.value)


class Own:
    """A strategy of one's own."""

    name, keep_recent, protect, share = "own", 2, ("user",), 1.0

    async def note(self, gone: Any, ask: Any) -> str:
        return "short"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", 5, "strategy.name=5: give a text"),
        ("name", "\ud800", "strategy.name='\\ud800': give a text"),
        ("keep_recent", None, "strategy.keep_recent=None"),
        ("keep_recent", -1, "strategy.keep_recent=-1"),
        ("keep_recent", 1.5, "strategy.keep_recent=1.5"),
        ("share", "half", "strategy.share='half': give a share"),
        ("share", float("nan"), "strategy.share=nan"),
        ("share", None, "strategy.share=None"),
        ("protect", None, "protect=None: give kinds"),
        ("protect", ("users",), "protect='users' is none of"),
        ("note", "text", "strategy.note='text': give a method"),
    ],
)
def test_a_strategy_of_ones_own_is_looked_at_before_a_run(
    field: str, value: Any, said: str
) -> None:
    own = Own()
    assert Compaction(strategy=own).kept == 2
    setattr(own, field, value)
    with pytest.raises(ConfigError) as error:
        Compaction(strategy=own)
    assert said in str(error.value)


def test_a_policy_is_a_policy() -> None:
    with pytest.raises(ConfigError, match="compaction='summary': give a Compaction"):
        Agent("a", model=ScriptedModel(["x"]), compaction="summary")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="compaction=5"):
        Agent("a", model=ScriptedModel(["x"])).run_sync("hi", compaction=5)  # type: ignore[arg-type]


def test_a_window_that_nobody_knows_has_to_be_given() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]), compaction=Compaction())
    with pytest.raises(ConfigError, match="Nobody knows the window of model 'scripted'"):
        agent.run_sync("hi")
    assert agent.run_sync("hi", compaction=Compaction(window=4_000)).output == "x"


def test_a_strategy_says_how_much_stays_unless_the_policy_does() -> None:
    """B215, B219, B211."""
    kept = {name: Compaction(strategy=name) for name in ("checkpoint", "aggressive")}  # type: ignore[arg-type]
    assert [each.kept for each in kept.values()] == [8, 4]
    assert Compaction(strategy="summary").kept == 0.5
    assert Compaction(strategy="summary").protected == ()
    assert Compaction(strategy="drop_oldest").kept == 0
    assert Compaction().protected == ("user", "final", "skills")
    own = Compaction(strategy="summary", keep_recent=12, protect=["user"])
    assert (own.kept, own.protected) == (12, ("user",))
    assert Compaction(protect="user").protected == ("user",)
