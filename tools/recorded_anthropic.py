"""What the Messages codec must make of recorded exchanges.

Each check compares with the plain JSON of the recording, never with what our own code said.
"""

from __future__ import annotations

import json

from tools.recorded import (
    Check,
    check_errors,
    errors_of,
    first_difference,
    json_objects,
    splits_check,
)
from tools.recording import Json, Recording, Tally
from treadle.errors import BadReply, ModelError
from treadle.messages import Hosted, Message, Reasoning, Text, Thread, ToolResult
from treadle.ports.model import ModelReply, ModelRequest, ModelSettings, ReasoningPiece, TextPiece
from treadle.providers._sse import SseReader
from treadle.providers.anthropic.body import MessagesEncoder
from treadle.providers.anthropic.claude import claude
from treadle.providers.anthropic.dialect import MessagesDialect, dialect_of
from treadle.providers.anthropic.reply import decode_reply
from treadle.providers.anthropic.request import decode_request
from treadle.providers.anthropic.stream import MessagesFold
from treadle.testing.strict import strict
from treadle.usage import Usage
from treadle.values import is_array, is_object

_OURS = {"text", "thinking", "redacted_thinking", "tool_use"}
_STATUSES = {"overloaded_error": 529, "api_error": 500, "rate_limit_error": 429}


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
            problem = None if type(error) in wanted else f"{type(error).__name__}: {error}"
            tally.count(problem, recording, "error inside a 200" if objects else "not the protocol")
            continue
        problem = "an error was taken for an answer" if wanted else _difference(reply, objects)
        tally.count(problem, recording, "stream" if recording.is_stream else "whole")
    return tally


def check_streams(recordings: list[Recording]) -> Tally:
    """The pieces of a stream are, joined, the text and the reasoning of its reply."""
    tally = Tally("streams in pieces")
    for recording in recordings:
        if recording.is_stream and recording.status < 300:
            fold = MessagesFold(_dialect(recording).origin, recording.asked)
            deltas = fold.feed(_payloads(recording))
            message = fold.finish().message
            text = "".join(piece.text for piece in deltas if isinstance(piece, TextPiece))
            thought = "".join(piece.text for piece in deltas if isinstance(piece, ReasoningPiece))
            same = (text, thought) == (message.text, message.reasoning) and fold.partial == text
            tally.count(None if same else "the pieces say something else", recording)
    return tally


def check_requests(recordings: list[Recording]) -> Tally:
    """Every request survives the way to our values and back."""
    tally = Tally("requests there and back")
    for recording in recordings:
        dialect = _dialect(recording)
        asked = decode_request(json.dumps(recording.request).encode(), dialect)
        encoder = MessagesEncoder(asked.model, claude(asked.model), dialect)
        body = json.loads(encoder.body(asked.request, stream=asked.stream))
        again = json.loads(encoder.body(asked.request, stream=asked.stream))  # from what was kept
        there, back = normal(recording.request), normal(body)
        problem = None if there == back else first_difference(there, back)
        tally.count(problem or (None if again == body else "the kept bytes differ"), recording)
    return tally


def check_replays(recordings: list[Recording]) -> Tally:
    """Every reply goes back to its server as it came, block for block, and may go back."""
    tally = Tally("replies sent back")
    for recording in recordings:
        if recording.status >= 300:
            continue
        try:
            reply = _reply(recording)
        except ModelError:
            continue
        content = _message(list(json_objects(recording)))["content"]
        tally.count(_replay_problem(recording, reply, content), recording)
    return tally


def check_usage(recordings: list[Recording]) -> Tally:
    """The tokens of every reply are those that its server counted."""
    tally = Tally("usage totals")
    total = Usage()
    for recording in recordings:
        if recording.status >= 300:
            continue
        try:
            usage = _reply(recording).usage
        except ModelError:
            continue
        counts = _message(list(json_objects(recording))).get("usage")
        if counts:
            total += usage
            tally.count(_usage_problem(usage, counts), recording)
    tally.notes["tokens"] = total.total_tokens
    return tally


def exchange(recording: Recording) -> tuple[ModelRequest, ModelReply]:
    """Return what was asked and what was answered, in our values."""
    asked = decode_request(json.dumps(recording.request).encode(), _dialect(recording))
    return asked.request, _reply(recording)


def normal(request: Json) -> Json:
    """Return a request in the one form that stands for all equivalent ones.

    Dropped are fields that are null, ``stream: false``, empty lists of tools and empty contents,
    and ``is_error: false``. A text stands for a list with one block of it, and what one side says
    in several messages for one message.
    """
    wire = _kept(request)
    if not wire.get("stream"):
        wire.pop("stream", None)
    if isinstance(wire.get("system"), str):
        wire["system"] = _listed(wire["system"])
    messages: list[Json] = []
    for message in wire["messages"]:
        content = [_normal_block(block) for block in _listed(message.get("content"))]
        if messages and messages[-1]["role"] == message["role"] != "system":
            messages[-1]["content"] += content
        else:
            messages.append({**message, "content": content})
    wire["messages"] = [message for message in messages if message["content"]]
    wire["tools"] = [_normal_tool(tool) for tool in wire.get("tools", [])]
    for name in ("tools", "system"):
        if not wire.get(name):
            wire.pop(name, None)
    return wire


def _dialect(recording: Recording) -> MessagesDialect:
    return dialect_of(f"https://{recording.host}/v1")


def _payloads(recording: Recording) -> list[bytes]:
    reader = SseReader()
    return [*reader.feed(recording.body), *reader.end()]


def _reply(recording: Recording) -> ModelReply:
    if not recording.is_stream:
        headers = {"content-type": recording.content_type}
        origin = _dialect(recording).origin
        return decode_reply(recording.body, origin, recording.asked, headers)
    return _folded(recording, _payloads(recording))


def _folded(recording: Recording, payloads: list[bytes]) -> ModelReply:
    fold = MessagesFold(_dialect(recording).origin, recording.asked)
    fold.feed(payloads)
    return fold.finish()


def _message(objects: list[Json]) -> Json:
    """Return the whole message: the only object, or what the events make together."""
    if not objects or objects[0].get("type") == "message":
        return objects[0] if objects else {"content": []}
    starts = [item["message"] for item in objects if item.get("type") == "message_start"]
    message: Json = {**(starts[0] if starts else {}), "content": []}
    blocks: dict[int, Json] = {}
    for item in objects:
        match item.get("type"):
            case "content_block_start":
                blocks[item["index"]] = dict(item["content_block"])
            case "content_block_delta":
                _grow(blocks[item["index"]], item["delta"])
            case "message_delta":
                message |= _kept(item["delta"])
                message["usage"] = {**message["usage"], **_kept(item["usage"])}
            case _:
                pass
    for block in blocks.values():
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial") or "{}")
    message["content"] = list(blocks.values())
    return message


def _grow(block: Json, delta: Json) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "input_json_delta":
            block["partial"] = block.get("partial", "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        case _:
            block |= {name: value for name, value in delta.items() if name != "type"}


def _wanted_errors(objects: list[Json]) -> tuple[type[ModelError], ...]:
    """Return the errors that fit a 200 which is no answer."""
    errors = [item["error"] for item in objects if item.get("type") == "error"]
    if not errors:
        return () if objects else (BadReply,)
    return errors_of(_STATUSES.get(errors[0].get("type"), 400))


def _difference(reply: ModelReply, objects: list[Json]) -> str | None:
    """Return how a reply differs from the plain JSON."""
    said = _message(objects)
    content: list[Json] = said["content"]
    thoughts = [b for b in content if b["type"] in ("thinking", "redacted_thinking")]
    wanted: dict[str, object] = {
        "text": "".join(b["text"] for b in content if b["type"] == "text"),
        "calls": [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
        "thoughts": [(b.get("thinking", ""), b.get("signature"), b.get("data")) for b in thoughts],
        "citations": [
            (c.get("url"), c.get("title") or c.get("document_title"), c.get("cited_text"))
            for b in content
            for c in b.get("citations") or ()
        ],
        "steps": [b["type"] for b in content if b["type"] not in _OURS],
        "id": said.get("id"),
        "model": said.get("model"),
        "ended": said.get("stop_reason"),
    }
    message = reply.message
    got: dict[str, object] = {
        "text": message.text,
        "calls": [(c.provider_id, c.name, json.loads(c.raw)) for c in message.tool_calls],
        "thoughts": [
            (part.text, part.signature, part.redacted)
            for part in message.parts
            if isinstance(part, Reasoning)
        ],
        "citations": [(c.url, c.title, c.text) for c in message.citations],
        "steps": [
            part.provider["anthropic"]["type"] for part in message.parts if isinstance(part, Hosted)
        ],
        "id": reply.response_id,
        "model": reply.model,
        "ended": reply.provider_finish,
    }
    return None if got == wanted else first_difference(wanted, got, "reply")


def _replay_problem(recording: Recording, reply: ModelReply, content: list[Json]) -> str | None:
    """Return what is wrong with a request that continues after this reply."""
    dialect, calls = _dialect(recording), reply.message.tool_calls
    asked = decode_request(json.dumps(recording.request).encode(), dialect)
    thread = Thread([*asked.request.messages, reply.message])
    if calls:
        thread.append(Message("tool", tuple(call_result(call.id, call.name) for call in calls)))
    else:
        thread.append(Message.user("go on"))
    request = ModelRequest(
        messages=thread, tools=asked.request.tools, settings=ModelSettings(max_output_tokens=99)
    )
    encoder = MessagesEncoder(asked.model, claude(asked.model), dialect)
    body = json.loads(encoder.body(request, stream=False))
    problems = strict("anthropic")(body)
    if problems:
        return "; ".join(problems)
    wanted = [_sent_back(block) for block in content]
    wanted = [block for block in wanted if block["type"] != "text" or block["text"].strip()]
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    got: list[Json] = said[-1]["content"][-len(wanted) :] if wanted else []
    return None if got == wanted else first_difference(wanted, got, "content")


def call_result(call_id: str, name: str) -> ToolResult:
    """Return a result that says little."""
    return ToolResult(call_id, name, (Text("done"),))


def _sent_back(block: Json) -> Json:
    """Return a block as it may be sent back: without nulls and what goes without saying."""
    wire = _kept(block)
    if wire.get("caller") == {"type": "direct"} and wire["type"] == "tool_use":
        del wire["caller"]
    if wire.get("citations") == []:
        del wire["citations"]
    return wire


def _usage_problem(usage: Usage, counts: Json) -> str | None:
    read = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    details: Json = counts.get("output_tokens_details") or {}
    wanted: dict[str, int] = {
        "input_tokens": counts["input_tokens"] + read + written,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": counts["output_tokens"],
        "reasoning_tokens": details.get("thinking_tokens", 0),
        "requests": 1,
    }
    for name, value in wanted.items():
        if getattr(usage, name) != value:
            return f"{name} is {getattr(usage, name)}, not {value}"
    return None


def _kept(wire: Json) -> Json:
    return {name: value for name, value in wire.items() if value is not None}


def _listed(content: object) -> list[Json]:
    if is_array(content):
        return [_kept(block) for block in content]
    return [{"type": "text", "text": content}] if content else []


def _normal_block(block: Json) -> Json:
    if block["type"] != "tool_result":
        return block
    wire = dict(block)
    content = _listed(wire.pop("content", None))
    if content:
        wire["content"] = content
    if not wire.get("is_error"):
        wire.pop("is_error", None)
    return wire


def _normal_tool(tool: Json) -> Json:
    return _kept(tool) if is_object(tool.get("input_schema")) else tool


CHECKS: tuple[Check, ...] = (
    check_replies,
    check_errors,
    splits_check(_folded),
    check_streams,
    check_requests,
    check_replays,
    check_usage,
)
