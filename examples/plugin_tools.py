"""Tools that others bring, in one agent: a plugin server, a library in C, and a folder of modules.

The parts are in `examples/plugins`. It needs a C compiler, and `pip install ".[grpc]"` in a clone.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from treadle import Agent, Tool
from treadle.plugins import connect_grpc, load_folder, load_library
from treadle.testing import ScriptedModel, calls

PARTS = Path(__file__).parent / "plugins"

GREET = '''
from treadle import tool


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''


def local_tools(place: Path) -> list[Tool]:
    """Compile and load the library, and load a folder with one module."""
    library, folder = place / "libsums.so", place / "greetings"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(PARTS / "sums.c")]
    subprocess.run(command, check=True)  # noqa: S603 the compiler of this machine
    folder.mkdir()
    (folder / "greet.py").write_text(GREET, encoding="utf-8")
    return [*load_library(library), *load_folder(folder)]


async def main(address: str, tools: list[Tool]) -> None:
    """Run an agent; the script stands in for a model."""
    model = ScriptedModel(
        [
            calls(
                ("c1", "forecast", {"city": "Paris", "days": 2}),
                ("c2", "add", {"a": 1.5, "b": 2}),
                ("c3", "greet", {"name": "Ada"}),
            ),
            "All done.",
        ]
    )
    async with connect_grpc(address) as plugins:
        agent = Agent("all_kinds", model=model, tools=[*plugins.tools, *tools])
        result = await agent.run("Forecast, add and greet.")
    for found in result.tool_results:
        print(f"{found.name}: {found.text}")
    print(result.output)


if __name__ == "__main__":
    program = [sys.executable, str(PARTS / "plugin_server.py")]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server,  # noqa: S603
    ):
        assert server.stdout is not None  # noqa: S101
        port = server.stdout.readline().strip()
        try:
            asyncio.run(main(f"127.0.0.1:{port}", local_tools(Path(folder))))
        finally:
            server.kill()

# > forecast: {"celsius":[12,13],"city":"Paris"}
# > add: 3.5
# > greet: Hello Ada
# > All done.
