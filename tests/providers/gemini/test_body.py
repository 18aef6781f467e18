"""The request body: encoded once, right after any change, in turns."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.providers.gemini.parts import SECOND, THIRD, VERTEX
from treadle.messages import Image, Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.dialect import GeminiDialect
from treadle.testing.strict import assert_strict


def body(encoder: GeminiEncoder, thread: Thread, system: str = "", **fields: Any) -> bytes:
    """Return the body of a request."""
    return encoder.body(ModelRequest(messages=thread, system=system, **fields))


def turn(number: int) -> list[Message]:
    """Return a call and its result."""
    call = ToolCall(f"c{number}", "ls", f'{{"n":{number}}}')
    return [Message.assistant(call), Message("tool", (ToolResult(call.id, "ls", (Text("x"),)),))]


def test_a_long_thread_is_the_same_as_one_encoded_at_once() -> None:
    """Turn after turn, over the point where old turns become one piece."""
    encoder = GeminiEncoder(THIRD)
    thread = Thread([Message.user("go")])
    for number in range(120):
        thread.extend(turn(number))
        assert body(encoder, thread, "s") == body(GeminiEncoder(THIRD), Thread(list(thread)), "s")
    assert_strict(body(encoder, thread, "s"), "gemini3")


def test_a_message_is_encoded_once() -> None:
    """What was encoded is kept; neighbours that merge do not encode each other again."""
    encoder = GeminiEncoder(SECOND)
    thread = Thread([Message.user("go"), *turn(1)])
    first = body(encoder, thread)
    kept = next(iter(thread.encoded.values()))
    assert body(encoder, thread) == first
    assert next(iter(thread.encoded.values())) is kept
    thread.append(Message.assistant("on"))
    body(encoder, thread)
    later = next(iter(thread.encoded.values()))
    assert later.chunks[1] is kept.chunks[1]
    thread.append(Message.assistant("and on"))
    body(encoder, thread)
    assert next(iter(thread.encoded.values())).parts[0] is later.parts[0]


def test_forks_do_not_disturb_each_other() -> None:
    """Threads made from one history share its bytes and go their own ways."""
    encoder = GeminiEncoder(THIRD)
    history = Thread([Message.user("go"), *turn(1)])
    body(encoder, history)
    forks = [Thread(history) for _ in range(3)]
    for step in range(3):
        for number, fork in enumerate(forks):
            fork.append(Message.user(f"{number} {step}"))
            assert body(encoder, fork) == body(GeminiEncoder(THIRD), Thread(list(fork)))


POOL = [
    Message.user("a"),
    Message.user("b", Image.from_url("http://x/y")),
    Message.assistant("c"),
    Message.assistant("   "),
    Message("assistant", ()),
    Message.assistant("", ToolCall("c1", "f"), ToolCall("c2", "f")),
    Message("tool", (ToolResult("c1", "f", (Text("r"),)), ToolResult("c2", "f"))),
    Message("tool", (ToolResult("c1", "f", (Image.from_url("http://x/y"),)),)),
    Message.system("s"),
    Message("user", (Text("o"),), {"gemini": {"role": "function"}}),
    Message("user", (Text("o"),), {"gemini": {"@turn": "apart"}}),
    Message("user", (Text("o"),), {"gemini": {"@turn": "joined"}}),
]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "insert", "replace", "remove", "cut", "clear", "copy"]),
        st.integers(0, 100),
        st.sampled_from(POOL),
    ),
    max_size=60,
)


@given(
    edits=EDITS,
    dialect=st.sampled_from([SECOND, THIRD, VERTEX]),
    system=st.sampled_from(["", "be nice"]),
)
def test_any_change_of_the_list_is_seen(
    edits: list[tuple[str, int, Message]], dialect: GeminiDialect, system: str
) -> None:
    """Whatever is done to a thread between requests, its bytes are those of a fresh one."""
    encoder = GeminiEncoder(dialect)
    thread = Thread(POOL[:2] * 40)
    for edit, number, message in edits:
        place = number % (len(thread) + 1)
        match edit:
            case "append":
                thread.append(message)
            case "insert":
                thread.insert(place, message)
            case "replace":
                thread[place : place + 1] = [message]
            case "remove":
                del thread[place : place + 1]
            case "cut":
                del thread[place:]
            case "clear":
                thread.clear()
            case _:
                thread = Thread(thread)
        fresh = body(GeminiEncoder(dialect), Thread(list(thread)), system)
        assert body(encoder, thread, system) == fresh


def test_tools_and_settings_are_kept_by_identity() -> None:
    """Equal ones made anew are encoded anew, and nothing grows without end."""
    encoder = GeminiEncoder(THIRD, ModelSettings(temperature=0.1))
    for number in range(600):
        made = json.loads(
            body(
                encoder,
                Thread([Message.user("go")]),
                str(number),
                tools=(ToolSpec("ls", str(number), {"type": "object"}),),
                settings=ModelSettings(seed=number),
                output=OutputSchema(str(number), {"type": "object", "title": str(number)}),
            )
        )
        assert made["tools"][0]["functionDeclarations"][0]["description"] == str(number)
        assert made["generationConfig"]["responseJsonSchema"]["title"] == str(number)
        assert made["generationConfig"]["seed"] == number
        assert made["generationConfig"]["temperature"] == 0.1
        assert made["systemInstruction"]["parts"][0]["text"] == str(number)


def test_extra_body_may_replace_the_contents() -> None:
    """For requests that our messages cannot say."""
    contents = [{"parts": [{"text": "mine"}], "role": "user"}]
    settings = ModelSettings(extra_body={"contents": contents, "cachedContent": "c/1"}, seed=1)
    made = json.loads(body(GeminiEncoder(THIRD), Thread([Message.user("a")]), settings=settings))
    assert made == {
        "contents": contents,
        "cachedContent": "c/1",
        "generationConfig": {"seed": 1},
    }


def test_text_is_clean_on_the_way_out() -> None:
    """NUL and half surrogate pairs reach no server."""
    thread = Thread(
        [Message("user", (Text("a\0\ud83d"),)), Message("tool", (ToolResult("c", "f"),))]
    )
    made = json.loads(body(GeminiEncoder(SECOND), thread, "s\0"))
    assert made["contents"][0]["parts"][0]["text"] == "a\ufffd\ufffd"
    assert made["systemInstruction"]["parts"][0]["text"] == "s\ufffd"
