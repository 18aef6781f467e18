"""Secret arguments of tools: the tool gets them, the history has them, nothing shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from treadle import Agent, Approve, Conversation, Next, open_store, tool
from treadle.cli.main import main
from treadle.events import ApprovalDecided, ApprovalRequested, ToolRequested, ToolStarted
from treadle.messages import ToolCall
from treadle.testing import ScriptedModel, calls
from treadle.values.secret import hidden

WORD = "violet-harbour-77"


@tool
def sign_in(user: str, password: SecretStr) -> str:
    """Sign in."""
    return f"{user}: {len(password.get_secret_value())}"


def model() -> ScriptedModel:
    """Signs in and says so."""
    return ScriptedModel([calls(("c1", "sign_in", {"user": "anna", "password": WORD})), "Done."])


async def test_the_tool_gets_it_and_events_do_not() -> None:
    """What the model wrote stays as it is in the history, to be sent back."""
    agent = Agent("clerk", model=model(), tools=[sign_in])
    run = agent.start("Sign me in.")
    told = [event async for event in run if isinstance(event, ToolRequested | ToolStarted)]
    result = await run

    assert result.tool_results[0].text == "anna: 17"
    assert [event.arguments for event in told] == [{"user": "anna", "password": "***"}] * 2
    (call,) = result.messages[1].tool_calls
    assert call.arguments["password"] == WORD
    assert call.secret == ("password",)
    assert call.shown == {"user": "anna", "password": "***"}


async def test_a_call_that_is_read_back_is_known_to_be_secret(tmp_path: Path) -> None:
    """Any process that opens the conversation hides its values."""
    store = open_store(f"sqlite:///{tmp_path}/c.db")
    other = "crimson-valley-19"
    scripted = ScriptedModel([calls(("c1", "sign_in", {"user": "a", "password": other})), "Done."])
    await Agent("clerk", model=scripted, tools=[sign_in], store=store).run("x", conversation="c")
    conversation = await Conversation.open("c", store=store)

    said = await conversation.messages()

    assert said[1].tool_calls[0].secret == ("password",)
    assert hidden(f"it is {other}") == "it is ***"
    await store.close()


def test_a_call_without_its_marks_is_read() -> None:
    """Calls of older journals have none."""
    assert ToolCall.of("a", {"b": "plain-enough"}).shown == {"b": "plain-enough"}
    assert hidden("plain-enough") == "plain-enough"


async def test_questions_and_decisions_show_none() -> None:
    """Whoever decides by the events reads `***`; the call itself is whole in `pending`."""
    store = open_store("memory:")
    asking = sign_in.replace(approval=True)
    agent = Agent("clerk", model=model(), tools=[asking], store=store)
    run = agent.start("x", conversation="c")
    asked = [event async for event in run if isinstance(event, ApprovalRequested)]
    result = await run
    assert result.pending[0].arguments["password"] == WORD
    going = agent.resume(result.run_id, store=store, decisions={"c1": Approve()})
    decided = [event async for event in going if isinstance(event, ApprovalDecided)]

    assert [event.arguments["password"] for event in (*asked, *decided)] == ["***"] * len(
        [*asked, *decided]
    )
    assert asked
    assert (await going).tool_results[-1].text == "anna: 17"


async def test_links_of_a_chain() -> None:
    """What one tool gives to the next is secret too."""

    @tool
    def begin() -> Next:
        """Begin."""
        return Next("sign_in", {"user": "b", "password": "indigo-meadow-3"})

    scripted = ScriptedModel([calls(("c1", "begin", {})), "Done."])
    run = Agent("clerk", model=scripted, tools=[begin, sign_in]).start("x")
    told = [event async for event in run if isinstance(event, ToolStarted)]

    assert told[-1].arguments == {"user": "b", "password": "***"}
    assert hidden("indigo-meadow-3") == "***"


async def test_errors_of_tools_tell_none() -> None:
    """A tool that fails with it in its text: neither the model nor the journal reads it."""

    @tool
    def fails(password: SecretStr) -> str:
        """Fail."""
        raise ValueError(f"refused {password.get_secret_value()}")

    scripted = ScriptedModel([calls(("c1", "fails", {"password": "scarlet-tower-8"})), "Done."])
    result = await Agent("clerk", model=scripted, tools=[fails]).run("x")

    assert result.tool_results[0].text == "Tool 'fails' failed: ValueError: refused ***"


def test_the_command_line_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`treadle show` and `treadle conversations show`, as text and as JSON."""
    url = f"sqlite:///{tmp_path}/c.db"
    store = open_store(url)
    scripted = ScriptedModel(
        [calls(("c1", "sign_in", {"user": "anna", "password": WORD})), f"Signed in with {WORD}."]
    )
    agent = Agent("clerk", model=scripted, tools=[sign_in], store=store)
    result = agent.run_sync("Sign me in.", conversation="c1")

    for command in (
        ["show", result.run_id, "--store", url],
        ["show", result.run_id, "--store", url, "--json"],
        ["conversations", "show", "c1", "--store", url],
    ):
        assert main(command) == 0
        said = capsys.readouterr()
        assert "Signed in with ***." in said.out
        assert WORD not in said.out + said.err
