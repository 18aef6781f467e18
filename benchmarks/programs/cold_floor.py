"""Ask one question with raw aiohttp and msgspec: the shortest program there is."""

import asyncio
import sys

import aiohttp
import msgspec


class Message(msgspec.Struct):
    """What the model said."""

    content: str


class Choice(msgspec.Struct):
    """The one choice of a reply."""

    message: Message


class Reply(msgspec.Struct):
    """A whole reply."""

    choices: list[Choice]


async def main(provider: str) -> None:
    """Print the answer."""
    messages = [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "What is the weather like?"},
    ]
    body = msgspec.json.encode({"model": "m", "messages": messages})
    headers = {"Authorization": "Bearer x", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{provider}/answer/v1/chat/completions", data=body) as response,
    ):
        reply = msgspec.json.decode(await response.read(), type=Reply)
    print(reply.choices[0].message.content)


asyncio.run(main(sys.argv[1]))
