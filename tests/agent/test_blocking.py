"""Running from sync code: from any thread, inside other loops, and until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from treadle import Agent, Event, ModelRequest, tool
from treadle.testing import FunctionModel, ScriptedModel, calls


def test_run_sync_many_times_and_from_many_threads() -> None:
    """BS-67: one background loop serves them all."""
    loops: set[asyncio.AbstractEventLoop] = set()

    def answer(request: ModelRequest) -> str:
        loops.add(asyncio.get_running_loop())
        return "ok"

    agent = Agent("a", FunctionModel(answer))
    outputs: list[str] = [agent.run_sync("x").output for _ in range(3)]
    threads = [
        threading.Thread(target=lambda: outputs.append(agent.run_sync("x").output))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert outputs == ["ok"] * 11
    assert len(loops) == 1
    assert [asyncio.run(agent.run("x")).output for _ in range(3)] == ["ok"] * 3


async def test_run_sync_inside_a_running_loop() -> None:
    """As in a notebook: it works, on another thread's loop."""
    threads: list[threading.Thread] = []

    def answer(request: ModelRequest) -> str:
        threads.append(threading.current_thread())
        return "ok"

    agent = Agent("a", FunctionModel(answer))

    assert agent.run_sync("x").output == "ok"
    assert threads != [threading.current_thread()]


async def test_run_sync_inside_a_sync_tool() -> None:
    """A tool in a thread may run another agent."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = await asyncio.to_thread(agent.run_sync, "x")

    assert result.tool_results[0].text == "deep"


def test_run_sync_on_its_own_loop_is_refused() -> None:
    """It would wait for itself for ever."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool(isolation="inline")
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = agent.run_sync("x")

    assert "make the tool async" in result.tool_results[0].text


INTERRUPTED = """
import asyncio
from treadle import Agent
from treadle.testing import FunctionModel

async def hang(request):
    print("asked", flush=True)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        {clean_up}
        print("stopped", flush=True)

try:
    Agent("a", FunctionModel(hang)).run_sync("x")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("went on", Agent("b", FunctionModel(lambda request: "ok")).run_sync("y").output, flush=True)
"""


def interrupted(clean_up: str) -> tuple[list[str], str, int]:
    """What a program prints that gets Ctrl-C while its model is asked, its errors and its code."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c"]
    with subprocess.Popen(
        [*command, INTERRUPTED.format(clean_up=clean_up)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        try:
            first = program.stdout.readline().strip()
            program.send_signal(signal.SIGINT)
            said, errors = program.communicate(timeout=20)
        finally:
            program.kill()
    return [first, *said.splitlines()], errors, program.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_cancels_the_run() -> None:
    """The model is stopped, KeyboardInterrupt is raised, and the program can go on."""
    said, errors, code = interrupted("pass")

    assert sorted(said) == ["asked", "interrupted", "stopped", "went on ok"]
    assert said[-1] == "went on ok"
    assert (errors, code) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_waits_for_the_runs_clean_up() -> None:
    """What the run has to put away is put away before KeyboardInterrupt is raised."""
    said, errors, code = interrupted("await asyncio.sleep(0.05)")

    assert said == ["asked", "stopped", "interrupted", "went on ok"]
    assert (errors, code) == ("", 0)


UNSEEN = """
import asyncio, signal, weakref
from treadle.agent import blocking

class Thing: ...

def interrupted_in_a_callback(background, job, take=blocking._Background.take):
    took = take(background, job)
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    return took

async def hang():
    await asyncio.get_running_loop().create_future()

async def answer():
    return "went on"

before = signal.getsignal(signal.SIGINT)
blocking._Background.take, take = interrupted_in_a_callback, blocking._Background.take
try:
    blocking.run_blocking(hang())
except KeyboardInterrupt:
    print("interrupted", flush=True)
blocking._Background.take = take
print(blocking.run_blocking(answer()), signal.getsignal(signal.SIGINT) is before)
"""


def test_ctrl_c_where_an_exception_would_be_lost() -> None:
    """Python prints and drops what is raised in a weak reference's callback: this must not be."""
    program = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", UNSEEN],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert program.stdout.splitlines() == ["interrupted", "went on True"]
    assert (program.stderr, program.returncode) == ("", 0)


def outcome_of(work: Callable[[], str], *, within: float = 10) -> object:
    """What this returns or raises in a thread of its own, which must end in time."""
    found: list[object] = []

    def call() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 it is what is looked at
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(within)
    assert not thread.is_alive(), "run_sync() hangs"
    return found[0]


def ask(model: FunctionModel) -> str:
    """The output of one sync run."""
    return Agent("a", model).run_sync("x").output


class Leaving:
    """An observer that ends the process at the first event."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Event) -> None:
        """Leave."""
        self.seen += 1
        sys.exit(4)


OK = FunctionModel(lambda request: "ok")


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt("stop")])
def test_a_model_that_ends_the_process(raised: BaseException) -> None:
    """The caller gets what was raised; later runs, and one that goes on meanwhile, are served."""
    asked = threading.Event()
    go_on = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    outputs: list[object] = []

    async def wait(request: ModelRequest) -> str:
        loops.append(asyncio.get_running_loop())
        asked.set()
        await go_on.wait()
        return "went on"

    def leave(request: ModelRequest) -> str:
        raise raised

    waiting = threading.Thread(
        target=lambda: outputs.append(outcome_of(lambda: ask(FunctionModel(wait)))), daemon=True
    )
    waiting.start()
    assert asked.wait(10)

    caught = outcome_of(lambda: ask(FunctionModel(leave)))
    later = outcome_of(lambda: ask(OK))
    loops[0].call_soon_threadsafe(go_on.set)
    waiting.join(10)

    assert type(caught) is type(raised)
    assert str(caught) == str(raised)
    assert later == "ok"
    assert outputs == ["went on"]


def test_an_observer_that_ends_the_process() -> None:
    """sys.exit() in an observer hangs neither this run nor the next one."""

    leaving = Leaving()
    caught = outcome_of(lambda: Agent("a", OK).run_sync("x", observers=[leaving]).output)

    assert leaving.seen
    assert caught == "ok" or isinstance(caught, SystemExit), "as the run treats its observers"
    assert outcome_of(lambda: ask(OK)) == "ok"


def test_a_loop_that_is_stopped() -> None:
    """Runs that wait are failed in words, what they hold is put away, and the next loop is new."""
    loops: list[asyncio.AbstractEventLoop] = []
    put_away: list[str] = []

    async def stop(request: ModelRequest) -> str:
        loop = asyncio.get_running_loop()
        loops.append(loop)
        loop.stop()
        try:
            await loop.create_future()
        finally:
            put_away.append("model")
        return "never"

    def note(request: ModelRequest) -> str:
        loops.append(asyncio.get_running_loop())
        return "ok"

    caught = outcome_of(lambda: ask(FunctionModel(stop)))
    later = outcome_of(lambda: ask(FunctionModel(note)))

    assert isinstance(caught, RuntimeError)
    assert "was stopped before the run ended" in str(caught)
    assert put_away == ["model"]
    assert later == "ok"
    assert loops[0] is not loops[1]
    assert loops[0].is_closed()
