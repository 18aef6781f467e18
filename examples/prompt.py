"""A prompt of sections as an agent's instructions; each run adds what it requires."""

from treadle import Agent, Prompt
from treadle.testing import ScriptedModel

prompt = Prompt().role("You answer letters.").constraints("Be kind.", "Sign as Ann.")
prompt.example("Where is my parcel?", "It is on its way. Ann")
formal = prompt.copy().constraints("Say nothing of prices.").context("The reader is a lawyer.")

model = ScriptedModel(["It is on its way. Ann", "It has been dispatched. Ann"])
desk = Agent("desk", model, instructions=prompt)
print(desk.run_sync("My parcel?", requirements=["At most ten words."]).output)
# > It is on its way. Ann
print(desk.run_sync("Where is the consignment?", instructions=formal).output)
# > It has been dispatched. Ann
for request in model.requests:
    print([line for line in request.system.splitlines() if line.startswith(("##", "Req"))])
# > ['## Role', '## Constraints', '## Examples', 'Requirements:']
# > ['## Role', '## Context', '## Constraints', '## Examples']
