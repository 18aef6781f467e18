"""Notes in free text: one summary, rolled from piece to piece; and no note at all."""

from __future__ import annotations

import pytest

from tests.compaction.asking import Writer, call, gone_of, result, weigh
from treadle.compaction.drop import DropOldest
from treadle.compaction.summary import Aggressive, Summary
from treadle.errors import CompactionFailed, Overloaded
from treadle.messages import Message
from treadle.ports.model import ModelReply, ModelRequest

SAID = [Message.user("I want tea."), call("brew", 1), result(1, "brewed", "brew")]


@pytest.mark.parametrize("strategy", [Summary(), Aggressive()])
async def test_one_question_makes_the_summary(strategy: Summary) -> None:
    """The model is told all, has no tools, and may write no more than there is room for."""
    ask = Writer("  They want tea.  ")

    assert await strategy.note(gone_of(SAID, "Before: coffee."), ask) == "They want tea."

    (request,) = ask.requests
    assert request.tools == ()
    assert request.settings.max_output_tokens == 4_000 + 1_024
    assert [message.role for message in request.messages] == ["user"]
    (text,) = ask.texts
    assert text.index("| Before: coffee.") < text.index("[M0001] user:\n| I want tea.")
    assert "Results of brew (calls c1):" in text


def test_what_they_keep() -> None:
    """Each strategy says how much stays, and what is protected."""
    assert (Summary().keep_recent, Summary().protect, Summary().share) == (0.5, (), 1.0)
    assert (Aggressive().keep_recent, Aggressive().protect) == (4, ("user", "final", "skills"))
    assert (DropOldest().keep_recent, DropOldest().share) == (0, 0.5)


async def test_nothing_stands_for_what_is_dropped() -> None:
    """No model is asked."""
    ask = Writer()

    note: str | None = await DropOldest().note(gone_of(SAID, "old"), ask)
    assert note is None
    assert ask.requests == []


async def test_the_summary_is_rolled_on() -> None:
    """Each request fits, and has the summary of what came before; all is told once."""
    messages = [Message.user(f"Say {number}. " + "word " * 200) for number in range(40)]
    ask = Writer(*(f"Summary {number}." for number in range(40)))
    gone = gone_of(messages, "Summary of old.", tokens=300, window=2_000)

    note = await Summary().note(gone, ask)

    count = len(ask.requests)
    assert count > 3
    assert note == f"Summary {count - 1}."
    for number, request in enumerate(ask.requests):
        text = request.messages[0].text
        assert ("| Summary of old." if number == 0 else f"| Summary {number - 1}.") in text
        output = request.settings.max_output_tokens or 0
        assert weigh(request.system) + weigh(text) + output <= gone.window
    told = "".join(ask.texts)
    assert all(told.count(f"| Say {number}. ") == 1 for number in range(40))


async def test_a_summary_that_is_too_long_is_shortened() -> None:
    """The note keeps to its size, and says that something is missing."""
    said = [*SAID, Message.user("word " * 2_000)]
    note = await Summary().note(gone_of(said, tokens=100), Writer("word " * 1_000))

    assert weigh(note) <= 100
    assert "characters are left out here" in note


async def test_a_summary_that_is_longer_than_what_it_stands_for_is_none() -> None:
    """It would bring nothing."""
    with pytest.raises(CompactionFailed, match="longer than what it stands for"):
        await Summary().note(gone_of(SAID, tokens=100), Writer("word " * 2_000))


@pytest.mark.parametrize("reply", ["", "   \n"])
async def test_an_empty_note_is_none(reply: str) -> None:
    """Old turns never leave for nothing."""
    with pytest.raises(CompactionFailed, match="empty note"):
        await Summary().note(gone_of(SAID), Writer(reply))


async def test_a_refusal_is_no_note() -> None:
    """What a model says when it refuses does not stand for a history."""
    with pytest.raises(CompactionFailed, match="refused"):
        await Summary().note(gone_of(SAID), Writer("I cannot.", finish_reason="refusal"))


async def test_a_model_that_fails_is_heard_of() -> None:
    """Its error comes through as it is."""

    async def ask(request: ModelRequest) -> ModelReply:
        raise Overloaded("busy")

    with pytest.raises(Overloaded):
        await Summary().note(gone_of(SAID), ask)


async def test_a_window_without_room_is_an_error() -> None:
    """Nothing is sent that cannot fit."""
    ask = Writer("x")

    with pytest.raises(CompactionFailed, match="larger window"):
        await Summary().note(gone_of(SAID, tokens=300, window=500), ask)
    assert ask.requests == []
