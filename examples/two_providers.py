"""Two providers in one conversation: one stands in when the other fails, then they change places.

Nothing goes over the network here: `Canned` is a transport that answers with bodies as the
providers send them. Without `transport=` the same models ask the real ones.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from treadle import Agent, open_store, tool
from treadle.models import Fallback
from treadle.ports.transport import HttpRequest
from treadle.providers import Anthropic, OpenAI


class Canned:
    """A transport that gives answers, one after another, and keeps what it was sent."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        """Take the answers: a status and a body each."""
        self._answers = list(answers)
        self._body = b""
        self.sent: list[dict[str, Any]] = []
        self.status = 0
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> "Canned":
        """Answer with the next one."""
        self.sent.append(json.loads(request.body))
        self.status, body = self._answers.pop(0)
        self._body = json.dumps(body).encode()
        return self

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        yield self._body

    async def close(self) -> None:
        """Nothing is open."""


def by_openai(text: str) -> tuple[int, dict[str, Any]]:
    """Return a reply as OpenAI writes it."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return 200, {"object": "chat.completion", "choices": [choice]}


def by_anthropic(*content: dict[str, Any], stop: str) -> tuple[int, dict[str, Any]]:
    """Return a reply as Anthropic writes it."""
    whole = {"type": "message", "role": "assistant", "content": content, "stop_reason": stop}
    return 200, whole


OVERLOADED = 503, {"error": {"message": "The server is overloaded."}}
THOUGHT = {"type": "thinking", "thinking": "The store knows.", "signature": "EqQB"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "stock", "input": {"item": "bolt"}}

to_openai = Canned(OVERLOADED, by_openai("You have seven bolts."))
to_anthropic = Canned(
    by_anthropic(THOUGHT, CALL, stop="tool_use"),
    by_anthropic({"type": "text", "text": "One more."}, stop="end_turn"),
)
gpt = OpenAI("gpt-5.2", api_key="canned", transport=to_openai)
claude = Anthropic("claude-sonnet-4-6", api_key="canned", transport=to_anthropic)


@tool
def stock(item: str) -> int:
    """How many of an item are in the store."""
    return {"bolt": 7}[item]


agent = Agent("clerk", tools=[stock], store=open_store("memory:"))

# OpenAI is overloaded, so Anthropic calls the tool; then OpenAI is back and answers.
result = agent.run_sync("How many bolts have I?", model=Fallback(gpt, claude), conversation="c1")
print(result.output, result.usage.requests, "requests")
# > You have seven bolts. 3 requests
for message in to_openai.sent[-1]["messages"]:
    print("to OpenAI:", message["role"], sorted(message))
# > to OpenAI: user ['content', 'role']
# > to OpenAI: assistant ['content', 'role', 'tool_calls']
# > to OpenAI: tool ['content', 'role', 'tool_call_id']

# The conversation goes on with Anthropic, which gets back what it thought.
result = agent.run_sync("How many do I lack for eight?", model=claude, conversation="c1")
print(result.output)
# > One more.
for message in to_anthropic.sent[-1]["messages"]:
    print("to Anthropic:", message["role"], [block["type"] for block in message["content"]])
# > to Anthropic: user ['text']
# > to Anthropic: assistant ['thinking', 'tool_use']
# > to Anthropic: user ['tool_result']
# > to Anthropic: assistant ['text']
# > to Anthropic: user ['text']
