"""An agent that writes code in a workspace, and cannot leave it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from treadle import Agent
from treadle.testing import ScriptedModel, calls
from treadle.tools import code_tools

SCRIPT = [
    calls(("c1", "write_file", {"path": "src/sum.py", "content": "print(2 - 2)\n"})),
    calls(("c2", "edit_file", {"path": "src/sum.py", "old_string": "-", "new_string": "+"})),
    calls(("c3", "bash", {"command": "python3 src/sum.py"})),
    calls(("c4", "read_file", {"path": "../../etc/passwd"})),
    "It prints 4.",
]

with TemporaryDirectory() as folder:
    agent = Agent("coder", ScriptedModel(SCRIPT), tools=code_tools(folder))
    result = agent.run_sync("Write a program that adds 2 and 2.")
    for each in result.tool_results:
        print(each.text.strip())
    # > Created 'src/sum.py': 13 bytes.
    # > Edited 'src/sum.py' at line 1.
    # > 4
    # > [exit code 0]
    # > '../../etc/passwd' is outside the workspace
    print((Path(folder) / "src" / "sum.py").read_text(encoding="utf-8").strip())
    # > print(2 + 2)
