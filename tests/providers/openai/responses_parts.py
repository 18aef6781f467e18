"""What tests of the Responses protocol share: requests as they are sent, replies as they come."""

from __future__ import annotations

import json
from typing import Any

from treadle.messages import Message, Thread
from treadle.ports.model import ModelDelta, ModelReply, ModelRequest
from treadle.providers._failure import Asked
from treadle.providers.openai.responses_body import ResponsesEncoder
from treadle.providers.openai.responses_dialect import ResponsesDialect, responses_dialect_of
from treadle.providers.openai.responses_reply import decode_reply
from treadle.providers.openai.responses_stream import ResponsesFold
from treadle.testing.strict import assert_strict

HOST = "api.openai.com"
OPENAI = responses_dialect_of(f"https://{HOST}/v1", "gpt-5.2")
PLAIN = ResponsesDialect(provider="localhost:8000", host="localhost:8000")
ASKED = Asked("openai", "gpt-5.2")
PIXEL = b"\x89PNG\r\n\x1a\n-pixel"

THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "ls",
    "arguments": '{"path": "."}',
    "status": "completed",
}


def said(*blocks: dict[str, Any] | str, **fields: Any) -> dict[str, Any]:
    """Return a message item of the model."""
    content: list[dict[str, Any]] = [
        {"type": "output_text", "text": block, "annotations": []}
        if isinstance(block, str)
        else block
        for block in blocks
    ]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **fields,
    }


def response(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a whole reply."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-5.2-2025",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        **fields,
    }


def read(*output: dict[str, Any], **fields: Any) -> ModelReply:
    """Return the reply that these items make."""
    return decode_reply(json.dumps(response(*output, **fields)).encode(), HOST, ASKED)


def body_of(
    *messages: Message,
    dialect: ResponsesDialect = OPENAI,
    stream: bool = False,
    hosted_tools: tuple[dict[str, Any], ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    """Return the whole request that these messages make."""
    request = ModelRequest(messages=Thread(messages), **fields)
    encoder = ResponsesEncoder("gpt-5.2", dialect, hosted_tools=hosted_tools)
    return json.loads(encoder.body(request, stream=stream))


def sent(*messages: Message, dialect: ResponsesDialect = OPENAI) -> list[dict[str, Any]]:
    """Return the items as they are sent; the request is one that OpenAI takes."""
    body = body_of(*messages, dialect=dialect)
    assert_strict(body, "openai_responses")
    return body["input"]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    """Return one event of a stream."""
    return {"type": f"response.{kind}", "sequence_number": 0, **fields}


def text_delta(text: str, output_index: int = 0, content_index: int = 0) -> dict[str, Any]:
    """Return an event with more text."""
    return event(
        "output_text.delta",
        item_id="msg_1",
        output_index=output_index,
        content_index=content_index,
        delta=text,
        logprobs=[],
        obfuscation="xyz",
    )


def ended(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the last event of a reply."""
    return event("completed", response=response(*output, **fields))


def payload(chunk: Any) -> bytes:
    """Return an event as it stands in a stream."""
    return chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()


def folded(*events: Any) -> tuple[list[ModelDelta], ModelReply]:
    """Return the deltas and the reply that these events make."""
    fold = ResponsesFold(HOST, ASKED)
    deltas = [delta for each in events for delta in fold.feed([payload(each)])]
    return deltas, fold.finish()
