"""`treadle run`: the question, the answer in each form, and the exit code."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.cli.conftest import Treadle

AGENTS = "tests.cli.agents"


def test_the_answer_is_printed(treadle: Treadle) -> None:
    """Only the answer is on standard output, and nothing on the other."""
    ended = treadle("run", f"{AGENTS}:adder", "20 + 3?")

    assert (ended.code, ended.out, ended.err) == (0, "It is 23.\n", "")


@pytest.mark.parametrize(
    ("words", "stdin", "heard"),
    [
        ([f"{AGENTS}:counter", "hello"], "not read", "1: hello"),
        ([f"{AGENTS}:counter", "-"], "from a pipe\n", "1: from a pipe"),
        ([f"{AGENTS}:counter"], "from a pipe\n", "1: from a pipe"),
        ([f"{AGENTS}:counter", "Sum up:", "-"], "text\n", "1: Sum up:\n\ntext"),
    ],
)
def test_the_question_may_come_from_a_pipe(
    treadle: Treadle, words: list[str], stdin: str, heard: str
) -> None:
    """Standard input is read for `-`, and when there is no question."""
    assert treadle("run", *words, stdin=stdin).out == f"{heard}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "There is no question"),
        ([" "], "There is no question"),
        (["-"], "There is no question"),
        ([f"{AGENTS}:counter"], "There is no question"),
        (["--"], "There is no question"),
        (["foo:bar"], "If 'foo:bar' is the question, write: treadle run -- foo:bar"),
        (["a", "b", "--", "c"], "'b' is one word too many: the question stands after --."),
        (["hello", "--model", "openai:"], "The name of the model is empty; write which"),
        (["what", "is"], "'what' names no agent; write module:attribute"),
        (["what", "is", "this?"], "'this?' is one word too many; put the question in quotes"),
        (["hello", "--model", "nobody:x"], "names no installed provider"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage(treadle: Treadle, words: list[str], told: str) -> None:
    """One line says what to write instead."""
    ended = treadle("run", *words)

    assert ended.code == 2
    assert told in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--json", f"{AGENTS}:counter", "hello"],
        [f"{AGENTS}:counter", "--json", "hello"],
        [f"{AGENTS}:counter", "hello", "--json"],
        [f"{AGENTS}:counter", "--json", "--", "hello"],
    ],
)
def test_options_may_stand_anywhere(treadle: Treadle, words: list[str]) -> None:
    """Before, between and after the words."""
    assert json.loads(treadle("run", *words).out)["output"] == "1: hello"


@pytest.mark.parametrize("question", ["--help me", "foo:bar", f"{AGENTS}:adder", "-", "a -- b"])
def test_after_two_dashes_all_is_the_question(treadle: Treadle, question: str) -> None:
    """Words that look like an option, an agent or standard input can be asked, too."""
    ended = treadle("run", f"{AGENTS}:counter", "--", *question.split(), stdin="not read")

    assert (ended.code, ended.out) == (0, f"1: {question}\n")


def test_a_module_that_is_none_may_be_a_question(treadle: Treadle) -> None:
    """With a question from a pipe, too, the error says how to ask the word itself."""
    ended = treadle("run", "foo:bar", stdin="text")

    assert ended.code == 2
    assert "There is no module 'foo'" in ended.err
    assert ended.err.endswith("write: treadle run -- foo:bar\n")


class _Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("screen", "count"), [(_Screen(), 1), (io.StringIO(), 0)])
def test_loading_the_local_model_is_told(
    treadle: Treadle, monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, count: int
) -> None:
    """Once, on a terminal only; here the file it names is no model, so nothing is loaded."""
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", __file__)
    monkeypatch.setattr("sys.stderr", screen)
    ended = treadle("run", "hello", "--model", "local:")

    assert ended.code in (1, 2)
    assert screen.getvalue().count("loading the model ...\n") == count


def test_streaming_shows_text_and_calls(treadle: Treadle) -> None:
    """Text goes to standard output as it comes, each reply on its line; calls go to stderr."""
    ended = treadle("run", f"{AGENTS}:adder", "20 + 3?", "--stream")

    assert ended.out == "Let me see.\nIt is 23.\n"
    assert ended.err == "-> add(a=20, b=3)\n<- 23\n"


def test_json_is_one_object(treadle: Treadle) -> None:
    """--json prints everything that a program wants to know, on one line."""
    ended = treadle("run", f"{AGENTS}:adder", "20 + 3?", "--json")

    record = json.loads(ended.out)
    assert ended.out.count("\n") == 1
    assert record["output"] == "It is 23."
    assert record["stop_reason"] == "answer"
    assert record["error"] is None
    assert record["usage"]["requests"] == 2
    assert record["usage"]["input_tokens"] == 0
    assert record["run_id"].startswith("run_")
    assert record["conversation_id"].startswith("conv_")
    assert record["tool_results"] == [
        {"call_id": "c1", "name": "add", "output": "23", "is_error": False}
    ]


def test_a_typed_output_stays_a_value(treadle: Treadle) -> None:
    """A list is JSON in text, and a list in JSON."""
    plain = treadle("run", f"{AGENTS}:finisher", "numbers")
    streamed = treadle("run", f"{AGENTS}:finisher", "numbers", "--stream")
    record = json.loads(treadle("run", f"{AGENTS}:finisher", "numbers", "--json").out)

    assert plain.out == streamed.out == "[1,2]\n"
    assert record["output"] == [1, 2]


def test_a_typed_output_is_streamed_once(treadle: Treadle) -> None:
    """JSON that came as text is not printed again; without streaming it is the value's own."""
    streamed = treadle("run", f"{AGENTS}:extractor", "page?", "--stream")
    plain = treadle("run", f"{AGENTS}:extractor", "page?")

    assert streamed.out == '{"number": 7}\n'
    assert plain.out == '{"number":7}\n'


def test_json_streams_events(treadle: Treadle) -> None:
    """--stream --json prints each event on a line, the last of them the end of the run."""
    ended = treadle("run", f"{AGENTS}:adder", "20 + 3?", "--stream", "--json")

    events: list[dict[str, Any]] = [json.loads(line) for line in ended.out.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run.started"
    assert kinds[-1] == "run.finished"
    assert "tool.finished" in kinds
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert ended.err == ""


def test_a_failed_run_is_1(treadle: Treadle) -> None:
    """The error is one line on stderr, also when its text has several."""
    ended = treadle("run", f"{AGENTS}:failing", "hello")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "treadle: The key was refused. Check it.\n"


def test_a_failed_run_in_json_says_why(treadle: Treadle) -> None:
    """The object has the error's type and text, and what there was."""
    ended = treadle("run", f"{AGENTS}:failing", "hello", "--json")

    record = json.loads(ended.out)
    assert ended.code == 1
    assert record["stop_reason"] == "failed"
    assert record["error"] == {
        "type": "AuthenticationFailed",
        "message": "The key was refused.\nCheck it.",
    }
    assert record["output"] == "Well, "


def test_turns_can_be_limited(treadle: Treadle) -> None:
    """With one turn the model must answer at once, and stderr says why."""
    ended = treadle("run", f"{AGENTS}:counter", "hello", "--max-turns", "1")
    limited = treadle("run", f"{AGENTS}:adder", "20 + 3?", "--max-turns", "1")

    assert (ended.code, ended.err) == (0, "")
    assert limited.code == 0
    assert "treadle: the run stopped (limit)." in limited.err


def test_what_is_passed_on_is_not_changed(treadle: Treadle) -> None:
    """Into a pipe goes the text as it is, control characters too, and no reasoning."""
    ended = treadle("run", f"{AGENTS}:thinker", "hello", "--stream")

    assert ended.out == "Done\x1b[2J.\n"
