"""The request body: encoded once, right after any change, merged where templates want it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.messages import Image, Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.dialect import ChatDialect
from treadle.testing.strict import assert_strict

PLAIN = ChatDialect(host="localhost:8000")
ALTERNATING = replace(PLAIN, merge_roles=True)
NO_SYSTEM = replace(PLAIN, system_role=False)
TEMPLATE = replace(PLAIN, merge_roles=True, system_role=False)


def body(encoder: ChatEncoder, thread: Thread, system: str = "", **fields: Any) -> bytes:
    """Return the body of a request."""
    return encoder.body(ModelRequest(messages=thread, system=system, **fields), stream=False)


def messages(encoder: ChatEncoder, thread: Thread, system: str = "") -> list[dict[str, Any]]:
    """Return the messages of a request."""
    return json.loads(body(encoder, thread, system))["messages"]


def turn(number: int) -> list[Message]:
    """Return a call and its result."""
    call = ToolCall(f"c{number}", "ls", f'{{"n":{number}}}')
    return [Message.assistant(call), Message("tool", (ToolResult(call.id, "ls", (Text("x"),)),))]


def test_a_long_thread_is_the_same_as_one_encoded_at_once() -> None:
    """Turn after turn, over the point where old messages become one piece."""
    encoder = ChatEncoder("m", PLAIN)
    thread = Thread([Message.user("go")])
    for number in range(120):
        thread.extend(turn(number))
        assert body(encoder, thread, "s") == body(
            ChatEncoder("m", PLAIN), Thread(list(thread)), "s"
        )
    assert_strict(body(encoder, thread, "s"))


def test_a_message_is_encoded_once() -> None:
    """What was encoded is not looked at again: a changed encoder of one message would not show."""
    encoder = ChatEncoder("m", PLAIN)
    thread = Thread([Message.user("go")])
    first = body(encoder, thread)
    kept = next(iter(thread.encoded.values()))
    assert body(encoder, thread) == first
    assert next(iter(thread.encoded.values())) is kept
    thread.append(Message.user("on"))
    body(encoder, thread)
    assert next(iter(thread.encoded.values())).chunks[1] is kept.chunks[1]


def test_models_on_one_server_share_what_was_encoded() -> None:
    """Another model of the same habits continues; other habits have bytes of their own."""
    thread = Thread([Message.user("go")])
    body(ChatEncoder("a", PLAIN), thread)
    body(ChatEncoder("b", replace(PLAIN)), thread)
    assert len(thread.encoded) == 1
    body(ChatEncoder("b", replace(PLAIN, vision=False)), thread)
    assert len(thread.encoded) == 2


def test_forks_do_not_disturb_each_other() -> None:
    """Threads made from one history share its bytes and go their own ways."""
    encoder = ChatEncoder("m", PLAIN)
    history = Thread([Message.user("go"), *turn(1)])
    body(encoder, history)
    forks = [Thread(history) for _ in range(3)]
    for step in range(3):
        for number, fork in enumerate(forks):
            fork.append(Message.user(f"{number} {step}"))
            assert messages(encoder, fork) == messages(ChatEncoder("m", PLAIN), Thread(list(fork)))
    assert len(messages(encoder, history)) == 3


def test_equal_is_not_the_same_for_opaque_data() -> None:
    """True equals 1, and is another byte on the wire."""
    encoder = ChatEncoder("m", PLAIN)

    def marked(value: object) -> Message:
        return Message("user", (Text("a"),), {"openai_chat": {"mark": value}})

    thread = Thread([marked(1)])
    assert messages(encoder, thread)[0]["mark"] is not True
    thread[0] = marked(True)
    assert messages(encoder, thread)[0]["mark"] is True


POOL = [
    Message.user("a"),
    Message.user("b", Image.from_url("http://x/y")),
    Message.assistant("c"),
    Message.assistant("   "),
    Message.assistant("", ToolCall("c1", "f")),
    Message("tool", (ToolResult("c1", "f", (Text("r"),)), ToolResult("c2", "f"))),
    Message("tool", (ToolResult("c1", "f", (Image.from_url("http://x/y"),)),)),
    Message.system("s"),
    Message("user", (Text("o"),), {"openai_chat": {"name": "n"}}),
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
    dialect=st.sampled_from([PLAIN, ALTERNATING, NO_SYSTEM, TEMPLATE]),
    system=st.sampled_from(["", "be nice"]),
)
def test_any_change_of_the_list_is_seen(
    edits: list[tuple[str, int, Message]], dialect: ChatDialect, system: str
) -> None:
    """Whatever is done to a thread between requests, its bytes are those of a fresh one."""
    encoder = ChatEncoder("m", dialect)
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
        fresh = body(ChatEncoder("m", dialect), Thread(list(thread)), system)
        assert body(encoder, thread, system) == fresh


def test_tools_and_settings_are_kept_by_identity() -> None:
    """Equal ones made anew are encoded anew, and nothing grows without end."""
    encoder = ChatEncoder("m", PLAIN)
    for number in range(600):
        spec = ToolSpec("ls", str(number), {"type": "object"})
        schema = OutputSchema(str(number), {"type": "object"})
        settings = ModelSettings(seed=number)
        made = json.loads(
            body(
                encoder,
                Thread([Message.user("go")]),
                str(number),
                tools=(spec,),
                settings=settings,
                output=schema,
            )
        )
        assert made["tools"][0]["function"]["description"] == str(number)
        assert made["response_format"]["json_schema"]["name"] == str(number)
        assert made["seed"] == number
        assert made["messages"][0]["content"] == str(number)


def test_the_clients_settings_are_under_those_of_the_request() -> None:
    """What the request sets wins, the rest stays."""
    encoder = ChatEncoder("m", PLAIN, ModelSettings(temperature=0.1, seed=1))
    made = json.loads(body(encoder, Thread([Message.user("a")]), settings=ModelSettings(seed=2)))
    assert (made["temperature"], made["seed"]) == (0.1, 2)


CANCELLED = [
    Message.user("one"),
    Message.user("two"),
    Message.assistant("", ToolCall("c1", "f")),
    Message("tool", (ToolResult("c1", "f", (Text("r"),)),)),
    Message.user("steered"),
    Message.assistant(" "),
    Message.user("three", Image.from_url("http://x/y")),
    Message.assistant("four"),
    Message.assistant("five", ToolCall("c2", "f")),
    Message("tool", (ToolResult("c2", "f", (Text("r"),)),)),
]


def test_neighbours_merge_where_templates_want_turns() -> None:
    """BS-26: order and a separator are kept, and the thread still holds the messages apart."""
    thread = Thread(CANCELLED)
    made = json.loads(body(ChatEncoder("m", ALTERNATING), thread, "be nice"))
    assert_strict(made, "template")
    roles = [wire["role"] for wire in made["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user", "assistant", "tool"]
    assert made["messages"][1]["content"] == "one\n\ntwo"
    assert made["messages"][4]["content"] == [
        {"type": "text", "text": "steered"},
        {"type": "text", "text": "three"},
        {"type": "image_url", "image_url": {"url": "http://x/y"}},
    ]
    assert made["messages"][5]["content"] == "four\n\nfive"
    assert [call["id"] for call in made["messages"][5]["tool_calls"]] == ["c2"]
    assert thread == CANCELLED


def test_a_server_without_system_role_reads_it_from_the_user() -> None:
    """The system prompt stands at the head of the first user message, or is one of its own."""
    wires = messages(
        ChatEncoder("m", NO_SYSTEM), Thread([Message.user("a"), Message.user("b")]), "s"
    )
    assert [wire["content"] for wire in wires] == ["s\n\na", "b"]
    assert messages(ChatEncoder("m", NO_SYSTEM), Thread(), "s") == [
        {"role": "user", "content": "s"}
    ]
    wires = messages(ChatEncoder("m", NO_SYSTEM), Thread([Message.assistant("a")]), "s")
    assert [wire["role"] for wire in wires] == ["user", "assistant"]
    made = body(ChatEncoder("m", TEMPLATE), Thread(CANCELLED), "be nice")
    assert_strict(made, "template")
    assert json.loads(made)["messages"][0]["content"] == "be nice\n\none\n\ntwo"


def test_a_changed_system_prompt_is_seen() -> None:
    """Also where it is part of the first user message."""
    for dialect in (PLAIN, TEMPLATE):
        encoder, thread = ChatEncoder("m", dialect), Thread([Message.user("a")])
        for system in ("one", "two", "one", ""):
            fresh = body(ChatEncoder("m", dialect), Thread(list(thread)), system)
            assert body(encoder, thread, system) == fresh
