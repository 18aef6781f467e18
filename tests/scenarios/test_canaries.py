"""Secrets that go through a run, and come back in failures, show up nowhere (BS-62)."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.servers import Answer, serve
from treadle import Agent, ToolError, open_store, tool
from treadle.cli.main import main
from treadle.errors import TreadleError
from treadle.events import AnyEvent
from treadle.ports.quota import Bounds
from treadle.providers import OpenAI
from treadle.stores.mysql import MySQLStore
from treadle.stores.postgres import PostgresStore
from treadle.stores.redis import RedisStore
from treadle.stores.redis_quota import RedisQuota
from treadle.testing import Recorder, ScriptedModel, calls
from treadle.values.secret import hidden

KEY = "sk-test-CANARY-1-key"
HEADER = "CANARY-2-header"
ARGUMENT = "CANARY-3-argument"
ADDRESS = "CANARY-4-address"
JSON = {"Content-Type": "application/json"}
EVERY = (KEY, HEADER, ARGUMENT, ADDRESS)


def quota(url: str) -> RedisQuota:
    """Return a quota that is shared over Redis."""
    return RedisQuota(url, Bounds(rpm=1))


@tool
def sign_in(password: SecretStr) -> str:
    """Sign in; the server says what it got."""
    raise ToolError(f"401: refused {password.get_secret_value()} with key {KEY} and {HEADER}")


def assert_clean(said: str) -> None:
    """No canary stands in it, in no spelling that is told."""
    for canary in EVERY:
        assert canary not in said
    assert "CANARY" not in said


def listened(events: list[AnyEvent]) -> Any:
    """Return an observer that notes all events."""

    class Listening:
        def on_event(self, event: AnyEvent) -> None:
            events.append(event)

    return Listening()


async def test_a_provider_that_repeats_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A 401 with the headers in its body: error, its causes, logs, recording, events, journal."""
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"bad key {KEY} with {HEADER}"}}).encode()
    recording = tmp_path / "recorded.jsonl"
    store = open_store(f"sqlite:///{tmp_path}/c.db")
    events: list[AnyEvent] = []
    async with serve(Answer(pieces=(echo,), status=401, headers=JSON)) as server:
        model = OpenAI(
            "m",
            base_url=server.url,
            api_key=KEY,
            headers={"x-secret-token": HEADER},
            transport=Recorder(recording),
        )
        agent = Agent("clerk", model=model, store=store)
        with pytest.raises(TreadleError) as caught:
            await agent.run("x", conversation="c", observers=[listened(events)])
    await store.close()

    assert events
    assert_clean("".join(traceback.format_exception(caught.value)))
    assert_clean(caplog.text)
    assert_clean(repr((model, agent, store, caught.value)))
    assert_clean(recording.read_text())
    assert_clean((tmp_path / "c.db").read_bytes().decode(errors="replace"))
    assert_clean(repr(events))


async def test_a_tool_that_repeats_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result of a call that fails, what the model is told of it, and `treadle show`."""
    caplog.set_level(logging.DEBUG)
    url = f"sqlite:///{tmp_path}/c.db"
    events: list[AnyEvent] = []
    async with serve(Answer(pieces=(b"{}",), status=401, headers=JSON)) as server:
        keyed = OpenAI("m", base_url=server.url, api_key=KEY, headers={"x-auth": HEADER})
        with pytest.raises(TreadleError):  # from here on its secrets are known
            await Agent("first", model=keyed).run("x")
    model = ScriptedModel([calls(("c1", "sign_in", {"password": ARGUMENT})), f"No: {ARGUMENT}."])
    store = open_store(url)
    agent = Agent("clerk", model=model, tools=[sign_in], store=store)
    result = await agent.run("x", conversation="c", observers=[listened(events)])
    await store.close()

    assert result.tool_results[0].text == "401: refused *** with key *** and ***"
    assert_clean(repr([event for event in events if hasattr(event, "call_id")]))
    assert_clean(caplog.text)
    for more in ((), ("--json",), ("--context",)):
        command = ["show", result.run_id, "--store", url, *more]
        assert await asyncio.to_thread(main, command) == 0
        said = capsys.readouterr()
        assert said.out
        assert_clean(said.out + said.err)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{ADDRESS}@127.0.0.1:1/x",
        f"mysql://me:{ADDRESS}@127.0.0.1:1/x",
        f"redis://me:{ADDRESS}@127.0.0.1:1/0",
        f"postgresql://me:{ADDRESS}@no-such-host.invalid/x",
    ],
)
async def test_a_database_that_is_away(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The address of a store is shown without its password."""
    caplog.set_level(logging.DEBUG)
    store = open_store(url)
    agent = Agent("clerk", model=ScriptedModel(["x"]), store=store)

    with pytest.raises(TreadleError) as caught:
        await agent.run("x", conversation="c")
    await store.close()

    assert_clean("".join(traceback.format_exception(caught.value)))
    assert_clean(caplog.text)
    assert_clean(repr((store, agent)))


@pytest.mark.parametrize("kind", [PostgresStore, MySQLStore, RedisStore, quota])
def test_addresses_that_are_given_without_a_name_for_the_store(kind: Any) -> None:
    """Whoever takes an address makes its password known."""
    scheme = {PostgresStore: "postgresql", MySQLStore: "mysql"}.get(kind, "redis")
    word = f"CANARY-{getattr(kind, '__name__', 'quota')}"
    kind(f"{scheme}://me:{word}@127.0.0.1:1/0")

    assert hidden(f"with {word}") == "with ***"
