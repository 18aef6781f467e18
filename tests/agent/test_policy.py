"""Rules in a run: what they let run, what waits, what is denied, and what the journal tells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from treadle import (
    Agent,
    Approve,
    ConfigError,
    Conversation,
    Deny,
    Edit,
    InvalidTool,
    MemoryStore,
    Middleware,
    Next,
    RunContext,
    SQLiteStore,
    Tool,
    tool,
)
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.testing import ScriptedModel, calls
from treadle.tools import Above, Contains, Inside, Not, Rule, Rules

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


@tool
async def pay(amount: int, to: str = "ann") -> str:
    """Pay."""
    ran.append(("pay", amount, to))
    return "paid"


@tool(approval=True)
async def delete(path: str) -> str:
    """Delete."""
    ran.append(("delete", path))
    return "gone"


@tool
async def look() -> str:
    """Look."""
    ran.append("look")
    return "seen"


RULES = Rules(
    Rule("deny", "pay", {"amount": Above(1000)}, reason="Nobody pays more than 1000.", name="most"),
    Rule("ask", "pay", {"amount": Above(100)}, reason="More than 100."),
    Rule("allow", "delete", {"path": "tmp"}),
    Rule("allow", "look"),
)


def agent_with(store: Any, *script: Any, approval: Rules | None = RULES, **options: Any) -> Agent:
    """An agent with these tools."""
    tools = options.pop("tools", [pay, delete, look])
    return Agent(
        "a", ScriptedModel(list(script)), tools=tools, store=store, approval=approval, **options
    )


async def decisions(store: Any, name: str = "c") -> list[ApprovalDecided]:
    """What the journal tells of decisions."""
    conversation = await Conversation.open(name, store=store)
    entries = [entry for _, entry in await conversation.entries()]
    return [entry for entry in entries if isinstance(entry, ApprovalDecided)]


async def test_rules_of_an_agent_come_before_the_tools_own_option() -> None:
    """Each call by the first rule that is about it, and every decision is in the journal."""
    store = MemoryStore()
    batch = calls(
        ("1", "pay", {"amount": 50}),
        ("2", "pay", {"amount": 500}),
        ("3", "pay", {"amount": 5000}),
        ("4", "delete", {"path": "tmp"}),
        ("5", "delete", {"path": "etc"}),
        ("6", "look", {}),
    )
    agent = agent_with(store, batch, "done")
    first = await agent.run("go", conversation="c")
    assert ran == [("pay", 50, "ann"), ("delete", "tmp"), "look"]
    assert [(p.call_id, p.reason) for p in first.pending] == [("2", "More than 100."), ("5", "")]
    denied = next(r for r in first.tool_results if r.call_id == "3")
    assert (denied.is_error, denied.text) == (
        True,
        "Not run: a rule does not allow this call. The reason: Nobody pays more than 1000.",
    )
    no = Deny("keep it", by="alice", note="it is needed")
    answers = {"2": Approve(by="bob"), "5": no}
    result = await agent.resume(first.run_id, decisions=answers)
    assert result.output == "done"
    made = await decisions(store)
    assert [(d.call_id, d.verdict, d.rule, d.by, d.note, d.name) for d in made] == [
        ("3", "deny", "most", "", "", "pay"),
        ("4", "approve", "allow delete by path", "", "", "delete"),
        ("6", "approve", "allow look", "", "", "look"),
        ("2", "approve", "ask pay by amount", "bob", "", ""),
        ("5", "deny", "", "alice", "it is needed", ""),
    ]
    record = (await (await Conversation.open("c", store=store)).runs())[-1]
    assert record.verdicts == {"2": "approve", "5": "deny"}


async def test_a_tool_with_rules_of_its_own_and_of_a_run() -> None:
    """A call that no rule of a tool is about runs; a run's rules replace those of the agent."""
    own = pay.replace(approval=Rules(Rule("ask", where={"amount": Above(100)})))
    script = calls(("1", "pay", {"amount": 50}), ("2", "pay", {"amount": 5000}))
    agent = agent_with(MemoryStore(), script, "done", approval=None, tools=[own])
    result = await agent.run("go", conversation="c")
    assert (ran, [p.call_id for p in result.pending]) == ([("pay", 50, "ann")], ["2"])

    agent = agent_with(MemoryStore(), script, "done")
    result = await agent.run("go", conversation="c", approval=Rules(Rule("deny")))
    assert result.output == "done"
    assert [r.is_error for r in result.tool_results] == [True, True]
    assert "allow this call" in result.tool_results[0].text


async def test_a_yes_for_the_rest_of_the_conversation(tmp_path: Path) -> None:
    """For the tool: in another run, in another process, and not when the tool is another."""
    rules = Rules(Rule("ask", "pay", once="tool"))
    store = SQLiteStore(tmp_path / "chat.db")
    agent = agent_with(store, calls(("1", "pay", {"amount": 1})), "done", approval=rules)
    first = await agent.run("go", conversation="c")
    denied = await agent.resume(first.run_id, decisions={"1": Deny()})
    assert denied.output == "done"
    again = agent_with(store, calls(("2", "pay", {"amount": 2})), "done", approval=rules)
    second = await again.run("go", conversation="c")
    assert [p.call_id for p in second.pending] == ["2"], "a no does not hold"
    await again.resume(second.run_id, decisions={"2": Edit({"amount": 3})})
    again = agent_with(store, calls(("3", "pay", {"amount": 2})), "done", approval=rules)
    third = await again.run("go", conversation="c")
    assert [p.call_id for p in third.pending] == ["3"], "a yes to an edit does not either"
    await again.resume(third.run_id, decisions={"3": Approve(by="alice")})
    await store.close()

    fresh = SQLiteStore(tmp_path / "chat.db")
    later = agent_with(fresh, calls(("4", "pay", {"amount": 99})), "done", approval=rules)
    result = await later.run("go", conversation="c")
    assert (result.output, ran[-1]) == ("done", ("pay", 99, "ann"))
    last = (await decisions(fresh))[-1]
    assert (last.by, last.name, last.note) == ("alice", "pay", "The yes to call '3' holds.")
    assert (last.rule, last.verdict) == ("ask pay", "approve")

    other = pay.replace(description="Pay, and tell everybody.")
    changed = agent_with(
        fresh, calls(("5", "pay", {"amount": 99})), "done", approval=rules, tools=[other]
    )
    result = await changed.run("go", conversation="c")
    assert [p.call_id for p in result.pending] == ["5"]
    elsewhere = agent_with(fresh, calls(("6", "pay", {"amount": 1})), approval=rules)
    result = await elsewhere.run("go", conversation="d")
    assert [p.call_id for p in result.pending] == ["6"], "it holds in its own conversation only"
    await fresh.close()


async def test_a_yes_for_the_same_arguments() -> None:
    """However they are written; other arguments and another rule ask anew; a reset forgets."""
    rules = Rules(
        Rule("ask", "pay", {"to": "eve"}, once="tool"), Rule("ask", "pay", once="arguments")
    )
    store = MemoryStore()

    async def run(call_id: str, **arguments: Any) -> list[str]:
        agent = agent_with(store, calls((call_id, "pay", arguments)), "done", approval=rules)
        result = await agent.run("go", conversation="c")
        waiting = [p.call_id for p in result.pending]
        if waiting:
            await agent.resume(result.run_id, decisions={call_id: Approve()})
        return waiting

    assert await run("1", amount=1, to="ann") == ["1"]
    assert await run("2", to="ann", amount=1) == []
    assert await run("3", amount=2, to="ann") == ["3"]
    assert await run("4", amount=2, to="eve") == ["4"]
    assert await run("5", amount=3, to="eve") == []
    assert await run("6", amount=3, to="bob") == ["6"]
    conversation = await Conversation.open("c", store=store)
    await conversation.reset([])
    assert await run("7", amount=1, to="ann") == ["7"]


async def test_two_calls_of_one_reply_are_both_asked_about() -> None:
    """A yes to one does not let the other run that somebody has left waiting."""
    rules = Rules(Rule("ask", "pay", once="tool"))
    batch = calls(("1", "pay", {"amount": 1}), ("2", "pay", {"amount": 2}))
    agent = agent_with(MemoryStore(), batch, "done", approval=rules)
    first = await agent.run("go", conversation="c")
    second = await agent.resume(first.run_id, decisions={"1": Approve()})
    assert [p.call_id for p in second.pending] == ["2"]
    assert len(ran) == 1


async def test_what_a_rule_denies_never_runs() -> None:
    """Not after an edit, not as middleware changed it, and not as a link of a chain."""
    store = MemoryStore()
    agent = agent_with(store, calls(("1", "pay", {"amount": 500})), "done")
    first = await agent.run("go", conversation="c")
    result = await agent.resume(first.run_id, decisions={"1": Edit({"amount": 5000})})
    assert "Nobody pays more" in result.tool_results[0].text

    class Generous(Middleware):
        async def before_tool(self, ctx: RunContext, call: Any, arguments: Any) -> Any:
            return {**arguments, "amount": 2000}

    agent = agent_with(store, calls(("1", "pay", {"amount": 5})), "done", middleware=[Generous()])
    result = await agent.run("go")
    assert "Nobody pays more" in result.tool_results[0].text

    @tool
    async def leads(amount: int) -> Next:
        """Lead to a payment."""
        return Next("pay", {"amount": amount})

    batch = calls(*((str(n), "leads", {"amount": n}) for n in (5, 500, 5000)))
    allowing = Rules(*RULES.rules, Rule("allow", "pay"))
    agent = agent_with(store, batch, "done", tools=[leads, pay], approval=allowing)
    result = await agent.run("go", conversation="e")
    assert [r.text for r in result.messages[2].tool_results] == [
        "paid",
        "Tool 'pay' needs somebody's approval: call it by itself.",
        "Not run: a rule does not allow this call. The reason: Nobody pays more than 1000.",
    ]
    assert ran == [("pay", 5, "ann")]
    made = {(d.call_id, d.verdict, d.rule, d.name) for d in await decisions(store, "e")}
    assert made == {("5", "approve", "allow pay", "pay"), ("5000", "deny", "most", "pay")}


@pytest.mark.parametrize("name", ["amt", "amount"])
async def test_an_argument_that_the_model_knows_by_another_name(name: str) -> None:
    """A rule may name it either way: as the model and whoever decides see it, or as the code."""

    @tool
    async def transfer(amount: Annotated[int, Field(alias="amt")]) -> str:
        """Transfer money."""
        ran.append(("transfer", amount, ""))
        return "done"

    rules = Rules(
        Rule("deny", "transfer", {name: Above(1000)}), Rule("ask", "transfer", {name: Above(100)})
    )
    for tools, policy in (([transfer], rules), ([transfer.replace(approval=rules)], None)):
        store = MemoryStore()
        batch = calls(*((str(n), "transfer", {"amt": n}) for n in (5, 500, 5000)))
        agent = agent_with(store, batch, "done", tools=tools, approval=policy)
        first = await agent.run("go")
        assert [call.arguments for call in first.pending] == [{"amt": 500}]
        result = await agent.resume(first.run_id, decisions={"500": Edit({"amt": 2000})})
        assert [r.text.partition(":")[0] for r in result.messages[2].tool_results] == [
            "done",
            "Not run",
            "Not run",
        ]
    assert ran == [("transfer", 5, ""), ("transfer", 5, "")]


async def test_rules_that_look_at_files(tmp_path: Path) -> None:
    """They block no event loop, and are looked at again before the call runs."""
    (tmp_path / "work").mkdir()
    rules = Rules(
        Rule("allow", "delete", {"path": Inside(str(tmp_path / "work"))}),
        Rule("deny", "delete", {"path": Not(Inside(str(tmp_path)))}),
    )
    paths = ("work/a", "other/b", "../c")
    batch = calls(*((p, "delete", {"path": str(tmp_path / p)}) for p in paths))
    agent = agent_with(MemoryStore(), batch, "done", approval=rules)
    result = await agent.run("go", conversation="c")
    assert ran == [("delete", str(tmp_path / "work/a"))]
    assert [p.call_id for p in result.pending] == ["other/b"]
    assert "allow this call" in result.messages[-1].tool_results[2].text


async def test_tools_known_at_run_time_and_slips() -> None:
    """A tool by schema, as MCP servers give them; a rule that cannot be judged asks."""
    schema = {"properties": {"command": {"type": "string"}}}

    def run_it(arguments: dict[str, Any]) -> str:
        ran.append(arguments["command"])
        return "ok"

    shell = Tool.from_schema("box_shell", "Run.", schema, run_it)
    rules = Rules(
        Rule("deny", "box_*", {"command": Contains("rm ")}),
        Rule("allow", "box_shell", {"comand": "ls"}),
    )
    commands = ("rm -rf /", "ls")
    batch = calls(*((str(n), "box_shell", {"command": c}) for n, c in enumerate(commands, 1)))
    agent = agent_with(MemoryStore(), batch, "done", tools=[shell], approval=rules)
    result = await agent.run("go", conversation="c")
    assert (ran, [p.call_id for p in result.pending]) == ([], ["2"])
    assert "no argument 'comand'" in result.pending[0].reason
    conversation = await Conversation.open("c", store=agent.store or MemoryStore())
    asked = [e for _, e in await conversation.entries() if isinstance(e, ApprovalAsked)]
    assert [e.rule for e in asked] == ["allow box_shell by comand"]


async def test_what_is_no_rules() -> None:
    """It is told at once, for an agent, a run and a tool."""
    wrong: Any = [Rule("ask")]
    with pytest.raises(ConfigError, match="approval"):
        Agent("a", ScriptedModel([]), approval=wrong)
    with pytest.raises(ConfigError, match="approval"):
        await agent_with(MemoryStore(), "x").run("go", approval=wrong)
    with pytest.raises(InvalidTool, match="approval"):
        tool(name="t", approval=wrong)(lambda: 1)
