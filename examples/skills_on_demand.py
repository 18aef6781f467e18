"""An agent that reads the skill which a question needs, and one of its files."""

from pathlib import Path

from treadle import Agent, load_skills, tool
from treadle.testing import ScriptedModel, calls

RATES = {"skill": "invoice-check", "path": "references/rates.md"}
SCRIPT = [
    calls(("c1", "load_skill", {"name": "invoice-check"})),
    calls(("c2", "read_skill_file", RATES), ("c3", "net_of", {"gross": 119, "rate": 19})),
    "The invoice is right: 100 net and 19 of VAT.",
]


@tool
async def net_of(gross: float, rate: float) -> float:
    """Take the VAT off an amount; the rate is in percent."""
    return round(gross / (1 + rate / 100), 2)


model = ScriptedModel(SCRIPT)
skills = load_skills(Path(__file__).parent / "skills")
agent = Agent("clerk", model, tools=[net_of], skills=skills)
result = agent.run_sync("119 euros from Germany, of which 19 are VAT. Is that right?")

print(*model.requests[0].system.splitlines()[1:], sep="\n")
# > - haiku: Write a haiku. Use when a short poem is asked for.
# > - invoice-check: Check an invoice. Use before one is paid, or when somebody asks about it.
for each in result.tool_results:
    print(each.name, "->", each.text.splitlines()[-1])
# > load_skill -> references/rates.md
# > read_skill_file -> | Luxembourg | 17 % |
# > net_of -> 100.0
print(result.output)
# > The invoice is right: 100 net and 19 of VAT.
