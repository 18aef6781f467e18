"""The four protocols, each saying the same things: whole, in pieces, and when something fails."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests import servers
from tests.providers.anthropic import parts as messages
from tests.providers.gemini import parts as gemini
from tests.providers.openai import responses_parts as responses
from tests.servers import DONE
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.testing.strict import Kind
from treadle.values import is_array, is_object

Client = Anthropic | Gemini | OpenAI | OpenAIResponses
Wire = dict[str, Any]
SIGNED = "c2lnbmVk"
THOUGHT = "I should look."


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a model makes it; `arguments` is the text of its JSON."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model says: `texts` come in these pieces, the arguments of calls in two.

    With `half`, only the first half of the last call has come. `number` makes the IDs of items
    differ from those of other replies; what it used is told `counts` times over.
    """

    texts: Sequence[str] = ()
    calls: Sequence[Call] = ()
    thought: str = ""
    half: bool = False
    number: int = 1
    counts: int = 1

    @property
    def text(self) -> str:
        """All of the text."""
        return "".join(self.texts)

    def pieces(self, call: Call) -> list[str]:
        """The arguments of one call, in their pieces."""
        middle = (len(call.arguments) + 1) // 2
        first, second = call.arguments[:middle], call.arguments[middle:]
        return [first] if self.half and call is self.calls[-1] else [first, second]


class Api(Protocol):
    """One protocol as its vendor speaks it."""

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The checkers that its requests are held to."""
        ...

    @property
    def silent(self) -> tuple[Wire, ...]:
        """Events that begin a stream and say nothing."""
        ...

    @property
    def end(self) -> tuple[bytes, ...]:
        """What follows the last event."""
        ...

    def client(self, url: str, **options: Any) -> Client: ...

    def body(self, reply: Reply) -> Wire:
        """The whole reply."""
        ...

    def begun(self, reply: Reply) -> list[Wire]:
        """The events of a stream, up to the last piece of what is said."""
        ...

    def ended(self, reply: Reply) -> list[Wire]:
        """The events after that: why it ended and what it took."""
        ...

    def results(self, request: Wire) -> list[tuple[str | None, str]]:
        """What tools returned: the ID and the text of each result in a request."""
        ...


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """OpenAI's older one, and everybody's."""

    name: str = "chat"
    kinds: tuple[Kind, ...] = ("openai",)
    end: tuple[bytes, ...] = (DONE,)
    silent: tuple[Wire, ...] = ({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},)

    def client(self, url: str, **options: Any) -> OpenAI:
        return OpenAI("m", base_url=url, **options)

    def body(self, reply: Reply) -> Wire:
        fields: Wire = {"reasoning_content": reply.thought} if reply.thought else {}
        if reply.calls:
            fields["tool_calls"] = [self._call(call, call.arguments) for call in reply.calls]
        finish = "tool_calls" if reply.calls else "stop"
        wire = servers.reply(reply.text if reply.texts else None, finish, **fields)
        return {**wire, "usage": self._usage(reply)}

    def begun(self, reply: Reply) -> list[Wire]:
        events = [servers.delta(reasoning_content=reply.thought)] if reply.thought else []
        events += [servers.delta(content=text) for text in reply.texts]
        for index, call in enumerate(reply.calls):
            first, *rest = reply.pieces(call)
            events.append(servers.delta(tool_calls=[{"index": index, **self._call(call, first)}]))
            more = ({"index": index, "function": {"arguments": piece}} for piece in rest)
            events += [servers.delta(tool_calls=[piece]) for piece in more]
        return events

    def ended(self, reply: Reply) -> list[Wire]:
        end = servers.delta("tool_calls" if reply.calls else "stop")
        return [end, {"choices": [], "usage": self._usage(reply)}]

    def results(self, request: Wire) -> list[tuple[str | None, str]]:
        said = request["messages"]
        return [(m["tool_call_id"], m["content"]) for m in said if m["role"] == "tool"]

    def _call(self, call: Call, arguments: str) -> Wire:
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}

    def _usage(self, reply: Reply) -> Wire | None:
        given, written = {"cached_tokens": 10}, {"reasoning_tokens": 5}
        usage: Wire = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}
        usage |= {"prompt_tokens_details": given, "completion_tokens_details": written}
        return times(usage, reply.counts)


@dataclass(frozen=True, slots=True)
class Responses:
    """OpenAI's newer one."""

    name: str = "responses"
    kinds: tuple[Kind, ...] = ("openai_responses",)
    end: tuple[bytes, ...] = ()
    silent: tuple[Wire, ...] = tuple(
        responses.event(kind, response=responses.response(status="in_progress"))
        for kind in ("created", "in_progress")
    )

    def client(self, url: str, **options: Any) -> OpenAIResponses:
        return OpenAIResponses("m", base_url=url, encrypted_reasoning=True, **options)

    def body(self, reply: Reply) -> Wire:
        given, written = {"cached_tokens": 10}, {"reasoning_tokens": 5}
        usage: Wire = {"input_tokens": 25, "output_tokens": 15, "total_tokens": 40}
        usage |= {"input_tokens_details": given, "output_tokens_details": written}
        return responses.response(*self._items(reply), usage=times(usage, reply.counts))

    def begun(self, reply: Reply) -> list[Wire]:
        events = [*self.silent]
        for place, item in enumerate(self._items(reply)):
            kind = item["type"]
            empty = {"reasoning": "summary", "message": "content", "function_call": "arguments"}
            start: Wire = {**item, empty[kind]: "" if kind == "function_call" else []}
            events.append(responses.event("output_item.added", output_index=place, item=start))
            if kind == "reasoning":
                name, pieces = "reasoning_summary_text", [reply.thought]
            elif kind == "message":
                name, pieces = "output_text", list(reply.texts)
            else:
                call = reply.calls[int(item["id"].rpartition("_")[2])]
                name, pieces = "function_call_arguments", reply.pieces(call)
            where = {"output_index": place, "item_id": item["id"], "content_index": 0}
            events += [responses.event(f"{name}.delta", delta=piece, **where) for piece in pieces]
            if not (reply.half and kind == "function_call"):
                events.append(responses.event("output_item.done", output_index=place, item=item))
        return events

    def ended(self, reply: Reply) -> list[Wire]:
        return [responses.event("completed", response=self.body(reply))]

    def results(self, request: Wire) -> list[tuple[str | None, str]]:
        items = [item for item in request["input"] if item.get("type") == "function_call_output"]
        return [(item["call_id"], text_of(item["output"])) for item in items]

    def _items(self, reply: Reply) -> list[Wire]:
        number, items = reply.number, list[Wire]()
        if reply.thought:
            summary = [{"type": "summary_text", "text": reply.thought}]
            items.append({**responses.THOUGHT, "id": f"rs_{number}", "summary": summary})
        if reply.texts:
            items.append(responses.said(reply.text, id=f"msg_{number}"))
        for place, call in enumerate(reply.calls):
            fields = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
            items.append({**responses.CALL, "id": f"fc_{number}_{place}", **fields})
        return items


@dataclass(frozen=True, slots=True)
class Messages:
    """Anthropic's."""

    name: str = "anthropic"
    kinds: tuple[Kind, ...] = ("anthropic",)
    end: tuple[bytes, ...] = ()
    silent: tuple[Wire, ...] = (messages.BEGIN, {"type": "ping"})

    def client(self, url: str, **options: Any) -> Anthropic:
        return Anthropic(messages.MODEL, base_url=url, **options)

    def body(self, reply: Reply) -> Wire:
        stop = "tool_use" if reply.calls else "end_turn"
        blocks = [block for block, _ in self._blocks(reply)]
        return messages.message(*blocks, stop=stop, usage=self._usage(reply))

    def begun(self, reply: Reply) -> list[Wire]:
        events = [{**messages.BEGIN}]
        for place, (block, deltas) in enumerate(self._blocks(reply)):
            empty: Wire = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
            empty |= {"tool_use": {"input": {}}, "redacted_thinking": {}}
            events.append(messages.start(place, **{**block, **empty[block["type"]]}))
            events += [messages.delta(kind, place, **delta) for kind, delta in deltas]
            if not (reply.half and block["type"] == "tool_use"):
                events.append({"type": "content_block_stop", "index": place})
        return events

    def ended(self, reply: Reply) -> list[Wire]:
        stop = "tool_use" if reply.calls else "end_turn"
        return [messages.ending(stop, usage=self._usage(reply)), messages.STOP]

    def results(self, request: Wire) -> list[tuple[str | None, str]]:
        blocks = [b for message in request["messages"] for b in message["content"]]
        results = [block for block in blocks if block["type"] == "tool_result"]
        return [(each["tool_use_id"], text_of(each.get("content", ""))) for each in results]

    def _blocks(self, reply: Reply) -> list[tuple[Wire, list[tuple[str, Wire]]]]:
        """Each block with its deltas."""
        blocks = list[tuple[Wire, list[tuple[str, Wire]]]]()
        if reply.thought:
            thought, signature = {"thinking": reply.thought}, {"signature": SIGNED}
            deltas: list[tuple[str, Wire]] = [("thinking", thought), ("signature", signature)]
            blocks.append(({"type": "thinking", **thought, **signature}, deltas))
            blocks.append(({"type": "redacted_thinking", "data": "blob"}, []))
        if reply.texts:
            deltas = [("text", {"text": text}) for text in reply.texts]
            blocks.append(({"type": "text", "text": reply.text}, deltas))
        for call in reply.calls:
            wire = {"type": "tool_use", "id": call.id, "name": call.name}
            given: Any = {} if reply.half else json.loads(call.arguments or "{}")
            pieces = reply.pieces(call)
            deltas = [("input_json", {"partial_json": piece}) for piece in pieces]
            blocks.append(({**wire, "input": given}, deltas))
        return blocks

    def _usage(self, reply: Reply) -> Wire | None:
        usage: Wire = {"input_tokens": 15, "cache_read_input_tokens": 10, "output_tokens": 15}
        usage["output_tokens_details"] = {"thinking_tokens": 5}
        return times(usage, reply.counts)


@dataclass(frozen=True, slots=True)
class GenerateContent:
    """Gemini's. It gives arguments in pieces on Vertex AI only; here they come whole."""

    name: str = "gemini"
    kinds: tuple[Kind, ...] = ("gemini", "gemini3")
    end: tuple[bytes, ...] = ()
    silent: tuple[Wire, ...] = ({"usageMetadata": {"promptTokenCount": 0}, "modelVersion": "m"},)

    def client(self, url: str, **options: Any) -> Gemini:
        return Gemini("gemini-3-flash-preview", base_url=url, **options)

    def body(self, reply: Reply) -> Wire:
        texts = (reply.text,) if reply.texts else ()
        parts = self._parts(reply, texts)
        return gemini.chunk(*parts, finish="STOP", **self._usage(reply))

    def begun(self, reply: Reply) -> list[Wire]:
        return [gemini.chunk(part) for part in self._parts(reply, reply.texts)]

    def ended(self, reply: Reply) -> list[Wire]:
        return [gemini.chunk("", finish="STOP", **self._usage(reply))]

    def results(self, request: Wire) -> list[tuple[str | None, str]]:
        parts = [part for content in request["contents"] for part in content["parts"]]
        results = [p["functionResponse"] for p in parts if "functionResponse" in p]
        return [(r.get("id"), "".join(map(str, r["response"].values()))) for r in results]

    def _parts(self, reply: Reply, texts: Iterable[str]) -> list[Wire]:
        parts: list[Wire] = [{"text": reply.thought, "thought": True}] if reply.thought else []
        parts += [{"text": text} for text in texts]
        for call in reply.calls:
            function: Wire = {"id": call.id, "name": call.name}
            if reply.half and call is reply.calls[-1]:
                piece = {"jsonPath": "$.code", "stringValue": "pri", "willContinue": True}
                function |= {"partialArgs": [piece], "willContinue": True}
            elif call.arguments:
                function["args"] = json.loads(call.arguments)
            signed = {"thoughtSignature": SIGNED} if call is reply.calls[0] else {}
            parts.append({"functionCall": function, **signed})
        return parts

    def _usage(self, reply: Reply) -> Wire:
        counts: Wire = {
            "promptTokenCount": 25,
            "cachedContentTokenCount": 10,
            "totalTokenCount": 40,
        }
        counts |= {"candidatesTokenCount": 10, "thoughtsTokenCount": 5}
        usage = times(counts, reply.counts)
        return {"usageMetadata": usage} if usage else {}


CHAT, RESPONSES, ANTHROPIC, GEMINI = ChatCompletions(), Responses(), Messages(), GenerateContent()
ALL: tuple[Api, ...] = (CHAT, RESPONSES, ANTHROPIC, GEMINI)


def times(counts: Wire, factor: int) -> Wire | None:
    """Return counts so many times over; None for none."""
    if not factor:
        return None
    return {k: times(v, factor) if is_object(v) else v * factor for k, v in counts.items()}


def text_of(content: object) -> str:
    """Return the text in content of any form."""
    if isinstance(content, str):
        return content
    if is_array(content):
        return "\n".join(filter(None, map(text_of, content)))
    return text_of(content.get("text", "")) if is_object(content) else ""


def user_turns(api: Api, request: Wire) -> list[Wire]:
    """What the user says, as a request tells it."""
    said: list[Wire] = request[
        {"responses": "input", "gemini": "contents"}.get(api.name, "messages")
    ]
    return [each for each in said if each.get("role") == "user"]
