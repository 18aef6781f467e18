"""What a terminal is shown: colours where there are any, and nothing that could drive it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.cli import agents
from treadle import Agent, Overloaded, Retry, RunContext, tool
from treadle.agent.startable import Startable
from treadle.cli.printing import EventPrinter, call_in_brief, call_in_full
from treadle.cli.terminal import Terminal, cut, visible
from treadle.testing import FunctionModel, ScriptedModel, calls, raises


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


async def shown(agent: Startable[Any, Any], **environment: str) -> str:
    """Run an agent and return what a terminal of 80 columns shows of it."""
    screen = Screen()
    terminal = Terminal(screen, screen, screen, environment)
    printer = EventPrinter(terminal, notes=screen)
    async for event in agent.stream("go"):
        printer.show(event)
    printer.end_line()
    return screen.getvalue()


async def test_a_terminal_has_colours() -> None:
    """Calls and results are told from the text by their colour."""
    text = await shown(agents.adder)

    assert "\x1b[36m-> add(a=20, b=3)\x1b[0m\n" in text
    assert "\x1b[2m<- 23\x1b[0m\n" in text
    assert text.endswith("It is 23.\n")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_colours_can_be_refused(environment: dict[str, str]) -> None:
    """NO_COLOR and a dumb terminal are respected."""
    assert "\x1b" not in await shown(agents.adder, **environment)


async def test_reasoning_stands_back() -> None:
    """What a model thinks is dimmed, and its answer begins on a line of its own."""
    text = await shown(agents.thinker)

    assert text.startswith("\x1b[2mLet me think.\x1b[0m\nDone")


async def test_text_cannot_drive_the_terminal() -> None:
    """Control characters of a model's text are shown, not obeyed."""
    assert "\x1b[2J" not in await shown(agents.thinker)
    assert "Done\\x1b[2J." in await shown(agents.thinker)


async def test_long_results_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line fits the terminal, and of many lines the first are shown."""
    monkeypatch.setenv("COLUMNS", "40")
    lines = (await shown(agents.liner, NO_COLOR="1")).splitlines()

    assert max(map(len, lines)) <= 40
    assert lines[0].startswith('-> lines(text="xxx')
    assert lines[1].startswith("<- 0 xxx")
    assert lines[6].startswith("   5 xxx")
    assert lines[7] == "   ... 14 more lines"
    assert lines[-1] == "ok"


async def test_failed_calls_are_marked() -> None:
    """An error's text is shown with the tool's name."""
    nobody = Agent("nobody", FunctionModel(agents.sum_up))

    assert "<- There is no tool 'add'; no tools are available.  [add failed]" in await shown(
        nobody, NO_COLOR="1"
    )


@pytest.mark.parametrize(
    ("text", "columns", "fitted"),
    [
        ("short", 5, "short"),
        ("too long", 7, "too ..."),
        ("日本語", 6, "日本語"),
        ("日本語です", 8, "日本..."),
        ("e\u0301e\u0301e\u0301e\u0301", 4, "e\u0301e\u0301e\u0301e\u0301"),
    ],
)
def test_cutting_counts_columns(text: str, columns: int, fitted: str) -> None:
    """Wide characters take two columns, accents none."""
    assert cut(text, columns) == fitted


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("tab\tand\nline\r\n", "tab\tand\nline\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("a\u202eb", "a\\u202eb"),
        ("\x9b2J", "\\x9b2J"),
    ],
)
def test_control_characters_are_made_visible(text: str, seen: str) -> None:
    """Escapes, carriage returns and direction marks could show something else than there is."""
    assert visible(text) == seen


def test_a_call_in_brief_is_one_line() -> None:
    """Line breaks in arguments are shown as such."""
    assert call_in_brief("f", {"a": "x\ny", "b": [1, None]}) == 'f(a="x\\ny", b=[1,null])'


def test_a_call_in_full_hides_nothing_silently() -> None:
    """Somebody who is asked sees all lines, or how many they do not see."""
    script = "\n".join(str(number) for number in range(100))
    told = call_in_full("bash", {"command": "rm -r \x1b[8mx", "script": script})

    assert told.startswith("bash:\n  command: rm -r \\x1b[8mx\n  script:\n    0\n")
    assert told.endswith("\n    59\n    [... 40 more lines that are not shown]")


async def test_retries_and_progress_are_told() -> None:
    """A failed attempt, a tool's progress and its second try each have a line."""
    tries: list[int] = []

    def upload(ctx: RunContext) -> str:
        """Upload something."""
        ctx.report("half\nway")
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("once")
        return "up"

    script = [raises(Overloaded("busy"), "I sh"), calls(("c1", "upload", {})), "done"]
    agent = Agent(
        "uploader",
        ScriptedModel(script),
        tools=[tool(retries=1)(upload)],
        retry=Retry(first_wait=0.001),
    )
    lines = (await shown(agent, NO_COLOR="1")).splitlines()

    assert lines[0] == "I sh"
    assert lines[1].startswith("[busy Asking again in 0.0 s.]")
    assert lines[2:4] == ["-> upload()", "   upload: half\\nway"]
    assert "   upload: attempt 2" in lines
    assert lines[-2:] == ["<- up", "done"]
    assert tries == [1, 2]


async def test_an_agent_that_is_asked_is_told_apart() -> None:
    """What it does is noted with its path; what it says is no part of the answer."""
    tools = [agents.adder.as_tool("ask")]
    model = ScriptedModel([calls(("c1", "ask", {"input": "20 + 3?"})), "It said so."])
    text = visible(await shown(Agent("boss", model, tools=tools), NO_COLOR="1"))

    path = agents.adder.name
    assert f"{path}#1 works on: 20 + 3?" in text
    assert f"{path}#1 -> add(a=20, b=3)" in text
    assert f"{path}#1 is done (answer)" in text
    assert text.count("It is 23.") == 1, "as the result of the call"
    assert text.rstrip().endswith("It said so.\\n") or text.rstrip().endswith("It said so.")


async def test_the_text_of_the_step_at_work_is_shown() -> None:
    """What is made of steps answers by one of them; which of them works is told."""
    text = await shown(agents.relay, NO_COLOR="1")

    assert "first#1 works on: go\nDone: go\n" in text
    assert "   last#1 works on: Done: go" in text
