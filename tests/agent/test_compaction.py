"""Long runs stay inside the window of their model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.compaction.histories import problems_of
from treadle import (
    Agent,
    Compaction,
    CompactionStarted,
    ContextCompacted,
    ContextTooSmall,
    Conversation,
    Image,
    Limits,
    MemoryStore,
    Message,
    ModelReply,
    ModelRequest,
    Overloaded,
    RunFailed,
    Usage,
    tool,
)
from treadle.compaction.strategy import Ask, Gone
from treadle.compaction.turns import NOTE
from treadle.journal import Compacted
from treadle.messages import Thread
from treadle.testing import FunctionModel, ScriptedModel, calls, reply

WINDOW = 4_000
Answer = Callable[[ModelRequest], Any]


@tool
def look(number: int) -> str:
    """Look at a thing."""
    return f"thing {number}: " + "word " * 200


class Talker:
    """Calls `look` so often, then answers; notes are written by `note`, and all requests kept."""

    def __init__(self, times: int, note: Answer = lambda _: '{"summary": "looked"}') -> None:
        self.times = times
        self.note = note
        self.asked: list[ModelRequest] = []
        self.notes: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Any:
        if not request.tools:
            self.notes.append(request)
            return self.note(request)
        self.asked.append(request)
        number = len(self.asked)
        if number > self.times:
            return reply("done", usage=Usage(requests=1))
        return calls((f"c{number}", "look", {"number": number}))


def agent_of(talker: Answer, **options: Any) -> Agent[Any, Any]:
    options.setdefault("compaction", Compaction(window=WINDOW))
    options.setdefault("limits", Limits(max_turns=200))
    return Agent("a", model=FunctionModel(talker), tools=[look], **options)


async def events_of(agent: Agent[Any, Any], said: Any = "go") -> tuple[Any, list[Any]]:
    run = agent.start(said)
    found = [e async for e in run if isinstance(e, CompactionStarted | ContextCompacted)]
    return await run, found


@pytest.mark.parametrize("strategy", ["summary", "checkpoint", "aggressive", "drop_oldest"])
async def test_a_long_run_stays_inside_the_window(strategy: Any) -> None:
    """S62, S63: each strategy; every request fits, is valid everywhere, and has the question."""
    talker = Talker(60)
    agent = agent_of(talker, compaction=Compaction(window=WINDOW, strategy=strategy))
    result, events = await events_of(agent)
    assert result.output == "done"
    assert result.turns == 61
    for request in (*talker.asked, *talker.notes):
        assert sum(len(part.text) for m in request.messages for part in m.tool_results) < 4 * WINDOW
        assert await problems_of(request) == []
    for request in talker.asked:
        assert strategy == "summary" or request.messages[0].text == "go"
    assert len(events) == 2 * result.context.compactions > 4
    done = [each for each in events if isinstance(each, ContextCompacted)]
    assert all(each.tokens < each.tokens_before and each.error is None for each in done)
    assert bool(talker.notes) is (strategy != "drop_oldest")
    assert result.usage.requests == 61 + len(talker.notes)  # B214: counted, but not as turns


async def test_what_is_short_is_left_alone() -> None:
    """B210: no model call, no event, the same messages."""
    talker = Talker(3)
    result, events = await events_of(agent_of(talker))
    assert events == []
    assert talker.notes == []
    assert len(result.messages) == 8
    assert result.context.compactions == 0
    assert 0 < result.context.history < result.context.total < WINDOW


async def test_the_journal_keeps_the_originals() -> None:
    """W56: only the view shrinks, each revision is a history, the next run goes on with it."""
    store = MemoryStore()
    agent = agent_of(Talker(30), store=store)
    result = await agent.run("go", conversation="c")
    conversation = await Conversation.open("c", store=store)
    assert list(await conversation.messages()) == list(result.messages)
    entries = await _entries(conversation)
    whole = [each for each in entries if type(each).__name__ == "CallEnded"]
    assert len(whole) == 30
    cuts = [each for each in entries if isinstance(each, Compacted)]
    assert len(cuts) == result.context.compactions > 1
    before = await conversation.messages(2)
    assert before[0].text == "go"
    head = await store.head("c")
    for revision in range(1, head.revision + 1):
        messages = await conversation.messages(revision)
        if messages:
            assert await problems_of(ModelRequest(messages=Thread(messages))) == []
    again = await agent_of(lambda _: "yes", store=store).run("more", conversation="c")
    assert [m.text for m in again.messages[-2:]] == ["more", "yes"]
    assert list(again.messages[:-2]) == list(result.messages)


async def _entries(conversation: Conversation) -> list[Any]:
    return [entry for _, entry in await conversation.entries()]


async def test_a_note_that_fails_leaves_the_history(caplog: pytest.LogCaptureFixture) -> None:
    """B213: the originals are sent, the event says why, and it is not tried at every turn."""

    def note(_: ModelRequest) -> ModelReply:
        raise Overloaded("busy", provider="p", model="m")

    talker = Talker(13, note)
    compaction = Compaction(window=WINDOW, trigger=0.5, strategy="summary")
    result, events = await events_of(agent_of(talker, compaction=compaction))
    assert result.output == "done"
    failed = [e for e in events if isinstance(e, ContextCompacted)]
    assert failed
    assert all("busy" in (e.error or "") for e in failed)
    assert 1 <= len(failed) <= 5
    assert all(request.messages[0].text == "go" for request in talker.asked)


async def test_where_it_has_to_be_old_turns_go_without_a_note() -> None:
    """A strategy that fails never stops a run that could go on."""
    talker = Talker(40, lambda _: reply(""))
    result, events = await events_of(agent_of(talker))
    assert result.output == "done"
    done = [e for e in events if isinstance(e, ContextCompacted)]
    assert {e.strategy for e in done} == {"checkpoint", "drop_oldest"}
    assert not any(NOTE in m.text for m in result.messages)


async def test_a_note_that_is_longer_is_not_taken() -> None:
    """BS-45: a summariser that returns a longer text is asked once; the history stays."""
    talker = Talker(6, lambda _: "blah " * 4_000)
    compaction = Compaction(window=WINDOW, trigger=0.3, strategy="summary")
    result, events = await events_of(agent_of(talker, compaction=compaction))
    assert result.output == "done"
    assert len(result.messages) == 14
    assert len(talker.notes) <= 2
    assert "longer than what it stands for" in events[-1].error


async def test_what_stands_around_the_history_fills_the_window() -> None:
    """BS-45: tools and instructions alone are too long: no compaction, one clear error."""
    talker = Talker(3)
    agent = agent_of(talker, instructions="rule " * 4_300, compaction=Compaction(window=WINDOW))
    with pytest.raises(ContextTooSmall) as error:
        await agent.run("go")
    assert talker.asked == talker.notes == []
    assert "instructions about " in str(error.value)
    assert "window of 4,000 tokens" in str(error.value)
    assert error.value.result.messages[0].text == "go"


async def test_pictures_are_not_counted_as_their_bytes() -> None:
    """BS-46: three pictures of 2 MB in a window of 100,000 tokens are no reason."""
    png = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        + (1024).to_bytes(4)
        + (768).to_bytes(4)
        + b"\1" * 2_000_000
    )
    model = ScriptedModel(["I see."])
    agent = Agent("a", model=model, compaction=Compaction(window=100_000))
    picture = Image.from_bytes(png, "image/png")
    result, events = await events_of(agent, ["look", picture, picture, picture])  # type: ignore[arg-type]
    assert events == []
    assert 500 < result.context.media < 20_000


class Own:
    """A strategy of one's own."""

    name, keep_recent, protect, share = "own", 2, ("user",), 1.0

    def __init__(self, note: Any) -> None:
        self._note = note
        self.seen: list[Gone] = []

    async def note(self, gone: Gone, ask: Ask) -> str | None:
        self.seen.append(gone)
        if isinstance(self._note, Exception):
            raise self._note
        return self._note


async def test_a_strategy_of_ones_own() -> None:
    own = Own("things were looked at")
    result, events = await events_of(
        agent_of(Talker(30), compaction=Compaction(window=WINDOW, strategy=own))
    )
    assert result.messages[1].text == NOTE + "things were looked at"
    assert own.seen[1].note == "things were looked at"
    assert all(turn.kind == "tools" for gone in own.seen for turn in gone.turns)
    assert events[-1].strategy == "own"
    broken = agent_of(
        Talker(8), compaction=Compaction(window=WINDOW, trigger=0.4, strategy=Own(ValueError("no")))
    )
    result, events = await events_of(broken)
    assert result.output == "done"
    assert "no" in (events[-1].error or "")


async def test_what_is_kept_of_an_earlier_note_is_in_the_next_one() -> None:
    talker = Talker(60)
    await agent_of(talker, compaction=Compaction(window=WINDOW, strategy="summary")).run("go")
    assert len(talker.notes) > 1
    assert "looked" in talker.notes[1].messages[0].text


async def test_the_model_of_the_policy_writes_the_notes() -> None:
    writer = FunctionModel(lambda _: reply('{"summary": "s"}', usage=Usage(5, requests=1)))
    talker = Talker(40)
    result = await agent_of(talker, compaction=Compaction(window=WINDOW, model=writer)).run("go")
    assert talker.notes == []
    assert result.context.compactions > 1
    assert result.usage.input_tokens == 5 * (result.usage.requests - result.turns) > 0


async def test_usage_of_notes_survives_and_ids_never_come_twice() -> None:
    """A resume after every append: the same answer, nothing done again, no call ID used twice."""
    names: list[str] = []

    @tool
    def look(number: int) -> str:
        return "word " * 300

    def answer(request: ModelRequest) -> Any:
        if not request.tools:
            return reply('{"summary": "s"}', usage=Usage(7, requests=1))
        last = [call for m in request.messages for call in m.tool_calls][-1:]
        done = json.loads(last[0].raw)["number"] + 1 if last else 0
        if done >= 20:
            return "done"
        return calls(("call_0", "look", {"number": done}))  # a server that has one ID only

    compaction = Compaction(window=3_000, keep_recent=2)
    for appends in range(1, 40):
        store = Dying()
        model, limits = FunctionModel(answer), Limits(max_turns=100)
        agent = Agent("a", model, tools=[look], compaction=compaction, limits=limits)
        await die_after(appends, agent, store)
        if not await store.list(limit=1):  # it died before it had begun
            continue
        result = await agent.resume("r", store=store)
        assert result.output == "done"
        conversation = await Conversation.open(result.conversation_id, store=store)
        entries = await _entries(conversation)
        ended = [e.result.call_id for e in entries if type(e).__name__ == "CallEnded"]
        assert len(ended) == len(set(ended))
        notes = sum(e.usage.input_tokens for e in entries if isinstance(e, Compacted))
        assert result.usage.input_tokens == notes > 0
        names.append(result.run_id)
    assert len(names) > 15


async def test_what_a_child_run_said_is_made_to_fit_too() -> None:
    inner = agent_of(Talker(30))
    outer = Agent(
        "o",
        model=ScriptedModel([calls(("x", "a", {"input": "go"})), "fine"]),
        tools=[inner.as_tool()],
    )
    store = MemoryStore()
    run = outer.start("hi", store=store, conversation="c")
    paths = [e.path async for e in run if isinstance(e, ContextCompacted)]
    assert (await run).output == "fine"
    assert len(paths) > 1
    assert set(paths) == {"a#1"}


async def test_a_budget_that_allows_no_note() -> None:
    """The run ends as it does without compaction: by its budget, with what there is."""
    agent = agent_of(Talker(60), limits=Limits(max_tokens=60_000, max_turns=200))
    result = await agent.run("go")
    assert result.stop_reason in ("budget", "answer")
    assert result.usage.total_tokens <= 60_000


async def test_typed_output_and_forced_answers_fit_too() -> None:
    talker = Talker(500)
    limits = Limits(max_turns=50)

    def answer(request: ModelRequest) -> Any:
        if not request.tools and "final answer now" in request.messages[-1].text:
            return "forced"
        return talker(request)

    result = await agent_of(answer, limits=limits).run("go")
    assert result.output == "forced"
    assert result.stop_reason == "limit"
    assert result.context.compactions > 2


async def test_failure_inside_is_told_with_the_result() -> None:
    def answer(_: ModelRequest) -> Any:
        raise ValueError("broken")

    with pytest.raises(RunFailed):
        await agent_of(answer).run("go")


async def test_a_tokenizer_of_ones_own_counts() -> None:
    """What it counts decides, and is not corrected by what was learnt with estimates."""
    talker = Talker(6)
    compaction = Compaction(window=WINDOW, tokenizer=lambda text: len(text) * 2)
    result, events = await events_of(agent_of(talker, compaction=compaction))
    assert result.output == "done"
    assert events
    assert result.context.instructions == 0 < result.context.tools


async def test_what_a_provider_counts_corrects_the_estimate() -> None:
    """A model that counts three times as much is compacted three times as early."""

    def answer(request: ModelRequest) -> Any:
        if not request.tools:
            return '{"rolling_summary": "looked"}'
        texts = [part.text for m in request.messages for part in m.tool_results]
        number = 1 + sum(1 for m in request.messages if m.tool_calls)
        seen.append(len(request.messages))
        if len(seen) > 25:
            return reply("done")
        usage = Usage(input_tokens=300 + 3 * sum(map(len, texts)) // 4, requests=1)
        return calls((f"c{len(seen)}", "look", {"number": number}), usage=usage)

    seen: list[int] = []
    result, events = await events_of(agent_of(answer, compaction=Compaction(window=6_000)))
    assert result.output == "done"
    assert len(events) > 4
    assert max(seen) < 22  # without correction it would be more than 40


@pytest.mark.parametrize("strategy", ["checkpoint", "aggressive"])
async def test_what_is_protected_is_never_read_by_who_writes_notes(strategy: Any) -> None:
    """S63: only tool traffic goes, order is kept; its text is in the notes' requests, no other."""
    talker = Talker(40)
    said = [Message.user("SAID one"), Message.assistant("FINAL one"), Message.user("SAID two")]
    compaction = Compaction(window=WINDOW, strategy=strategy)
    result = await agent_of(talker, compaction=compaction).run("SAID three", history=said)
    asked = "".join(m.text for request in talker.notes for m in request.messages)
    assert "thing 1:" in asked
    assert "SAID" not in asked
    assert "FINAL" not in asked
    texts = [m.text for m in result.messages if m.text and not m.text.startswith(NOTE)]
    assert texts == ["SAID one", "FINAL one", "SAID two", "SAID three", "done"]


async def test_pasted_inputs_yield_last_and_the_event_says_so() -> None:
    """W54: where inputs alone exceed the window, the oldest go into the note."""
    talker = Talker(0)
    store = MemoryStore()
    agent = agent_of(talker, store=store)
    yielded: list[tuple[str, ...]] = []
    messages = Thread()
    for number in range(12):
        run = agent.start(f"paste {number} " + "text " * 400, conversation="c")
        yielded += [each.yielded async for each in run if isinstance(each, ContextCompacted)]
        messages = (await run).messages
        assert messages[-2].text.startswith(f"paste {number} ")
        assert (await run).context.total < WINDOW
    assert yielded
    assert yielded[-1][-1] == "user"
    assert await problems_of(ModelRequest(messages=messages)) == []
