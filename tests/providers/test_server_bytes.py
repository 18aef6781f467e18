"""What servers and models may write, in four protocols: none of it breaks or poisons anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from treadle import Agent, Price, Retry, Usage, tool
from treadle.errors import ModelError, RateLimited
from treadle.messages import Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelReply, ModelRequest, ToolSpec
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.testing.strict import Kind, strict

PROTOCOLS = ("openai_chat", "openai_responses", "anthropic", "gemini")
KINDS: dict[str, Kind] = {
    "openai_chat": "openai",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini3",
}
PRICE = Price(input=1, output=2, cache_read=0.1, cache_write=1.25)
ASKED = ModelRequest(messages=Thread([Message.user("hi")]))


class Answers:
    """A transport that gives these bodies, the last of them again and again."""

    def __init__(self, *bodies: bytes, status: int = 200, kind: str = "application/json") -> None:
        self._bodies = list(bodies)
        self.sent: list[Any] = []
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": kind}

    async def send(self, request: HttpRequest) -> Answers:
        self.sent.append(json.loads(request.body))
        return self

    async def read(self) -> bytes:
        return self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]

    async def pieces(self) -> AsyncIterator[bytes]:
        yield await self.read()

    async def close(self) -> None:
        """There is no connection."""


def model_of(protocol: str, answers: Answers) -> OpenAI | OpenAIResponses | Anthropic | Gemini:
    match protocol:
        case "openai_chat":
            return OpenAI("gpt-5.2", api_key="k", transport=answers)
        case "openai_responses":
            return OpenAIResponses("gpt-5.2", api_key="k", transport=answers)
        case "anthropic":
            return Anthropic("claude-sonnet-4-6", api_key="k", transport=answers)
        case _:
            return Gemini("gemini-3-flash-preview", api_key="k", transport=answers)


def body_of(
    protocol: str,
    block: str = '"said"',
    *,
    usage: str = "{}",
    name: str = '"m"',
    why: str | None = None,
    more: str = "0",
) -> bytes:
    """Return a reply of one text; every argument is JSON, so that it may be wrong."""
    head = f'"x":{more},"id":{name},"model":{name}'
    match protocol:
        case "openai_chat":
            said = f'{{"message":{{"content":{block}}},"finish_reason":{why or name}}}'
            text = f'{{{head},"choices":[{said}],"usage":{usage}}}'
        case "openai_responses":
            part = f'{{"type":"output_text","text":{block}}}'
            status = why or '"completed"'
            output = f'[{{"type":"message","content":[{part}]}}]'
            text = f'{{{head},"status":{status},"output":{output},"usage":{usage}}}'
        case "anthropic":
            said = f'"content":[{{"type":"text","text":{block}}}],"stop_reason":{why or name}'
            text = f'{{"type":"message",{head},{said},"usage":{usage}}}'
        case _:
            said = f'{{"content":{{"parts":[{{"text":{block}}}]}},"finishReason":{why or name}}}'
            named = f'"x":{more},"responseId":{name},"modelVersion":{name}'
            text = f'{{{named},"candidates":[{said}],"usageMetadata":{usage}}}'
    return text.encode("utf-8", "surrogatepass")


def call_of(protocol: str, raw: str) -> bytes:
    """Return a reply that calls `measure` with arguments as a model wrote them."""
    quoted = json.dumps(raw)
    match protocol:
        case "openai_chat":
            call = f'{{"id":"c1","function":{{"name":"measure","arguments":{quoted}}}}}'
            text = f'{{"choices":[{{"message":{{"tool_calls":[{call}]}}}}]}}'
        case "openai_responses":
            call = f'"call_id":"c1","name":"measure","arguments":{quoted}'
            text = f'{{"status":"completed","output":[{{"type":"function_call",{call}}}]}}'
        case "anthropic":
            call = f'{{"type":"tool_use","id":"c1","name":"measure","input":{raw}}}'
            text = f'{{"type":"message","stop_reason":"tool_use","content":[{call}]}}'
        case _:
            call = f'{{"functionCall":{{"name":"measure","args":{raw}}}}}'
            ends = '"finishReason":"STOP"'
            text = f'{{"candidates":[{{"content":{{"parts":[{call}]}},{ends}}}]}}'
    return text.encode()


def streamed(protocol: str, body: bytes) -> bytes:
    """Return a reply as an event of a stream."""
    if protocol == "openai_responses":
        body = b'{"type":"response.completed","response":' + body + b"}"
    if protocol == "anthropic":
        return b"data: " + body + b'\n\ndata: {"type":"message_stop"}\n\n'
    return b"data: " + body + b"\n\n"


async def replied(protocol: str, body: bytes, *, stream: bool, status: int = 200) -> ModelReply:
    """Return what a body is read as, in one piece or as a stream."""
    if not stream:
        return await model_of(protocol, Answers(body, status=status)).complete(ASKED)
    answers = Answers(streamed(protocol, body), status=status, kind="text/event-stream")
    last = [delta async for delta in model_of(protocol, answers).stream(ASKED)][-1]
    assert isinstance(last, ModelReply)
    return last


def nested(depth: int, core: str = "") -> str:
    return "[" * depth + core + "]" * depth


DEEP = {
    "deeper than Python's stack": f'{{"a":{nested(5000)}}}',
    "as deep as it": f'{{"a":{nested(1100)}}}',
    "a little less": f'{{"a":{nested(985)}}}',
    "half of it, and half a pair": f'{{"a":["\\ud83d",{nested(600)}]}}',
    "a third of it": f'{{"a":{nested(340)}}}',
    "in objects": '{"a":' * 700 + "1" + "}" * 700,
    "more digits than are read": f'{{"a":[{"9" * 5000}]}}',
}


@pytest.mark.parametrize("raw", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arguments_that_nobody_can_read_are_told_and_go_on(protocol: str, raw: str) -> None:
    """The model hears that they are bad, and every provider takes the conversation."""
    ran: list[int] = []

    @tool
    def measure(a: list[int]) -> str:
        ran.append(len(a))
        return "ok"

    answers = Answers(call_of(protocol, raw), body_of(protocol, '"done"', why='"stop"'))
    result = Agent("a", model=model_of(protocol, answers), tools=[measure]).run_sync("go")
    (told,) = (each for message in result.messages for each in message.tool_results)
    assert (result.output, ran, told.is_error) == ("done", [], True)
    assert "not valid" in told.text
    for other in PROTOCOLS:
        answers = Answers(body_of(other, '"and on"', why='"stop"'))
        agent = Agent("a", model=model_of(other, answers), tools=[measure])
        assert agent.run_sync("on", history=result.messages).output == "and on"
        assert strict(KINDS[other])(json.dumps(answers.sent[0]).encode()) == []


@pytest.mark.parametrize("raw", ['{"a":' + "[" * 5000, '{"a":[', "[" * 300 + "]" * 300, "\ud83d"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stored_call_goes_to_every_provider(protocol: str, raw: str) -> None:
    """What a history holds already is sent as an object, too."""
    said = Message("assistant", (ToolCall("c1", "measure", raw),))
    heard = Message("tool", (ToolResult("c1", "measure", (Text("bad"),)),))
    answers = Answers(body_of(protocol))
    thread = Thread([Message.user("hi"), said, heard])
    await model_of(protocol, answers).complete(ModelRequest(messages=thread))
    assert "not_a_json_object" in json.dumps(answers.sent[0])


@pytest.mark.parametrize("depth", [190, 340, 500, 990, 3000, 100_000])
@pytest.mark.parametrize("text", ['"a\\ud83d"', '"a\\u0000"', '"a\udcff"', '"a"'])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_fields_of_any_depth_harm_nobody(protocol: str, text: str, depth: int) -> None:
    """A field that is nested deeply is no reason to lose a reply, or to raise something untyped."""
    body = body_of(protocol, text, why='"stop"', more=nested(depth))
    for stream in (False, True):
        reply = await replied(protocol, body, stream=stream)
        assert reply.message.text.startswith("a")
        msgspec.json.encode(reply)
        error = f'{{"error":{{"message":{text},"details":[{nested(depth)}]}}}}'
        with pytest.raises(ModelError):
            await replied(
                protocol, error.encode("utf-8", "surrogatepass"), stream=stream, status=400
            )


NAMES = {
    "openai_chat": ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "cost"),
    "openai_responses": ("input_tokens", "output_tokens", "total_tokens", "cost"),
    "anthropic": (
        *("input_tokens", "output_tokens", "cache_read_input_tokens"),
        "cache_creation_input_tokens",
    ),
    "gemini": (
        *("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount"),
        *("cachedContentTokenCount", "toolUsePromptTokenCount"),
    ),
}
ABSURD = ("-1000000", "-5.5", '"-7"', "true", '"x"', "1e400", "-1e400", "NaN", '"NaN"', '"sNaN"')
ABSURD_TOO = ("9" * 30, "9" * 5000, "-1" + "0" * 30, "[]", "{}", "null", "1e99999", '"1e999999"')


@pytest.mark.parametrize("value", [*ABSURD, *ABSURD_TOO])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_counts_that_cannot_be_lower_no_spend(protocol: str, value: str) -> None:
    """Below nothing, beyond everything, no number at all: it counts as unknown."""
    for name in NAMES[protocol]:
        for stream in (False, True):
            usage = f'{{"{name}":{value}}}'
            body = body_of(protocol, usage=usage, why='"stop"')
            counted = (await replied(protocol, body, stream=stream)).usage
            assert counted in (Usage(requests=1), Usage(requests=1, cost=counted.cost))
            assert 0 <= counted.cost <= 1
            msgspec.json.encode(counted)


CACHED = {
    "openai_chat": '{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":1000}}',
    "openai_responses": '{"input_tokens":10,"input_tokens_details":{"cached_tokens":1000}}',
    "anthropic": '{"input_tokens":-10,"cache_read_input_tokens":1000}',
    "gemini": '{"promptTokenCount":10,"cachedContentTokenCount":1000}',
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_cache_never_holds_more_than_all(protocol: str) -> None:
    """More tokens from a cache than tokens would make the others cost less than nothing."""
    body = body_of(protocol, usage=CACHED[protocol], why='"stop"')
    usage = (await replied(protocol, body, stream=False)).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (1000, 1000)
    assert PRICE.cost(usage) > 0


@pytest.mark.parametrize("name", ['"\\ud83d"', '"a\\u0000b"', '"\\ud83d\\u0000"', '"\udcff"'])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_text_of_a_reply_is_clean(protocol: str, name: str) -> None:
    """IDs, models and reasons, too: a store takes the reply, and so does the next request."""
    for stream in (False, True):
        for why in (None, '"stop"'):
            body = body_of(protocol, name, name=name, why=why)
            reply = await replied(protocol, body, stream=stream)
            written = msgspec.json.encode(reply)
            assert b"\\u0000" not in written
            assert "\ufffd" in reply.model
            assert "\ufffd" in (reply.response_id or "")
            assert reply.provider_finish


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_error_in_a_stream_is_clean(protocol: str) -> None:
    """Its words go into logs and stores."""
    error = b'{"type":"error","error":{"message":"a\\ud83d\\u0000b","code":"c\\u0000"}}'
    answers = Answers(b"data: " + error + b"\n\n", kind="text/event-stream")
    with pytest.raises(ModelError) as caught:
        _ = [delta async for delta in model_of(protocol, answers).stream(ASKED)]
    f"{caught.value}{caught.value.code}".encode()
    assert "\0" not in f"{caught.value}{caught.value.code}"


DELAYS = {
    '{"seconds":"abc"}': None,
    '{"seconds":{}}': None,
    '{"nanos":[1]}': None,
    '{"seconds":"nan"}': None,
    '{"seconds":"-5"}': None,
    '{"seconds":true}': None,
    '{"seconds":"9e999"}': None,
    f'"{"9" * 400}s"': None,
    '"s"': None,
    "5": None,
    '{"seconds":"3","nanos":500000000}': 3.5,
    '"1.5s"': 1.5,
}


@pytest.mark.parametrize(("delay", "wait"), DELAYS.items())
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_wait_that_is_none_is_none(protocol: str, delay: str, wait: float | None) -> None:
    """What Google's details ask for may be anything."""
    violation = '{"violations":[{"quotaId":{"a":1},"quotaMetric":5}]}'
    error = f'{{"error":{{"message":"slow","details":[{{"retryDelay":{delay}}},{violation}]}}}}'
    with pytest.raises(RateLimited) as caught:
        await replied(protocol, error.encode(), stream=False, status=429)
    assert caught.value.retry_after == wait


def test_words_that_ask_to_wait_for_ever() -> None:
    """A number of seconds may be longer than any wait."""
    error = f'{{"error":{{"message":"retry in {"9" * 400}s"}}}}'.encode()
    model = model_of("gemini", Answers(error, status=429))
    with pytest.raises(RateLimited) as caught:
        Agent("a", model=model, retry=Retry(attempts=1)).run_sync("hi")
    assert caught.value.retry_after is None


@pytest.mark.parametrize("name", ["", "measure"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_call_and_its_result_have_one_name(protocol: str, name: str) -> None:
    """Also where the model named no tool."""
    said = Message("assistant", (ToolCall("c1", name, "{}"),))
    heard = Message("tool", (ToolResult("c1", name, (Text("no such tool"),)),))
    answers = Answers(body_of(protocol))
    thread = Thread([Message.user("hi"), said, heard, Message.user("on")])
    await model_of(protocol, answers).complete(ModelRequest(messages=thread))
    assert '"name": ""' not in json.dumps(answers.sent[0])
    if protocol == "gemini":
        parts = [part for each in answers.sent[0]["contents"] for part in each["parts"]]
        names = {inner["name"] for part in parts for inner in part.values() if "name" in inner}
        assert names == {name or "_"}


SILENT: tuple[list[Message], ...] = (
    [],
    [Message("user", ())],
    [Message("user", (Text(""),))],
    [Message("assistant", ())],
)


@pytest.mark.parametrize("messages", SILENT)
@pytest.mark.parametrize("system", ["", "Be brief."])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_list_of_messages_is_empty(
    protocol: str, system: str, messages: list[Message]
) -> None:
    """Every server refuses that."""
    answers = Answers(body_of(protocol))
    asked = ModelRequest(messages=Thread(messages), system=system)
    await model_of(protocol, answers).complete(asked)
    body = answers.sent[0]
    assert body.get("messages") or body.get("input") or body.get("contents")


SCHEMAS: tuple[dict[str, Any], ...] = (
    {},
    {"type": "array", "items": {}},
    {"type": 5},
    {"anyOf": [{"type": "object"}, {"type": "string"}]},
    {"$ref": "#/$defs/X", "$defs": {"X": {"type": "object"}}},
    {"properties": {"a": {"type": "string"}}},
)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_parameters_are_an_object(protocol: str, schema: dict[str, Any]) -> None:
    """Whatever somebody's own ToolSpec says; what was taken out is said in words."""
    answers = Answers(body_of(protocol))
    offered = (ToolSpec("measure", "", schema),)
    request = ModelRequest(messages=Thread([Message.user("hi")]), tools=offered)
    await model_of(protocol, answers).complete(request)
    (given,) = answers.sent[0]["tools"]
    given = given.get("functionDeclarations", [given.get("function", given)])[0]
    names = ("parameters", "input_schema", "parametersJsonSchema")
    sent = next((given[name] for name in names if name in given), {"type": "object"})
    assert sent["type"] == "object"
    assert "anyOf" not in schema or "anyOf" not in sent
    assert ("satisfy" in given.get("description", "")) == ("anyOf" in schema)
