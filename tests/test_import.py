"""Importing the package costs little and brings nothing along that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ALLOWED = {"treadle", "msgspec"}
LATER = (
    "treadle.cli",
    "treadle.providers",
    "treadle.stores",
    "treadle.sandboxes",
    "treadle.testing",
)

BROUGHT = """
import json, sys, time
before, began = set(sys.modules), time.process_time()
{program}
seconds = time.process_time() - began
print(json.dumps({{"modules": sorted(set(sys.modules) - before), "seconds": seconds}}))
"""


def brought_by(program: str) -> list[str]:
    """Return the modules that a fresh process loads to run this program."""
    code = BROUGHT.format(program=program)
    # -I keeps the caller's folder and variables out.
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    report = json.loads(ended.stdout)
    print(f"{program.splitlines()[0]}: {1000 * report['seconds']:.0f} ms of CPU")
    return report["modules"]


def test_importing_is_light() -> None:
    """`import treadle` loads the values and nothing else: no extra, no wing, no roof."""
    modules = brought_by("import treadle")

    outside = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert outside <= ALLOWED
    assert not [name for name in modules if name.startswith(LATER)]


@pytest.mark.parametrize("heavy", ["pydantic", "docstring_parser", "aiohttp"])
def test_heavy_packages_wait(heavy: str) -> None:
    """What a tool or a request needs is not there before the first of them."""
    assert heavy not in brought_by("from treadle import *")


SCRIPTED_RUN = """from treadle import Agent, tool
from treadle.testing import ScriptedModel, calls

@tool
def add(a: int, b: int) -> int:
    return a + b

model = ScriptedModel([calls(("c1", "add", {"a": 1, "b": 2})), "3"])
assert Agent("adder", model, tools=[add]).run_sync("1 + 2?").output == "3"
"""


def test_a_run_without_network_needs_no_http() -> None:
    """Only a request to a server brings HTTP along."""
    modules = brought_by(SCRIPTED_RUN)

    assert not [name for name in modules if name.startswith(("aiohttp", "treadle.providers"))]
