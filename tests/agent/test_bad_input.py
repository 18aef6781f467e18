"""What a run, an agent or a policy cannot work with is refused in words, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.agent.parts import add
from treadle import (
    Agent,
    Limits,
    MemoryStore,
    Message,
    Middleware,
    Price,
    Retry,
    Tool,
    tool,
)
from treadle.errors import ConfigError, InvalidInput
from treadle.testing import FunctionModel, ScriptedModel


class NotAsync(Middleware):
    """Has a hook that cannot be awaited."""

    def before_model(self, ctx: object, request: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] the mistake that is tested
        """Look at the request."""


class NoObserver:
    """Has something of the right name that cannot be called."""

    on_event = "log"


def agent_of(**fields: Any) -> Agent[Any, Any]:
    """An agent with these fields, whatever they are."""
    return Agent(**(dict[str, Any](name="a", model=ScriptedModel(["x"])) | fields))


def a_tool(**options: Any) -> Tool:
    """A tool with these options, whatever they are."""
    return tool(name="t", **options)(lambda: 1)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("", {}, "nothing to say"),
        ([], {}, "nothing to say"),
        (None, {}, "nothing to say"),
        (3, {}, "a part, or a list of both; got 3"),
        (Message.user("x"), {}, "a part, or a list of both; got Message"),
        ([object()], {}, "Input items"),
        (["x", 3], {}, "Input items are .* got int: '3'"),
        ("x", {"history": ["text"]}, "Message objects, got 'text'"),
        ("x", {"history": "text"}, "history='text': give a Sequence"),
        ("x", {"max_parallel_tools": 0}, "max_parallel_tools=0: at least one"),
        ("x", {"max_parallel_tools": "3"}, "max_parallel_tools='3': give an? int"),
        ("x", {"conversation": "a/b"}, "contains '/'"),
        ("x", {"conversation": ""}, "is empty"),
        ("x", {"conversation": 3}, "conversation ID is a str, got int"),
        ("x", {"run_id": ".."}, "run ID '..' is a path step"),
        ("x", {"colour": "red"}, "no option 'colour'; it takes .*conversation"),
        ("x", {"limits": {"max_turns": 3}}, r"limits=\{'max_turns': 3\}: give a Limits"),
        ("x", {"settings": {}}, r"settings=\{\}: give a ModelSettings"),
        ("x", {"metadata": ["a"]}, r"metadata=\['a'\]: give a Mapping"),
        ("x", {"requirements": "short"}, "requirements='short': give a Sequence"),
        ("x", {"observers": [print]}, r"print.* is no observer: it has no .*on_event\(event\)"),
        ("x", {"observers": [NoObserver()]}, "is no observer"),
        ("x", {"observers": print}, "observers=.*print.*: give a Sequence"),
        ("x", {"middleware": [object()]}, "is no Middleware object; subclass it"),
        ("x", {"middleware": [NotAsync]}, "is no Middleware object; subclass it and pass an inst"),
        ("x", {"middleware": [NotAsync()]}, "NotAsync.before_model must be async"),
        ("x", {"model": 3}, "int is not a model: it has no `complete` method"),
        (
            "x",
            {"output_type": 3},
            "output_type=3 (is an? int, not a type|cannot be asked)",
        ),
        ("x", {"instructions": 3}, "instructions gave int; they are a str, or return one"),
    ],
)
async def test_bad_input(given: Any, options: dict[str, Any], message: str) -> None:
    """Each is refused with the value and what to do, before anything runs."""
    model = ScriptedModel(["x"])

    with pytest.raises(ConfigError, match=message):
        await Agent("a", model).run(given, **options)

    assert model.requests == []


@pytest.mark.parametrize("given", ["", [], [object()], 3])
async def test_what_cannot_be_said_is_invalid_input(given: Any) -> None:
    """That has a type of its own, and nothing is stored of it."""
    store = MemoryStore()

    with pytest.raises(InvalidInput):
        await Agent("a", ScriptedModel(["x"]), store=store).run(given)

    assert await store.list() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": " "}, "needs a name"),
        ({"description": None}, "description=None: give a str"),
        ({"limits": {}}, r"limits=\{\}: give a Limits"),
        ({"limits": None}, "limits=None: give a Limits"),
        ({"retry": 3}, "retry=3: give a Retry"),
        ({"settings": {"temperature": 0}}, "give a ModelSettings"),
        ({"max_parallel_tools": 0}, "max_parallel_tools=0: at least one"),
        ({"max_parallel_tools": "3"}, "max_parallel_tools='3': give an? int"),
        ({"on_limit": "stop"}, "on_limit='stop' is none of 'answer', 'error', 'pause'"),
    ],
)
def test_an_agent_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    """Refused where it is built, and where it is changed."""
    with pytest.raises(ConfigError, match=message):
        agent_of(**fields)
    with pytest.raises(ConfigError, match=message):
        agent_of().replace(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": [add, 3]}, "3 is not a tool: pass a function, a Tool"),
        ({"middleware": [object()]}, "is no Middleware object; subclass it"),
        ({"middleware": [NotAsync()]}, "NotAsync.before_model must be async"),
        ({"output_type": 3}, "output_type=3 (is an? int, not a type|cannot be asked)"),
        ({"model": object()}, "object is not a model"),
    ],
)
async def test_an_agent_that_cannot_run(fields: dict[str, Any], message: str) -> None:
    """What is only looked at when it is needed is refused by the first run."""
    model = ScriptedModel(["x"])

    with pytest.raises(ConfigError, match=message):
        await agent_of(**({"model": model} | fields)).run("x")

    assert model.requests == []


@pytest.mark.parametrize(
    "option",
    ["limits", "middleware", "model", "observers", "output_type", "requirements", "settings"],
)
async def test_none_leaves_what_the_agent_has(option: str) -> None:
    """An option that is None is as good as not given."""
    options: dict[str, Any] = {option: None}

    assert (await Agent("a", ScriptedModel(["ok"])).run("x", **options)).output == "ok"


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"name": 3}, {}),
        ({"tools": add}, {}),
        ({"middleware": Middleware()}, {}),
        ({"max_parallel_tools": True}, {}),
        ({"store": "memory:"}, {"conversation": "c"}),
        ({}, {"store": "memory:", "conversation": "c"}),
        ({}, {"state": 3}),
        ({}, {"requirements": [3]}),
    ],
)
async def test_options_of_the_wrong_kind(fields: dict[str, Any], options: dict[str, Any]) -> None:
    """They are refused like all others, with the name of the field or option."""
    named = next(iter(fields or options))

    with pytest.raises(ConfigError, match=named):
        await agent_of(**fields).run("x", **options)


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (Limits, {"max_cost": True}),
        (Limits, {"max_cost": float("nan")}),
        (Retry, {"attempts": "3"}),
        (Retry, {"attempts": 2.5}),
        (Retry, {"first_wait": float("nan")}),
        (Price, {"input": "cheap", "output": 1}),
        (a_tool, {"timeout": "3"}),
        (a_tool, {"retries": "3"}),
        (ScriptedModel, {"script": "one text is no script"}),
        (ScriptedModel, {"script": 3}),
    ],
)
def test_values_of_the_wrong_kind(make: Callable[..., object], fields: dict[str, Any]) -> None:
    """What cannot work is refused where it is made, with the name of the field."""
    with pytest.raises(ConfigError, match=next(iter(fields))):
        make(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_turns": "3"}, r"Limits\(max_turns='3'\): give an? int"),
        ({"max_depth": None}, r"Limits\(max_depth=None\): give an? int"),
        ({"max_turns": True}, r"Limits\(max_turns=True\)"),
        ({"max_tool_calls": 2.5}, r"Limits\(max_tool_calls=2.5\): give an? int, or leave it out"),
        ({"max_cost": "0.5"}, r"Limits\(max_cost='0.5'\): give a Decimal, or leave it out"),
        ({"deadline": 30}, r"Limits\(deadline=30\): give a timedelta, or leave it out"),
    ],
)
def test_limits_of_the_wrong_kind(fields: dict[str, Any], message: str) -> None:
    """Refused with the value and the kind."""
    with pytest.raises(ConfigError, match=message):
        Limits(**fields)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0.5, Decimal("0.5")), (0.1, Decimal("0.1")), (2, Decimal(2)), (Decimal("0.5"),) * 2],
)
def test_money_may_be_a_float(given: Any, kept: Decimal) -> None:
    """It becomes the Decimal that one would write."""
    cost = Limits(max_cost=given, deadline=timedelta(seconds=1)).max_cost

    assert (type(cost), cost) == (Decimal, kept)


@pytest.mark.parametrize("step", [3, None, {"role": "user"}])
async def test_a_step_that_is_none(step: Any) -> None:
    """A script, and a function that stands for a model, say what they may give."""
    for model in (ScriptedModel([step]), FunctionModel(lambda request: step)):
        with pytest.raises(ConfigError, match=r"is no step of a script: it is text, a Message"):
            await Agent("a", model).run("x")


@pytest.mark.parametrize(("kind", "refused"), [(str, True), (dict, False), (dict[str, int], False)])
async def test_deps_are_of_the_declared_type(kind: Any, refused: bool) -> None:
    """Where it can be told at run time."""
    agent = agent_of(model=ScriptedModel(["ok"]), deps_type=kind)
    if refused:
        with pytest.raises(ConfigError, match="wants str"):
            await agent.run("x", deps={"a": 1})
    else:
        assert (await agent.run("x", deps={"a": 1})).output == "ok"
