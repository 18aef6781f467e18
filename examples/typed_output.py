"""An answer as a value of your own type; what does not fit is asked for again."""

from dataclasses import dataclass
from decimal import Decimal

from treadle import Agent
from treadle.testing import ScriptedModel


@dataclass
class Invoice:
    """What to read out of a text."""

    number: str
    total: Decimal
    paid: bool = False


# A model that obeys JSON schemas is asked for text; any other one for a call of a tool.
model = ScriptedModel(
    ['{"number": "INV-1", "total": "a lot"}', '{"number": "INV-1", "total": "12.50"}'],
    native_output=True,
)
agent = Agent("extract", model, output_type=Invoice)

result = agent.run_sync("Invoice INV-1, 12.50 in all, to be paid.")
print(result.output)
# > Invoice(number='INV-1', total=Decimal('12.50'), paid=False)
print(result.turns)
# > 2
