"""Servers that speak Chat Completions, by name: "groq:llama-3.3-70b-versatile".

What is known of each stands in `treadle.providers.openai.dialect.SERVERS`.
"""

from __future__ import annotations

from functools import partial

from treadle.providers.openai.client import OpenAI

azure = partial(OpenAI, server="azure")
cerebras = partial(OpenAI, server="cerebras")
deepseek = partial(OpenAI, server="deepseek")
fireworks = partial(OpenAI, server="fireworks")
groq = partial(OpenAI, server="groq")
litellm = partial(OpenAI, server="litellm")
llamacpp = partial(OpenAI, server="llamacpp")
lmstudio = partial(OpenAI, server="lmstudio")
mistral = partial(OpenAI, server="mistral")
ollama = partial(OpenAI, server="ollama")
openrouter = partial(OpenAI, server="openrouter")
together = partial(OpenAI, server="together")
vllm = partial(OpenAI, server="vllm")
xai = partial(OpenAI, server="xai")
