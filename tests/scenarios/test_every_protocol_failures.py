"""Errors inside of streams, refusals and filters on every protocol: BS-19 and BS-27."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from tests.scenarios.every_line import connect, on_every, saying, stream, streamed
from tests.scenarios.every_protocol import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    Api,
    Call,
    Reply,
    Wire,
)
from tests.scenarios.provider import ask, patient, watch
from tests.servers import Answer, whole
from treadle import (
    Agent,
    AnswerStored,
    ContentFiltered,
    ContextOverflow,
    IncompleteReply,
    MemoryStore,
    ModelError,
    Overloaded,
    RateLimited,
    tool,
)
from treadle.journal import RunEnded

HALF = Reply(texts=("Hello ", "wor"))
HELLO = Reply(texts=("Hello ", "world"))


def responses_error(code: str, message: str) -> Wire:
    """An error event, as OpenAI documents it."""
    fields = {"code": code, "message": message, "param": None, "sequence_number": 3}
    return {"type": "error", **fields}


def responses_failed(code: str, message: str) -> Wire:
    """The last event of a response that failed."""
    error = {"code": code, "message": message}
    response = {"id": "resp_1", "object": "response", "status": "failed", "error": error}
    return {"type": "response.failed", "response": {**response, "output": []}}


def anthropic_error(kind: str, message: str) -> Wire:
    """An error event of Anthropic."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def google_error(code: int, status: str, message: str) -> Wire:
    """An error of Google."""
    return {"error": {"code": code, "message": message, "status": status}}


def chat_error(message: str, **fields: Any) -> Wire:
    """An error of OpenAI, or of who speaks its protocol."""
    return {"error": {"message": message, **fields}}


PASSES: dict[str, tuple[Api, Wire, type[ModelError]]] = {
    "chat server_error": (CHAT, chat_error("Sorry", type="server_error"), Overloaded),
    "chat 503 as text": (CHAT, chat_error("later", code="503"), Overloaded),
    "chat 429": (CHAT, chat_error("slow down", code=429), RateLimited),
    "responses error": (RESPONSES, responses_error("server_error", "Sorry"), Overloaded),
    "responses failed": (RESPONSES, responses_failed("server_error", "Sorry"), Overloaded),
    "responses limit": (
        RESPONSES,
        responses_failed("rate_limit_exceeded", "Rate limit reached"),
        RateLimited,
    ),
    "anthropic": (ANTHROPIC, anthropic_error("overloaded_error", "Overloaded"), Overloaded),
    "anthropic api": (ANTHROPIC, anthropic_error("api_error", "Internal"), Overloaded),
    "anthropic limit": (ANTHROPIC, anthropic_error("rate_limit_error", "slow"), RateLimited),
    "gemini": (GEMINI, google_error(503, "UNAVAILABLE", "overloaded"), Overloaded),
    "gemini limit": (GEMINI, google_error(429, "RESOURCE_EXHAUSTED", "slow"), RateLimited),
}
STAYS: dict[str, tuple[Api, Wire, type[ModelError]]] = {
    "chat": (CHAT, chat_error("context too long", code=400), ContextOverflow),
    "chat invalid": (CHAT, chat_error("no", type="invalid_request_error", code=400), ModelError),
    "responses": (RESPONSES, responses_error("invalid_prompt", "no"), ModelError),
    "responses failed": (
        RESPONSES,
        responses_failed("context_length_exceeded", "too many tokens"),
        ContextOverflow,
    ),
    "anthropic": (ANTHROPIC, anthropic_error("invalid_request_error", "no"), ModelError),
    "anthropic overflow": (
        ANTHROPIC,
        anthropic_error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ContextOverflow,
    ),
    "gemini": (GEMINI, google_error(400, "INVALID_ARGUMENT", "no"), ModelError),
    "gemini overflow": (
        GEMINI,
        google_error(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum"),
        ContextOverflow,
    ),
}


@pytest.mark.parametrize(("api", "error", "kind"), PASSES.values(), ids=PASSES)
async def test_an_error_in_a_stream_that_passes(
    api: Api, error: Wire, kind: type[ModelError]
) -> None:
    """BS-19: it has its type and the text so far, and a further attempt replaces that."""
    broken = stream(*api.begun(HALF), error)
    retry, clock = patient(2)
    async with connect(api, broken, stream(*streamed(api, HELLO)), broken) as line:
        agent = Agent("a", line.model, retry=retry)
        events = await watch(agent)
        with pytest.raises(kind) as caught:
            await watch(agent)

    assert [each.text for each in events if isinstance(each, AnswerStored)] == ["Hello world"]
    assert (len(line.requests), len(clock.sleeps)) == (4, 2)
    assert (type(caught.value), caught.value.retryable) == (kind, True)
    assert caught.value.partial == "Hello wor"


@pytest.mark.parametrize(("api", "error", "kind"), STAYS.values(), ids=STAYS)
async def test_an_error_in_a_stream_that_no_repetition_helps(
    api: Api, error: Wire, kind: type[ModelError]
) -> None:
    """BS-19: one request; the text so far is kept, marked, and the next run goes on."""
    retry, clock = patient()
    broken = stream(*api.begun(HALF), error)
    async with connect(api, broken, saying(api, "fine", streamed=True)) as line:
        agent = Agent("a", line.model, retry=retry)
        with pytest.raises(kind) as caught:
            await ask(agent, "x", streamed=True)
        result = await ask(agent, "y", streamed=True, history=caught.value.result.messages)

    assert (type(caught.value), caught.value.partial, clock.sleeps) == (kind, "Hello wor", [])
    assert caught.value.result.messages[-1].incomplete
    assert (result.output, len(line.requests)) == ("fine", 2)


INSTEAD = {**PASSES, **{f"{name} for good": case for name, case in STAYS.items()}}


@pytest.mark.parametrize(("api", "error", "kind"), INSTEAD.values(), ids=INSTEAD)
async def test_an_error_instead_of_a_stream(api: Api, error: Wire, kind: type[ModelError]) -> None:
    """BS-19: after a 200 and before anything was said."""
    retry, _ = patient(1)
    async with connect(api, stream(error)) as line:
        with pytest.raises(kind) as caught:
            await watch(Agent("a", line.model, retry=retry))

    assert (type(caught.value), caught.value.partial) == (kind, "")


class Verdict(Struct):
    """A typed output."""

    guilty: bool


WOULD_DO = '{"guilty": true}'


def chat_reply(finish: str, content: str | None = None, **fields: Any) -> tuple[Wire, list[Wire]]:
    """A reply of Chat Completions, whole and in pieces."""
    message = {"role": "assistant", "content": content, **fields}
    pieces: Wire = {**fields, **({"content": content} if content else {})}
    deltas: list[Wire] = [
        {"delta": pieces, "finish_reason": None},
        {"delta": {}, "finish_reason": finish},
    ]
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return whole, [{"choices": [{"index": 0, **each}]} for each in deltas]


def responses_reply(*blocks: Wire, **fields: Any) -> tuple[Wire, list[Wire]]:
    """A reply of Responses."""
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": list(blocks)}
    output = [{**item, "status": fields.get("status", "completed")}] if blocks else []
    body = {"id": "r", "object": "response", "status": "completed", "output": output, **fields}
    done = {"type": "response.output_item.done", "output_index": 0}
    last = {"type": f"response.{body['status']}", "response": body}
    return body, [*({**done, "item": each} for each in output), last]


def anthropic_reply(text: str = "") -> tuple[Wire, list[Wire]]:
    """A refusal of Anthropic's."""
    reply = Reply(texts=(text,) if text else ())
    body = {**ANTHROPIC.body(reply), "stop_reason": "refusal"}
    delta = {"stop_reason": "refusal", "stop_sequence": None}
    last = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}
    return body, [*ANTHROPIC.begun(reply), last, {"type": "message_stop"}]


def gemini_reply(**fields: Any) -> tuple[Wire, list[Wire]]:
    """A reply of Gemini."""
    return fields, [fields]


def candidate(finish: str, text: str = "") -> list[Wire]:
    """The one candidate of a reply of Gemini."""
    content: Wire = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
    return [{**content, "finishReason": finish, "index": 0}]


SAID: Wire = {"type": "output_text", "text": WOULD_DO, "annotations": []}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
FORMS: dict[str, tuple[Api, tuple[Wire, list[Wire]], str]] = {
    "chat refusal": (CHAT, chat_reply("stop", refusal="No."), "No."),
    "chat filter": (CHAT, chat_reply("content_filter"), ""),
    "chat text": (CHAT, chat_reply("content_filter", WOULD_DO), WOULD_DO),
    "responses refusal": (RESPONSES, responses_reply({"type": "refusal", "refusal": "No."}), "No."),
    "responses filter": (RESPONSES, responses_reply(**CUT), ""),
    "responses text": (RESPONSES, responses_reply(SAID, **CUT), WOULD_DO),
    "anthropic": (ANTHROPIC, anthropic_reply(), ""),
    "anthropic text": (ANTHROPIC, anthropic_reply(WOULD_DO), WOULD_DO),
    "gemini prompt": (GEMINI, gemini_reply(promptFeedback={"blockReason": "SAFETY"}), ""),
    "gemini filter": (GEMINI, gemini_reply(candidates=candidate("SAFETY")), ""),
    "gemini text": (GEMINI, gemini_reply(candidates=candidate("RECITATION", WOULD_DO)), WOULD_DO),
}


async def refuse(api: Api, answer: Answer, text: str, *, is_stream: bool) -> None:
    """One request, never parsed as an output and never repeated; the next run goes on."""
    retry, clock = patient()
    good = saying(api, '{"guilty": false}', streamed=is_stream)
    options = {"merge_roles": True} if api is CHAT else {}
    store = MemoryStore()
    async with connect(api, answer, good, native_output=True, **options) as line:
        agent = Agent("judge", line.model, output_type=Verdict, retry=retry, store=store)
        with pytest.raises(ContentFiltered) as caught:
            await ask(agent, "x", streamed=is_stream, conversation="c")
        assert len(line.requests) == 1
        result = await ask(agent, "y", streamed=is_stream, conversation="c")

    error = caught.value
    assert (error.partial, error.retryable, clock.sleeps) == (text, False, [])
    assert error.provider == line.model.profile.provider
    assert not [m for m in error.result.messages if m.role == "assistant" and not m.incomplete]
    assert result.output == Verdict(guilty=False)
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    ends = [entry.stop_reason for entry in entries if isinstance(entry, RunEnded)]
    assert ends == ["failed", "answer"]


@pytest.mark.parametrize(("api", "form", "text"), FORMS.values(), ids=FORMS)
async def test_a_refusal_is_no_answer(api: Api, form: tuple[Wire, list[Wire]], text: str) -> None:
    """BS-27 (a), (b), (d): whole; each form that a vendor has is the same outcome."""
    await refuse(api, whole(form[0]), text, is_stream=False)


@pytest.mark.parametrize(("api", "form", "text"), FORMS.values(), ids=FORMS)
async def test_a_streamed_refusal_is_no_answer(
    api: Api, form: tuple[Wire, list[Wire]], text: str
) -> None:
    """BS-27 (a), (b), (d): streamed, even if what was said would do."""
    await refuse(api, stream(*form[1], *api.end), text, is_stream=True)


@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=["chat", "responses"])
async def test_a_filter_that_answers_400(api: Api, is_stream: bool) -> None:
    """BS-27 (c): Azure's, which speaks these two. Anthropic and Google filter in a 200."""
    error = {"message": "The response was filtered.", "code": "content_filter", "status": 400}
    await refuse(api, whole({"error": error}, 400), "", is_stream=is_stream)


def ended(api: Api, reply: Reply, *, filtered: bool) -> Answer:
    """A reply that a filter, or else the limit of its output, ended after its calls."""
    events: list[Wire] = []
    if api is CHAT:
        finish = "content_filter" if filtered else "length"
        events = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
    elif api is RESPONSES:
        reason = {"reason": "content_filter" if filtered else "max_output_tokens"}
        response: Wire = {"status": "incomplete", "incomplete_details": reason}
        events = [{"type": "response.incomplete", "response": response}]
    elif api is ANTHROPIC:
        delta = {"stop_reason": "refusal" if filtered else "max_tokens"}
        events = [{"type": "message_delta", "delta": delta}, {"type": "message_stop"}]
    else:
        events = [{"candidates": candidate("SAFETY" if filtered else "MAX_TOKENS")}]
    return stream(*api.begun(reply), *events, *api.end)


@tool
async def run(code: str = "") -> str:
    """Run."""
    RAN.append(code)
    return "done"


RAN: list[str] = []


@on_every
async def test_calls_before_a_filter(api: Api) -> None:
    """BS-27: they do not run, and the conversation stays one that servers take."""
    RAN.clear()
    reply = Reply(texts=("I will.",), calls=(Call("c1", "run", '{"code": "rm"}'),))
    store = MemoryStore()
    answers = (ended(api, reply, filtered=True), saying(api, "ok", streamed=True))
    async with connect(api, *answers) as line:
        agent = Agent("a", line.model, tools=[run], store=store)
        with pytest.raises(ContentFiltered) as caught:
            await ask(agent, "x", streamed=True, conversation="c")
        result = await ask(agent, "y", streamed=True, conversation="c")

    assert (RAN, caught.value.partial, result.output) == ([], "I will.", "ok")


@on_every
async def test_calls_before_the_end_of_the_output(api: Api) -> None:
    """BS-13: neither the half of one runs nor the whole one before it; two hints, a typed end."""
    RAN.clear()
    calls = (Call("c1", "run"), Call("c2", "run", '{"code": "print(1)"}'))
    cut = ended(api, Reply(calls=calls, half=True), filtered=False)
    async with connect(api, cut) as line:
        with pytest.raises(IncompleteReply, match="output limit"):
            await ask(Agent("a", line.model, tools=[run]), "x", streamed=True)

    assert (RAN, len(line.requests)) == ([], 3)
    assert all("truncated" in text for text in line.results())
