"""What goes along in a swarm: history, state, options; and who begins the next run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.nested import playing
from tests.workflows.desk import Desk, consults, hands, member, says
from treadle import (
    Agent,
    ConfigError,
    Conversation,
    Image,
    InvalidInput,
    MemoryStore,
    Message,
    RunContext,
    RunFailed,
    Swarm,
    Text,
    tool,
)
from treadle.journal import StepEnded
from treadle.testing import ScriptedModel, calls


@pytest.mark.parametrize("history", ["fresh", "full", "function"])
async def test_what_the_next_member_sees(history: str) -> None:
    """B117: the handoff and the request; or all of it; or what a function makes of it."""
    two = ScriptedModel(["done"])
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n-pixel", "image/png")
    given: list[Message] = []

    def chosen(messages: Any) -> list[Message]:
        given.extend(messages)
        return [messages[0]]

    policy: Any = chosen if history == "function" else history
    swarm = Swarm(
        "s", agents=[member("one", hands("two", "Look.")), Agent("two", two)], history=policy
    )
    store = MemoryStore()
    result = await swarm.run(["See:", image], store=store, run_id="r")
    seen = [m for m in two.requests[0].messages if m.role != "system"]
    told = "one has handed this conversation over to you: Look."
    if history == "fresh":
        assert len(seen) == 1
        assert seen[0].parts == (Text(told), Text("\nThe user said:\n"), Text("See:"), image)
    elif history == "full":
        assert [m.role for m in seen] == ["user", "assistant", "tool"]
        assert seen[0].parts == (Text("See:"), image)
    else:
        assert [m.role for m in given] == ["user", "assistant", "tool"]
        assert [m.text for m in seen] == ["See:", told]
    assert result.messages[-1].text == "done"
    kept = await Conversation.open(result.conversation_id, store=store)
    assert list(await kept.messages()) == list(result.messages)
    again = await swarm.resume("r", store=store)
    assert again.steps == result.steps


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (IndexError("far"), RunFailed, "IndexError: far"),
        (None, InvalidInput, "give a list of messages"),
        ("none", InvalidInput, "give a list of messages"),
        (["none"], InvalidInput, "holds Message objects"),
    ],
)
async def test_a_history_policy_that_fails(made: Any, error: Any, words: str) -> None:
    """The run fails with it and has its result; it goes on with one that does not."""

    def policy(_: Any) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    two, store = ScriptedModel(["done"]), MemoryStore()
    agents = [member("one", hands("two", "Look.")), Agent("two", two)]
    swarm = Swarm("s", agents=agents, history=policy, store=store)
    with pytest.raises(error, match=words) as failed:
        await swarm.run("Go.", run_id="r")
    result: Any = failed.value.result
    assert (result.stop_reason, result.handoff_chain) == ("failed", ["one", "two"])
    assert (await swarm.replace(history="fresh").resume("r")).output == "done"


@pytest.mark.parametrize(("promote", "moved"), [("all", "nf"), (["n"], "n"), ([], "")])
async def test_promotion(promote: Any, moved: str) -> None:
    """S31, B116, W44: all that is a member's own, or what is named; of the types that it had."""
    read: dict[str, Any] = {}

    @tool
    async def write(ctx: RunContext) -> str:
        """Write."""
        ctx.state.set("n", 3)
        ctx.state.set("f", 3.0)
        ctx.state.session.set("s", 1)
        return "ok"

    @tool
    async def look(ctx: RunContext) -> str:
        """Look."""
        read.update({key: ctx.state.get(key) for key in ("n", "f", "s")})
        ctx.state.set("n", "two's")
        return "ok"

    one = member("one", calls(("w", "write", {})), hands("two"), tools=[write])
    two = member("two", calls(("l", "look", {})), says("ok"), tools=[look])
    store = MemoryStore()
    result = await Swarm("s", agents=[one, two], promote=promote).run("Go.", store=store)
    wrote = {"n": 3, "f": 3.0}
    assert read == {"s": 1} | {key: wrote[key] if key in moved else None for key in wrote}
    assert all(type(read[key]) is type(wrote[key]) for key in moved)
    left = {f"agent::one::{key}": wrote[key] for key in wrote if key not in moved}
    shared = {f"session::{key}": wrote[key] for key in moved}
    expected = {"session::s": 1, "agent::two::n": "two's", **left, **shared}
    assert result.state.snapshot() == expected
    kept = await Conversation.open(result.conversation_id, store=store)
    assert (await kept.state()).snapshot() == expected


async def test_what_was_written_comes_with_the_handoff() -> None:
    """W44: in one write, with where it came from."""
    desk, store = Desk(), MemoryStore()
    await desk.swarm.run("Go.", store=store, conversation="c")
    ended = [e for b in await store.read("c") for e in b.entries if isinstance(e, StepEnded)]
    keys: list[list[str]] = [[w.key for w in each.writes] for each in ended]
    assert keys[0] == [
        "session::invoice",
        "agent::triage::invoice",
        "session::noted",
        "agent::triage::noted",
    ]
    assert [each.to for each in ended] == ["billing", "refund", ""]


class Team:
    """Two members that answer, and what a swarm of them was told."""

    def __init__(self, **options: Any) -> None:
        self.models = {
            name: ScriptedModel([f"{name} {n}" for n in "123"]) for name in ("two", "three")
        }
        one = member("one", hands("two"))
        rest = [Agent(name, model) for name, model in self.models.items()]
        self.swarm: Swarm[str] = Swarm("s", agents=[one, *rest], **options)


async def test_a_conversation_goes_on_with_who_answered_last() -> None:
    """B113: with its history; also from another process."""
    team, store = Team(), MemoryStore()
    first = await team.swarm.run("Hi.", conversation="c", store=store)
    second = await team.swarm.replace().run("And?", conversation="c", store=store)
    assert (first.handoff_chain, second.handoff_chain) == (["one", "two"], ["two"])
    assert second.steps[0].input == "And?"
    said = [m.text for m in second.messages]
    assert said[0].startswith("one has handed")
    assert said[1:] == ["two 1", "And?", "two 2"]
    kept = await Conversation.open("c", store=store)
    assert list(await kept.messages()) == list(second.messages)


async def test_or_with_the_entry() -> None:
    """With what was said, all the same."""
    team, store = Team(start_at="entry"), MemoryStore()
    await team.swarm.run("Hi.", conversation="c", store=store)
    second = await team.swarm.run(
        "And?", conversation="c", store=store, model=ScriptedModel(["me"])
    )
    assert second.handoff_chain == ["one"]
    assert [m.text for m in second.messages][1:] == ["two 1", "And?", "me"]


async def test_who_answered_may_be_gone() -> None:
    """Then the entry is next."""
    team, store = Team(), MemoryStore()
    await team.swarm.run("Hi.", conversation="c", store=store)
    fewer = Swarm("s", agents=[member("one", says("I am one"))])
    second = await fewer.run("And?", conversation="c", store=store)
    assert (second.output, second.agent) == ("I am one", "one")


async def test_options_of_a_run() -> None:
    """B119, W48: those of any run; those for agents are laid over all members."""
    model = ScriptedModel([hands("two"), "done"])
    agents = [Agent("one"), Agent("two")]
    history = [Message.user("Before."), Message("assistant", (Text("Yes."),))]
    result = await Swarm("s", agents=agents).run(
        "Go.",
        model=model,
        history=history,
        state={"session::k": 1},
        run_id="mine",
        requirements=["Be kind."],
        metadata={"who": "me"},
    )
    assert (result.output, result.run_id) == ("done", "mine")
    assert result.state.snapshot() == {"session::k": 1}
    first = [m.text for m in model.requests[0].messages if m.role != "system"]
    assert first == ["Before.", "Yes.", "Go."]
    assert all("Be kind." in str(request) for request in model.requests)
    for wrong in ({"instructions": "x"}, {"output_type": int}, {"planning": True}):
        options: Any = wrong
        with pytest.raises(ConfigError, match="is for one agent"):
            await Swarm("s", agents=agents).run("Go.", model=model, **options)


async def test_typed_output_of_the_member_that_answers() -> None:
    """Each has its own."""
    one = Agent("one", playing(hands("two")), output_type=int)
    final = calls(("f", "final_result", {"result": 3}))
    two = Agent("two", ScriptedModel([final]), output_type=int)
    swarm = Swarm("s", agents=[one, two])
    assert (await swarm.run("Go.")).output == 3


async def test_deps_reach_all_members() -> None:
    """Also those that are asked."""
    seen: list[Any] = []

    @tool
    async def look(ctx: RunContext) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "ok"

    looks = calls(("l", "look", {}))
    one = member("one", consults("two"), looks, hands("two"), tools=[look])
    two = member("two", looks, says("ok"), tools=[look])
    deps = object()
    await Swarm("s", agents=[one, two]).run("Go.", deps=deps)
    assert seen == [deps] * 3
