"""`python -m tests.e2e.llama_server MODEL_FILE`: llama.cpp's own HTTP server on a free port.

It prints its address when it is ready and stops when its input ends. It speaks Chat Completions,
OpenAI Responses and Anthropic Messages.
"""

from __future__ import annotations

import sys

from treadle.providers.local.llama import library

TEMPLATE = """\
{%- set ns = namespace(system="You are a helpful assistant.") -%}
{%- if messages[0].role == "system" -%}{%- set ns.system = messages[0].content -%}{%- endif -%}
<|im_start|>system
{{ ns.system }}
{%- if tools %}

These are your functions:
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}
If one of them fits the question, reply with one JSON object and nothing else:
{"name": <function name>, "arguments": <object with the arguments>}
{%- endif %}<|im_end|>
{% for message in messages -%}
{%- if message.role == "user" -%}
<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == "assistant" -%}
<|im_start|>assistant
{% if message.tool_calls -%}
{%- for call in message.tool_calls -%}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- endfor -%}
{%- else -%}{{ message.content }}{%- endif %}<|im_end|>
{% elif message.role == "tool" -%}
<|im_start|>user
The function returned: {{ message.content }}
Now answer my question in one plain sentence that states this result. Do not call a function \
again.<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


def main(model: str) -> None:
    """Serve until the input ends."""
    llama = library()
    params = llama.CommonParams()
    params.model.path = model
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = 4096, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.use_jinja, params.chat_template = True, TEMPLATE
    params.sampling.temp, params.sampling.seed = 0.0, 1
    params.verbosity = 0
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
