"""A prompt in sections: their order, what replaces and what adds, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Agent, ConfigError, MemoryStore, Prompt
from treadle.testing import ScriptedModel

TITLES = [
    *("Role", "Objective", "Context", "Instructions"),
    *("Constraints", "Input", "Output Format", "Examples"),
]


def titles(prompt: Prompt) -> list[str]:
    """The titles of the sections, in order."""
    return [line[3:] for line in str(prompt).splitlines() if line.startswith("## ")]


def test_the_order_of_sections_is_always_the_same() -> None:
    """S78: whatever the order of the calls; one's own come last, in the order of the calls."""
    steps: list[Callable[[Prompt], Prompt]] = [
        lambda p: p.example("1", "2"),
        lambda p: p.output_format("JSON"),
        lambda p: p.role("You count."),
        lambda p: p.section("Zeal", "Much."),
        lambda p: p.constraints("None."),
    ]
    expected = ["Role", "Constraints", "Output Format", "Examples", "Zeal"]
    for order in permutations(steps):
        prompt = Prompt()
        for step in order:
            step(prompt)
        assert titles(prompt) == expected

    every = Prompt().section("B", ["b"]).section("A", "a").example("i", "o").output_format("f")
    every.input("x").constraints("c").instructions("do").context("k").objective("g").role("r")
    assert titles(every) == [*TITLES, "B", "A"]


def test_a_setter_replaces_and_a_list_adds() -> None:
    """S78: one text is the last one given; lists grow."""
    prompt = Prompt().role("You sing.").role("You dance.").objective("x").objective(" ")
    prompt.constraints("One.").constraints("Two.", "Three.").instructions("First.").instructions(
        "Then."
    )

    assert str(prompt) == (
        "## Role\n\nYou dance.\n\n"
        "## Instructions\n\n1. First.\n2. Then.\n\n"
        "## Constraints\n\n- One.\n- Two.\n- Three."
    )


def test_blanks_are_dropped() -> None:
    """S78: blank texts, items, examples and sections leave nothing behind."""
    prompt = Prompt().role(" \n").instructions("", "  ").constraints(" Short. ", "\t")
    prompt.example(" ", "").section("Empty", ["", " "]).section("Nothing", " \n ")
    prompt.section("  Two\nlines ", ["", " a "])

    assert str(prompt) == "## Constraints\n\n- Short.\n\n## Two lines\n\n- a"
    assert str(Prompt()) == Prompt().render() == ""
    assert repr(Prompt()) == "<Prompt of 0 characters>"


def test_examples_are_numbered_pairs() -> None:
    """S78: input and output of each, under its number; more lines stay in their item."""
    prompt = Prompt().example("1 + 1", "2").example("", "42").example("a\nb", " c ")

    assert str(prompt) == (
        "## Examples\n\n"
        "1. Input: 1 + 1\n   Output: 2\n\n"
        "2. Output: 42\n\n"
        "3. Input: a\n   b\n   Output: c"
    )


def test_a_single_instruction_is_a_text() -> None:
    """A list of one needs no number, and a string given as items is one item."""
    assert str(Prompt().instructions("Read it.")) == "## Instructions\n\nRead it."
    assert str(Prompt().section("", "No title.")) == "No title."


def test_a_copy_goes_its_own_way() -> None:
    """What is added to a copy is not in the first, nor the other way round."""
    first = Prompt().role("r").constraints("c").example("i", "o").section("S", "s")
    second = first.copy()
    first.constraints("only first")
    second.role("other").section("T", "t").example("x", "y").instructions("only second")

    assert "only first" not in str(second)
    assert str(first) == (
        "## Role\n\nr\n\n## Constraints\n\n- c\n- only first\n\n"
        "## Examples\n\n1. Input: i\n   Output: o\n\n## S\n\ns"
    )


@given(st.lists(st.text(alphabet="ab \n\t\x00\ud800#-"), max_size=6))
def test_any_text_is_taken(items: list[str]) -> None:
    """No text breaks the order, and what is rendered can be stored and sent."""
    prompt = Prompt().constraints(*items)
    for item in items:
        prompt.role(item).example(item, item).section("Own", item)
    str(prompt).encode()
    assert "\x00" not in str(prompt)


@pytest.mark.parametrize("where", ["agent", "run", "function"])
async def test_a_prompt_may_be_instructions(where: str) -> None:
    """Of an agent, of a run, and as what a function returns."""
    prompt, model = Prompt().role("You count."), ScriptedModel(["1"])
    if where == "run":
        await Agent("a", model).run("x", instructions=prompt)
    elif where == "agent":
        await Agent("a", model, instructions=prompt).run("x")
    else:
        await Agent("a", model, instructions=lambda ctx: prompt).run("x")

    assert model.requests[0].system == "## Role\n\nYou count."


async def test_an_agent_keeps_the_prompt_that_it_was_given() -> None:
    """What is done to the prompt later changes no agent; it is part of what an agent is made of."""
    prompt, model = Prompt().role("You count."), ScriptedModel(["1", "2"])
    agent = Agent("a", model, instructions=prompt)
    prompt.role("You lie.")
    store = MemoryStore()
    result = await agent.run("x", store=store)

    assert model.requests[0].system == agent.instructions == "## Role\n\nYou count."
    (batch, *_) = await store.read(result.conversation_id)
    assert "instructions" in batch.entries[0].definition  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "call", [("role", None), ("input", 3), ("instructions", None), ("constraints", "a", [1])]
)
@pytest.mark.parametrize("own", [None, 3, [1], ["a", None]])
def test_what_is_no_text_is_refused_with_the_value(call: tuple[Any, ...], own: Any) -> None:
    with pytest.raises(ConfigError, match="give a str"):
        getattr(Prompt(), call[0])(*call[1:])
    with pytest.raises(ConfigError, match="give a str"):
        Prompt().section("Own", own)
