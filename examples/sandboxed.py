"""An agent whose commands run in a sandbox: what it tries outside the workspace fails."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle import Agent
from treadle.sandboxes import Sandbox, SandboxLimits
from treadle.testing import ScriptedModel, calls
from treadle.tools import shell_tool

SCRIPT = [
    calls(("c1", "shell_command", {"command": "echo 6 7 > numbers; wc -w < numbers"})),
    calls(("c2", "shell_command", {"command": "cat ../secret.txt || echo out of reach"})),
    calls(("c3", "shell_command", {"command": "env | grep -c TOKEN || echo no token"})),
    calls(("c4", "shell_command", {"command": "sleep 600 & sleep 60", "timeout_ms": 200})),
    "Only the first did what it should.",
]

os.environ["DEPLOY_TOKEN"] = "t0ken"  # noqa: S105 it opens nothing
with TemporaryDirectory() as folder:
    Path(folder, "secret.txt").write_text("secret")
    workspace = Path(folder, "work")
    workspace.mkdir()
    sandbox = Sandbox(limits=SandboxLimits(processes=20))
    agent = Agent("operator", ScriptedModel(SCRIPT), tools=[shell_tool(workspace, sandbox=sandbox)])
    result = agent.run_sync("Count, look around, and wait.")
    for each in result.tool_results:
        print(each.text.partition("\n")[2])
    # > Exit code: 0
    # > Output:
    # > 2
    # > out of reach
    # > no token
    # > Timed out after 200 ms
    print(sorted(each.name for each in workspace.iterdir()))
    # > ['numbers']
