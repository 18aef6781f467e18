"""Record a run with everything that a provider says, and replay it without the provider.

The run that is recorded is with a server on this machine that says what OpenAI would say; with a
key and without `base_url`, it would be OpenAI's own.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from treadle import Agent, ConfigError, tool
from treadle.providers import OpenAI
from treadle.testing import Recorder, Replayer


@contextmanager
def a_server() -> Generator[str]:
    """Serve two replies: a call of the tool, and the answer."""
    function = {"name": "weather", "arguments": json.dumps({"city": "Paris"})}
    call = {"id": "call_1", "type": "function", "function": function}
    replies: list[dict[str, object]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "Yes: it rains in Paris."},
    ]

    class Exchange(BaseHTTPRequestHandler):
        """One request and its answer."""

        def do_POST(self) -> None:
            """Answer with the next reply."""
            self.rfile.read(int(self.headers["Content-Length"]))
            choice = {"index": 0, "message": replies.pop(0), "finish_reason": "stop"}
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [choice]}).encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Keep quiet."""

    server = HTTPServer(("127.0.0.1", 0), Exchange)
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@tool
def weather(city: str) -> str:
    """Look up the current weather of a city."""
    return f"{city}: 12 C, light rain"


agent = Agent("guide", tools=[weather])

with TemporaryDirectory() as folder:
    recording = Path(folder) / "paris.jsonl"

    with a_server() as address:
        recorder = Recorder(recording)
        model = OpenAI("gpt-5.2", base_url=address, api_key="sk-very-secret", transport=recorder)
        result = agent.run_sync("Do I need an umbrella in Paris?", model=model)
        print("recorded:", result.output)
        # > recorded: Yes: it rains in Paris.
    written = recording.read_text(encoding="utf-8")
    print(len(written.splitlines()), "exchanges, with the key in them:", "very-secret" in written)
    # > 2 exchanges, with the key in them: False

    # The server is gone. The tool runs again, and what it returns has to be what it was.
    replayer = Replayer(recording)
    model = OpenAI("gpt-5.2", base_url=address, transport=replayer)
    result = agent.run_sync("Do I need an umbrella in Paris?", model=model)
    print("replayed:", result.output, replayer.left, "left")
    # > replayed: Yes: it rains in Paris. 0 left

    # A request that was not recorded is not guessed at.
    model = OpenAI("gpt-5.2", base_url=address, transport=Replayer(recording))
    try:
        agent.run_sync("Do I need an umbrella in Rome?", model=model)
    except ConfigError as error:
        print(*(line for line in str(error).splitlines() if "umbrella" in line), sep="\n")
    # > -      "content": "Do I need an umbrella in Paris?"
    # > +      "content": "Do I need an umbrella in Rome?"
