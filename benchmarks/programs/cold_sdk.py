"""Ask one question over the `openai` SDK."""

import asyncio
import sys

from openai import AsyncOpenAI


async def main(provider: str) -> None:
    """Print the answer."""
    async with AsyncOpenAI(api_key="x", base_url=f"{provider}/answer/v1") as client:
        reply = await client.chat.completions.create(
            model="m",
            messages=[
                {"role": "system", "content": "Answer briefly."},
                {"role": "user", "content": "What is the weather like?"},
            ],
        )
    print(reply.choices[0].message.content)


asyncio.run(main(sys.argv[1]))
