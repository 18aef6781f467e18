"""What the Responses codec must make of recorded exchanges.

Each check compares with the plain JSON of the recording, never with what our own code said.
"""

from __future__ import annotations

import json

from tools.normal_responses import kept, normal, normal_item
from tools.recorded import (
    Check,
    check_errors,
    errors_of,
    first_difference,
    json_objects,
    splits_check,
)
from tools.recording import Json, Recording, Tally
from treadle.errors import BadReply, IncompleteReply, ModelError, Overloaded, RateLimited
from treadle.messages import Hosted, Image, Reasoning
from treadle.ports.model import ModelReply, ModelRequest, ReasoningPiece, TextPiece
from treadle.providers._sse import SseReader
from treadle.providers.openai.responses_body import ResponsesEncoder
from treadle.providers.openai.responses_dialect import responses_dialect_of
from treadle.providers.openai.responses_reply import decode_reply
from treadle.providers.openai.responses_request import decode_request
from treadle.providers.openai.responses_stream import ResponsesFold
from treadle.usage import Usage

_ENDS = ("response.completed", "response.incomplete", "response.failed")


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
        said = _response(objects)
        problem = "an error was taken for an answer" if wanted else _difference(reply, said)
        tally.count(problem, recording, "stream" if recording.is_stream else "whole")
    return tally


def check_streams(recordings: list[Recording]) -> Tally:
    """A stream says what its last event says whole, in pieces and without that event, too."""
    tally = Tally("streams mean the same whole")
    for recording in recordings:
        if not recording.is_stream or recording.status >= 300:
            continue
        objects = list(json_objects(recording))
        if not _wanted_errors(objects):
            tally.count(_stream_problem(recording, _response(objects)), recording)
    return tally


def check_requests(recordings: list[Recording]) -> Tally:
    """Every request survives the way to our values and back."""
    tally = Tally("requests there and back")
    for recording in recordings:
        if not recording.request:  # one that only looks something up
            continue
        model = str(recording.request.get("model", ""))
        dialect = responses_dialect_of(f"https://{recording.host}/v1", model)
        asked = decode_request(json.dumps(recording.request).encode(), dialect)
        encoder = ResponsesEncoder(asked.model, asked.dialect)
        body = json.loads(encoder.body(asked.request, stream=asked.stream))
        again = json.loads(encoder.body(asked.request, stream=asked.stream))  # from what was kept
        there, back = normal(recording.request), normal(body)
        problem = None if there == back else first_difference(there, back)
        tally.count(problem or (None if again == body else "the kept bytes differ"), recording)
    return tally


def check_replays(recordings: list[Recording]) -> Tally:
    """Every reply can be sent back to its server as it came, item for item."""
    tally = Tally("replies sent back")
    for recording in recordings:
        if recording.status >= 300:
            continue
        said = _response(list(json_objects(recording)))
        try:
            reply = _reply(recording)
        except ModelError:
            continue
        tally.count(_replay_problem(recording, reply, said), recording)
    return tally


def check_usage(recordings: list[Recording]) -> Tally:
    """The tokens of every reply are those that its server counted."""
    tally = Tally("usage totals")
    total = Usage()
    for recording in recordings:
        counts = _response(list(json_objects(recording))).get("usage")
        if recording.status >= 300 or not counts:
            continue
        try:
            usage = _reply(recording).usage
        except ModelError:
            continue
        total += usage
        tally.count(_usage_problem(usage, counts), recording)
    tally.notes["tokens"] = total.total_tokens
    return tally


def exchange(recording: Recording) -> tuple[ModelRequest, ModelReply]:
    """Return what was asked and what was answered, in our values."""
    model = str(recording.request.get("model", ""))
    dialect = responses_dialect_of(f"https://{recording.host}/v1", model)
    asked = decode_request(json.dumps(recording.request).encode(), dialect)
    return asked.request, _reply(recording)


def _reply(recording: Recording) -> ModelReply:
    if not recording.is_stream:
        headers = {"content-type": recording.content_type}
        return decode_reply(recording.body, recording.host, recording.asked, headers)
    return _folded(recording, _payloads(recording))


def _payloads(recording: Recording) -> list[bytes]:
    reader = SseReader()
    return [*reader.feed(recording.body), *reader.end()]


def _folded(recording: Recording, payloads: list[bytes]) -> ModelReply:
    fold = ResponsesFold(recording.host, recording.asked)
    fold.feed(payloads)
    return fold.finish()


def _response(objects: list[Json]) -> Json:
    """Return the whole reply: the only object, or that of the last event that has one."""
    ends = [item["response"] for item in objects if item.get("type") in _ENDS]
    return ends[-1] if ends else objects[-1] if objects else {}


def _wanted_errors(objects: list[Json]) -> tuple[type[ModelError], ...]:
    """Return the errors that fit a 200 which is no answer."""
    said = _response(objects)
    error = said.get("error") or (said if said.get("type") == "error" else None)
    if not error:
        kinds = [str(item.get("type", "")) for item in objects]
        began = any(kind.startswith("response.") for kind in kinds)
        if began and not any(kind in _ENDS for kind in kinds):
            return (IncompleteReply,)
        return () if objects else (BadReply,)
    code = str(error.get("code"))
    return errors_of(int(code)) if code.isdigit() else (ModelError, Overloaded, RateLimited)


def _difference(reply: ModelReply, said: Json) -> str | None:
    """Return how a reply differs from the plain JSON."""
    wanted: dict[str, object] = {
        "text": _text(said),
        "calls": [
            (item["call_id"], item["name"], item["arguments"] or "{}")
            for item in said["output"]
            if item["type"] == "function_call"
        ],
        "thoughts": [
            "\n\n".join(b["text"] for b in (*item.get("summary", ()), *(item.get("content") or ())))
            for item in said["output"]
            if item["type"] == "reasoning"
        ],
        "encrypted": [
            item.get("encrypted_content") for item in said["output"] if item["type"] == "reasoning"
        ],
        "citations": [
            (note.get("url"), note.get("title") or note.get("filename"))
            for block in _blocks(said)
            for note in block.get("annotations", ())
        ],
        "steps": [item["type"] for item in said["output"] if item["type"] not in _PARTS],
        "images": sum(item["type"] == "image_generation_call" for item in said["output"]),
        "id": said.get("id"),
        "model": said.get("model"),
        "ended": _ended(said),
    }
    got: dict[str, object] = {
        "text": reply.message.text,
        "calls": [
            (call.provider_id, call.name, call.raw)
            for call in reply.message.tool_calls
            if not (call.provider or {}).get("openai_responses", {}).get("type")
        ],
        "thoughts": [part.text for part in reply.message.parts if isinstance(part, Reasoning)],
        "encrypted": [
            (part.provider or {})["openai_responses"].get("encrypted_content")
            for part in reply.message.parts
            if isinstance(part, Reasoning)
        ],
        "citations": [(each.url, each.title) for each in reply.message.citations],
        "steps": [
            kind
            for part in reply.message.parts
            if (kind := _provider_type(part)) and not isinstance(part, Image)
        ],
        "images": sum(isinstance(part, Image) for part in reply.message.parts),
        "id": reply.response_id,
        "model": reply.model,
        "ended": reply.finish_reason,
    }
    return None if got == wanted else first_difference(wanted, got, "reply")


_PARTS = ("message", "function_call", "reasoning", "image_generation_call")


def _provider_type(part: object) -> str:
    provider: Json = getattr(part, "provider", None) or {}
    kept: Json = provider.get("openai_responses", {})
    kind = str(kept.get("type", ""))
    return kind if isinstance(part, Hosted) or kind.endswith("_call") else ""


def _ended(said: Json) -> str:
    details: Json = said.get("incomplete_details") or {}
    if details or said.get("status") in ("queued", "in_progress", "incomplete"):
        known = {"max_output_tokens": "length", "content_filter": "content_filter"}
        return known.get(str(details.get("reason")), "other")
    if any(_is_ours(item) for item in said["output"]):
        return "tool_calls"
    return "refusal" if any(block["type"] == "refusal" for block in _blocks(said)) else "stop"


def _is_ours(item: Json) -> bool:
    """Whether a call is for us to answer."""
    return item["type"] == "function_call" or item.get("execution") == "client"


def _blocks(said: Json) -> list[Json]:
    messages = [item for item in said["output"] if item["type"] == "message"]
    return [block for item in messages for block in item["content"]]


def _text(said: Json) -> str:
    return "".join(block.get("text") or block.get("refusal") or "" for block in _blocks(said))


def _stream_problem(recording: Recording, said: Json) -> str | None:
    payloads = _payloads(recording)
    fold = ResponsesFold(recording.host, recording.asked)
    deltas = fold.feed(payloads)
    reply = fold.finish()
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextPiece))
    if text != _text(said):
        return f"the pieces say {text[:60]!r}"
    thought = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningPiece))
    if thought != reply.message.reasoning:
        return f"the pieces think {thought[:60]!r}"
    ends = [b'{"type":"response.completed","response":{"status":"completed"}}']
    kinds = [json.loads(one).get("type") if one != b"[DONE]" else "" for one in payloads]
    pairs = list(zip(payloads, kinds, strict=True))
    steps = [one for one, kind in pairs if kind not in _ENDS]
    poor = [one for one, kind in pairs if kind not in (*_ENDS, "response.output_item.done")]
    variants: list[tuple[str, list[bytes]]] = []
    if "response.output_item.done" in kinds:
        variants.append(("without its last event", steps))
    if any(str(kind).endswith(".delta") for kind in kinds):
        variants.append(("of pieces alone", poor))
    for name, less in variants:
        parts = _folded(recording, [*less, *ends])
        if parts.message.text != text or _functions(parts) != _functions(reply):
            return f"{name} it says {parts.message.text[:60]!r}"
    return None


def _functions(reply: ModelReply) -> list[str]:
    """Return the arguments of the calls of functions."""
    calls = reply.message.tool_calls
    return [call.raw for call in calls if not _provider_type(call)]


def _replay_problem(recording: Recording, reply: ModelReply, said: Json) -> str | None:
    dialect = responses_dialect_of(f"https://{recording.host}/v1", "")
    asked = decode_request(b'{"model":"m","input":[]}', dialect)
    asked.request.messages.append(reply.message)
    body = json.loads(ResponsesEncoder("m", asked.dialect).body(asked.request, stream=False))
    items = [_sent_back(item) for item in said["output"] if not _is_empty(item)]
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    wanted = [normal_item(item) for item in items]
    got: list[Json] = body["input"] if items else []
    paired = [_without_ids(normal_item(item)) for item in got]
    if [_without_ids(item) for item in wanted] == paired:
        return None
    return first_difference([_without_ids(item) for item in wanted], paired, "input")


def _is_empty(item: Json) -> bool:
    """Whether a message says nothing, which no server takes."""
    return item["type"] == "message" and not _text({"output": [item]})


def _sent_back(item: Json) -> Json:
    """Return what is to be sent of an item: nothing that only tells of its past."""
    wire = kept(item) if item["type"] in ("message", "reasoning", "function_call") else item
    if wire["type"] in ("message", "reasoning", "function_call"):
        wire = {name: value for name, value in wire.items() if name != "status"}
    if wire["type"] == "reasoning" and not wire.get("content"):
        wire.pop("content", None)
    if wire["type"] == "message":
        blocks = [{k: v for k, v in b.items() if k != "logprobs"} for b in wire["content"]]
        wire["content"] = blocks
    return wire


def _without_ids(item: Json) -> Json:
    """Return a message or call without the ID, which only goes back where reasoning wants it."""
    if item.get("role") != "assistant" and item.get("type") != "function_call":
        return item
    return {name: value for name, value in item.items() if name not in ("id", "status")}


def _usage_problem(usage: Usage, counts: Json) -> str | None:
    given: Json = counts.get("input_tokens_details") or {}
    written: Json = counts.get("output_tokens_details") or {}
    wanted: Json = {
        "input_tokens": counts["input_tokens"],
        "output_tokens": counts["output_tokens"],
        "total_tokens": counts.get("total_tokens"),
        "cache_read_tokens": given.get("cached_tokens") or 0,
        "cache_write_tokens": given.get("cache_write_tokens") or 0,
        "reasoning_tokens": written.get("reasoning_tokens") or 0,
        "requests": 1,
        "cost": counts.get("cost") or 0,
    }
    for name, value in wanted.items():
        got = float(usage.cost) if name == "cost" else getattr(usage, name)
        if got != value:
            return f"{name} is {got}, not {value}"
    return None


CHECKS: tuple[Check, ...] = (
    check_replies,
    check_errors,
    splits_check(_folded),
    check_streams,
    check_requests,
    check_replays,
    check_usage,
)
