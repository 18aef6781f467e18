"""What the Chat Completions codec must make of recorded exchanges.

Each check compares with the plain JSON of the recording, never with what our own code said.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tools.recorded import check_errors, errors_of, first_difference, json_objects, splits_check
from tools.recording import Json, Recording, Tally
from treadle.errors import BadReply, ModelError, Overloaded, RateLimited
from treadle.ports.model import ModelReply, ModelRequest
from treadle.providers._sse import SseReader
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_reply import decode_reply
from treadle.providers.openai.chat_request import decode_request
from treadle.providers.openai.chat_stream import ChatFold
from treadle.providers.openai.dialect import dialect_of
from treadle.usage import Usage
from treadle.values import is_array, is_object


def check_replies(recordings: list[Recording]) -> Tally:
    """Every answer of 2xx decodes to what its JSON says; what is no answer is a typed error."""
    tally = Tally("2xx decodes")
    for recording in recordings:
        if recording.status >= 300:
            continue
        objects = list(json_objects(recording))
        wanted = _wanted_errors(objects)
        try:
            reply = _reply(recording)
        except ModelError as error:
            problem = (
                None if wanted and type(error) in wanted else f"{type(error).__name__}: {error}"
            )
            tally.count(problem, recording, "error inside a 200" if objects else "not the protocol")
            continue
        problem = "an error was taken for an answer" if wanted else _difference(reply, objects)
        tally.count(problem, recording, "stream" if recording.is_stream else "whole")
    return tally


def check_requests(recordings: list[Recording]) -> Tally:
    """Every request survives the way to our values and back."""
    tally = Tally("requests there and back")
    for recording in recordings:
        dialect = dialect_of(f"https://{recording.host}/v1")
        chat = decode_request(json.dumps(recording.request).encode(), dialect)
        encoder = ChatEncoder(chat.model, chat.dialect)
        body = json.loads(encoder.body(chat.request, stream=chat.stream))
        again = json.loads(encoder.body(chat.request, stream=chat.stream))  # from what was kept
        there, back = normal(recording.request), normal(body)
        problem = None if there == back else first_difference(there, back)
        tally.count(problem or (None if again == body else "the kept bytes differ"), recording)
    return tally


def check_usage(recordings: list[Recording]) -> Tally:
    """The tokens of every reply are those that its server counted."""
    tally = Tally("usage totals")
    total = Usage()
    for recording in recordings:
        counts = [found for item in json_objects(recording) if (found := _usage_in(item))]
        if recording.status >= 300 or not counts:
            continue
        try:
            usage = _reply(recording).usage
        except ModelError:
            continue
        total += usage
        tally.count(_usage_problem(usage, counts[-1]), recording)
    tally.notes["tokens"] = total.total_tokens
    return tally


def exchange(recording: Recording) -> tuple[ModelRequest, ModelReply]:
    """Return what was asked and what was answered, in our values."""
    dialect = dialect_of(f"https://{recording.host}/v1")
    asked = decode_request(json.dumps(recording.request).encode(), dialect)
    return asked.request, _reply(recording)


def normal(request: Json) -> Json:
    """Return a request in the one form that stands for all equivalent ones.

    Dropped are fields that are null, ``stream: false``, empty lists of tools and calls, empty
    contents and descriptions, ``strict: false`` of a response format, and messages that say
    nothing. A lone block of text is that text, a lone stop text a list of it; ``type`` is
    "function" and ``arguments`` "{}" where they are left out.
    """
    wire = _kept(request)
    if not wire.get("stream"):
        wire.pop("stream", None)
    if isinstance(wire.get("stop"), str):
        wire["stop"] = [wire["stop"]]
    messages = [_normal_message(message) for message in wire["messages"]]
    wire["messages"] = [message for message in messages if message.keys() - {"role"}]
    wire["tools"] = [_normal_tool(tool) for tool in wire.get("tools", [])]
    if not wire["tools"]:
        del wire["tools"]
    schema = wire.get("response_format", {}).get("json_schema")
    if schema and schema.get("strict") is False:
        inner = {name: value for name, value in schema.items() if name != "strict"}
        wire["response_format"] = {**wire["response_format"], "json_schema": inner}
    return wire


def _reply(recording: Recording) -> ModelReply:
    if not recording.is_stream:
        headers = {"content-type": recording.content_type}
        return decode_reply(recording.body, recording.host, recording.asked, headers)
    reader = SseReader()
    return _folded(recording, [*reader.feed(recording.body), *reader.end()])


def _folded(recording: Recording, payloads: list[bytes]) -> ModelReply:
    fold = ChatFold(recording.host, recording.asked)
    fold.feed(payloads)
    return fold.finish()


def _wanted_errors(objects: list[Json]) -> tuple[type[ModelError], ...]:
    """Return the errors that fit a 200 which is no answer."""
    errors = [item["error"] for item in objects if item.get("error")]
    if not errors:
        return () if objects else (BadReply,)
    code = errors[0].get("status_code") or errors[0].get("code")
    return errors_of(int(code)) if str(code).isdigit() else (ModelError, Overloaded, RateLimited)


def _difference(reply: ModelReply, objects: list[Json]) -> str | None:
    """Return how a reply differs from the plain JSON: in text, in calls, in why it ended."""
    said = [_choice(item) for item in objects]
    deltas: list[Json] = [choice.get("message") or choice.get("delta") or {} for choice in said]
    text = "".join(_text(delta.get("content")) for delta in deltas)
    text = text or "".join(delta.get("refusal") or "" for delta in deltas)
    if reply.message.text != text:
        return f"text {reply.message.text[:60]!r} instead of {text[:60]!r}"
    pieces = [call for delta in deltas for call in _calls(delta)]
    names: list[str] = [call["function"]["name"] for call in pieces if call["function"].get("name")]
    if [call.name for call in reply.message.tool_calls] != names:
        return f"calls {reply.message.tool_calls} instead of {names}"
    arguments = "".join(call["function"].get("arguments") or "" for call in pieces)
    got = "".join(call.raw for call in reply.message.tool_calls)
    if got.replace("{}", "") != arguments.replace("{}", ""):  # {} stands for none at all
        return f"arguments {got[:60]!r} instead of {arguments[:60]!r}"
    ends = [choice["finish_reason"] for choice in said if choice.get("finish_reason")]
    if (reply.provider_finish or "") != (ends[-1] if ends else ""):
        return f"ended by {reply.provider_finish} instead of {ends}"
    return None


def _choice(item: Json) -> Json:
    choices: list[Json] = item.get("choices") or [{}]
    return choices[0]


def _calls(delta: Json) -> list[Json]:
    return delta.get("tool_calls") or []


def _text(content: object) -> str:
    if is_array(content):
        return "".join(block["text"] for block in content if block["type"] == "text")
    return content if isinstance(content, str) else ""


def _usage_in(item: Json) -> Json | None:
    usage, groq = item.get("usage"), item.get("x_groq")
    return usage or (groq.get("usage") if is_object(groq) else None)


def _usage_problem(usage: Usage, counts: Json) -> str | None:
    given: Json = counts.get("prompt_tokens_details") or {}
    written: Json = counts.get("completion_tokens_details") or {}
    prompt, completion = counts["prompt_tokens"], counts["completion_tokens"]
    thought = counts.get("total_tokens", 0) - prompt - completion  # hidden by some servers
    cached: int = (
        given.get("cached_tokens")
        or counts.get("prompt_cache_hit_tokens")
        or counts.get("num_cached_tokens")
        or counts.get("cached_tokens")
        or 0
    )
    wanted: Json = {
        "input_tokens": prompt,
        "output_tokens": completion + thought,
        "total_tokens": counts.get("total_tokens", prompt + completion),
        "cache_read_tokens": cached,
        "cache_write_tokens": given.get("cache_write_tokens") or 0,
        "reasoning_tokens": written.get("reasoning_tokens") or thought,
        "requests": 1,
        "cost": counts.get("cost") or 0,
    }
    for name, value in wanted.items():
        got = float(usage.cost) if name == "cost" else getattr(usage, name)
        if got != value:
            return f"{name} is {got}, not {value}"
    return None


def _kept(wire: Json) -> Json:
    return {name: value for name, value in wire.items() if value is not None}


def _normal_message(message: Json) -> Json:
    wire = _kept(message)
    content = wire.pop("content", None)
    if is_array(content):
        blocks = [_kept(block) if is_object(block) else block for block in content]
        lone = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        content = blocks[0]["text"] if lone else blocks
    if content:
        wire["content"] = content
    calls = wire.pop("tool_calls", None)
    if calls:
        wire["tool_calls"] = [_normal_call(call) for call in calls]
    return wire


def _normal_call(call: Json) -> Json:
    wire: Json = {"type": "function", **_kept(call)}
    if "function" in wire:
        function: Json = wire["function"]
        wire["function"] = {**function, "arguments": function.get("arguments") or "{}"}
    return wire


def _normal_tool(tool: Json) -> Json:
    wire: Json = {"type": "function", **_kept(tool)}
    if "function" in wire:
        function = _kept(wire["function"])
        if not function.get("description"):
            function.pop("description", None)
        wire["function"] = function
    return wire


CHECKS: tuple[Callable[[list[Recording]], Tally], ...] = (
    check_replies,
    check_errors,
    splits_check(_folded),
    check_requests,
    check_usage,
)
