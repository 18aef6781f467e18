"""What an agent that plans is told."""

from __future__ import annotations

PLANNING = """\
Planning: when the task takes several steps, call generate_plan before you begin, with 3 to 7 \
steps and what each depends on. Find out first what you do not know yet. Follow the plan; call \
update_plan when a step begins, and as soon as it is done and you have checked that it is. When \
things turn out otherwise, change or add steps, or make a new plan. A simple question needs none."""
